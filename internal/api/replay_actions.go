package api

import (
	"context"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

type replayAction struct {
	ReplayPath
	Body *noteBody
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
	var out *rest.Versioned[view.Replay]
	err := in.RetryUpdate(func() error {
		before, err := a.replay(ctx, c, in.Replay)
		if err != nil {
			return err
		}
		if err := in.Check(before.Version); err != nil {
			return err
		}
		j := before
		in.Body.PerMinute.Apply(&j.PerMinute)
		in.Body.MaxMultiple.Apply(&j.MaxMultiple)
		if in.Body.PerMinute.Set {
			j.CurrentPerMinute = j.PerMinute
		}
		j.CurrentPerMinute = min(j.CurrentPerMinute, view.PaceOf(&j).Max())
		j, err = a.storeReplay(ctx, c, before, j, "replay.change", "")
		out = &rest.Versioned[view.Replay]{ETag: rest.ETag(j.Version), Body: view.OfReplay(&j, c.Now)}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// commandReplay changes the state of a replay on a person's word. Asked for the
// state it has, it changes nothing.
func (a *API) commandReplay(ctx context.Context, c *rest.Call, in *replayAction, action string, change func(*hook.ReplayJob)) (*rest.Output[view.Replay], error) {
	note := ""
	if in.Body != nil {
		note = in.Body.Note
	}
	bad := &rest.Invalid{}
	bad.CheckText("note", note, 500)
	if err := bad.Err(); err != nil {
		return nil, err
	}
	var out *rest.Output[view.Replay]
	err := rest.IfMatch{}.RetryUpdate(func() error {
		before, err := a.replay(ctx, c, in.Replay)
		if err != nil {
			return err
		}
		j := before
		j.UpdatedAt = c.Now
		change(&j)
		if j.State == hook.ReplayQueued && before.State == hook.ReplayPaused {
			if err := a.checkResumable(ctx, &j); err != nil {
				return err
			}
		}
		j, err = a.storeReplay(ctx, c, before, j, action, note)
		out = &rest.Output[view.Replay]{Body: view.OfReplay(&j, c.Now)}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// checkResumable refuses to go on towards an endpoint that is turned off.
func (a *API) checkResumable(ctx context.Context, j *hook.ReplayJob) error {
	if j.EndpointID == 0 {
		return nil
	}
	dests, err := a.cfg.Store.Destinations(ctx, []hook.ID{j.EndpointID})
	if err != nil {
		return fmt.Errorf("read endpoint: %w", err)
	}
	for _, d := range dests {
		if d.Endpoint.State == hook.Disabled {
			return errEndpointDisabled()
		}
	}
	return nil
}

// storeReplay stores a change of a replay that has not ended, if there is one.
func (a *API) storeReplay(ctx context.Context, c *rest.Call, before, after hook.ReplayJob, action, note string) (hook.ReplayJob, error) {
	if before.State.Ended() {
		return before, rest.Conflict(before.State.String(), "the replay has ended")
	}
	after.UpdatedAt = c.Now
	diff := map[string]any{}
	for name, f := range diffOf(view.OfReplay(&before, c.Now), view.OfReplay(&after, c.Now)) {
		diff[name] = f
	}
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
