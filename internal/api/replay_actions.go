package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

type replayAction struct {
	ReplayPath
	Noted
}

type replayPatch struct {
	ReplayPath
	rest.IfMatch
	Body struct {
		PerMinute   rest.Change[int]     `json:"per_minute,omitzero" minimum:"1" maximum:"100000" doc:"The pace starts from here."`
		MaxMultiple rest.Change[float64] `json:"max_multiple,omitzero" minimum:"1" maximum:"1000"`
	}
}

func (a *API) patchReplay(ctx context.Context, c *rest.Call, in *replayPatch) (*rest.Versioned[view.Replay], error) {
	bad := &rest.Invalid{}
	if in.Body.PerMinute.Null {
		bad.Add("per_minute", "required", "is required")
	}
	if in.Body.MaxMultiple.Null {
		bad.Add("max_multiple", "required", "is required")
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return rest.Update(in.IfMatch, func() (*rest.Versioned[view.Replay], error) {
		before, err := a.replay(ctx, c, in.Replay)
		if err != nil {
			return nil, err
		}
		if err := in.Check(before.Version); err != nil {
			return nil, err
		}
		j := before
		in.Body.PerMinute.Apply(&j.PerMinute)
		in.Body.MaxMultiple.Apply(&j.MaxMultiple)
		if in.Body.PerMinute.Set {
			j.CurrentPerMinute = j.PerMinute
		}
		j.CurrentPerMinute = min(j.CurrentPerMinute, view.PaceOf(&j).Max())
		j, err = a.storeReplay(ctx, c, before, j, "replay.change", "")
		return &rest.Versioned[view.Replay]{ETag: rest.ETag(j.Version), Body: view.OfReplay(&j, c.Now)}, err
	})
}

// commandReplay changes the state of a replay on a person's word. Asked for the
// state it has, it changes nothing.
func (a *API) commandReplay(ctx context.Context, c *rest.Call, in *replayAction, action string, change func(*hook.ReplayJob)) (*rest.Output[view.Replay], error) {
	note, err := in.note()
	if err != nil {
		return nil, err
	}
	return rest.Update(rest.IfMatch{}, func() (*rest.Output[view.Replay], error) {
		before, err := a.replay(ctx, c, in.Replay)
		if err != nil {
			return nil, err
		}
		j := before
		j.UpdatedAt = c.Now
		change(&j)
		if j.State == hook.ReplayQueued && before.State == hook.ReplayPaused {
			if _, err := a.replayed(ctx, j.EndpointID); err != nil {
				return nil, err
			}
		}
		j, err = a.storeReplay(ctx, c, before, j, action, note)
		return &rest.Output[view.Replay]{Body: view.OfReplay(&j, c.Now)}, err
	})
}

// replayed reads the endpoint that a replay is about, which is empty when there
// are several or it is gone. One that is turned off takes nothing.
func (a *API) replayed(ctx context.Context, endpoint hook.ID) (hook.Endpoint, error) {
	if endpoint == 0 {
		return hook.Endpoint{}, nil
	}
	dests, err := a.destinations(ctx, []hook.ID{endpoint})
	if err != nil {
		return hook.Endpoint{}, err
	}
	e := dests[endpoint].Endpoint
	if e.State == hook.Disabled {
		return e, rest.NewProblem(http.StatusConflict, "endpoint_disabled", "the endpoint is disabled; resume it first")
	}
	return e, nil
}

// storeReplay stores a change of a replay that has not ended, if there is one.
func (a *API) storeReplay(ctx context.Context, c *rest.Call, before, after hook.ReplayJob, action, note string) (hook.ReplayJob, error) {
	if before.State.Ended() {
		return before, rest.Conflict(before.State.String(), "the replay has ended")
	}
	after.UpdatedAt = c.Now
	diff := diffOf(view.OfReplay(&before, c.Now), view.OfReplay(&after, c.Now))
	if len(diff) == 0 {
		return before, nil
	}
	if note != "" {
		diff["note"] = note
	}
	rec := a.server.Audit(c, after.TenantID, action, hook.ReplayPrefix.Format(after.ID), diff)
	stored, err := a.cfg.Store.UpdateReplay(ctx, after, &rec)
	if err != nil {
		return before, fmt.Errorf("store %s: %w", action, err)
	}
	return stored, nil
}

func pauseReplay(j *hook.ReplayJob) {
	if j.State == hook.ReplayPaused && j.PauseReason == hook.PausedByUser {
		return
	}
	j.State, j.PauseReason, j.PausedAt = hook.ReplayPaused, hook.PausedByUser, j.UpdatedAt
}

// resumeReplay puts a paused replay back in line, with a clean slate.
func resumeReplay(j *hook.ReplayJob) {
	if j.State != hook.ReplayPaused {
		return
	}
	j.State, j.PauseReason, j.CurrentPerMinute = hook.ReplayQueued, "", j.PerMinute
	j.SelfPauses, j.DeliveredAtPause = 0, j.Counts.Delivered
}

func cancelReplay(j *hook.ReplayJob) {
	j.State, j.PauseReason, j.FinishedAt = hook.ReplayCancelled, "", j.UpdatedAt
}
