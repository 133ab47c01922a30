package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// slowStartWait bounds how long a replay waits for a slow start to end. A lane
// with work of its own has found its limit by then; one without stays in slow
// start until somebody sends, and that may be the replay.
const slowStartWait = 15 * time.Second

// laneOf returns what the lanes allow that the next deliveries go to.
func (r *Runner) laneOf(ctx context.Context, now time.Time, j *hook.ReplayJob) (laneState, error) {
	if j.AllFed() {
		return laneReady, nil // nothing more is added
	}
	spans, endpoints := j.EndpointID == 0, []hook.ID{j.EndpointID}
	if spans {
		n, _ := due(now, j)
		var err error
		if endpoints, err = r.cfg.Store.NextOfReplay(ctx, j, min(max(n, 1), maxStep)); err != nil {
			return 0, err
		}
	}
	if len(endpoints) == 0 {
		return laneReady, nil // the next step finds the end
	}
	dests, err := r.cfg.Lanes.Destinations(ctx, endpoints)
	if err != nil {
		return 0, fmt.Errorf("read lanes: %w", err)
	}
	if !spans && len(dests) == 0 {
		return laneGone, nil
	}
	worst := laneReady
	for i := range dests {
		if spans && dests[i].Endpoint.State == hook.Disabled {
			continue // its deliveries are skipped, and must not stop the others
		}
		worst = max(worst, stateOf(now, &dests[i]))
	}
	return worst, nil
}

// stateOf judges one lane by its checkpoint.
func stateOf(now time.Time, d *store.Destination) laneState {
	c := d.Lane
	switch {
	case d.Endpoint.State != hook.Active:
		return laneHeld
	case c == nil:
		return laneReady // it has never had anything to tell
	case c.Open:
		return laneOpen
	case now.Before(c.HoldUntil), c.SlowStart && now.Sub(c.ClosedAt) < slowStartWait:
		return laneSettling
	default:
		return laneReady
	}
}
