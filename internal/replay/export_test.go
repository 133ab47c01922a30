package replay

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// The pure part, for tests of its own.
type (
	Pacer     = pacer
	LaneState = laneState
)

const (
	LaneReady    = laneReady
	LaneSettling = laneSettling
	LaneOpen     = laneOpen
	LaneHeld     = laneHeld
	LaneGone     = laneGone
)

// Verdict is a verdict that can be read.
type Verdict struct {
	Job     hook.ReplayJob
	Changed bool
	Action  string
	Feed    int
	PacedAt time.Time
}

func (p *pacer) Step(now time.Time, j hook.ReplayJob, lane LaneState) Verdict {
	v := p.step(now, j, lane)
	return Verdict{v.job, v.changed, v.action, v.feed, v.pacedAt}
}

// StateOf judges one lane.
func StateOf(now time.Time, d *store.Destination) LaneState { return stateOf(now, d) }
