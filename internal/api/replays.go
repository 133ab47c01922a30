package api

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// ReplayPath is a replay of a path.
type ReplayPath struct {
	rest.TenantPath
	Replay string `path:"replay" maxLength:"64"`
}

type replayList struct {
	rest.TenantPath
	rest.PageParams
	Status []string `query:"status,explode" doc:"queued, running, paused, done or cancelled; repeat for alternatives."`
}

// replayCreated is the answer to a new replay, or to a question about one.
type replayCreated struct {
	Status   int
	Location string `header:"Location"`
	Body     replayOrPreview
}

// DefaultStatus is that of a new replay.
func (*replayCreated) DefaultStatus() int { return http.StatusCreated }

const (
	replaysPath = tenantPath + "/replays"
	replayPath  = replaysPath + "/{replay}"
)

func (a *API) addReplayRoutes() {
	g := a.server.Group("replays")
	preview := &huma.Response{
		Description: "What would be replayed (dry_run)",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: a.server.Schema(reflect.TypeFor[view.ReplayPreview]())}},
	}
	rest.Add(g, rest.NeedRead, "GET "+replaysPath, "list-replays", "List replays", a.listReplays)
	rest.Add(g, rest.NeedWrite, "POST "+replaysPath, "create-replay", "Deliver dead, delivered or cancelled deliveries again", a.createReplay,
		rest.Describe("What matches now is made pending again, and with include_missing created, at a pace that grows while the destination copes. "+
			"One replay of an endpoint runs at a time, the next one waits."),
		rest.MayAnswer("200", preview))
	rest.Add(g, rest.NeedRead, "GET "+replayPath, "get-replay", "Get a replay", a.getReplay)
	rest.Add(g, rest.NeedWrite, "PATCH "+replayPath, "change-replay", "Change the pace of a replay", a.patchReplay)
	for _, act := range []struct {
		name, summary string
		change        func(*hook.ReplayJob)
	}{
		{"pause", "Stop feeding; what was fed goes on", pauseReplay},
		{"resume", "Go on from where it was, at the first pace", resumeReplay},
		{"cancel", "End it; what was not fed stays as it is", cancelReplay},
	} {
		rest.Add(g, rest.NeedWrite, "POST "+replayPath+"/"+act.name, act.name+"-replay", act.summary,
			func(ctx context.Context, c *rest.Call, in *replayAction) (*rest.Output[view.Replay], error) {
				return a.commandReplay(ctx, c, in, "replay."+act.name, act.change)
			})
	}
}

func (a *API) listReplays(ctx context.Context, c *rest.Call, in *replayList) (*rest.ListOutput[view.Replay], error) {
	read := func(p store.Page) ([]hook.ReplayJob, error) {
		var states []hook.ReplayState
		for _, s := range in.Status {
			state, err := hook.ParseReplayState(s)
			if err != nil {
				return nil, rest.BadParameter("query.status", err.Error())
			}
			states = append(states, state)
		}
		return a.cfg.Store.ListReplays(ctx, c.Tenant, states, p)
	}
	return rest.ListOf(a.server, c, in.PageParams, read,
		func(j hook.ReplayJob) hook.ID { return j.ID },
		func(j hook.ReplayJob) view.Replay { return view.OfReplay(&j, c.Now) })
}

func (a *API) replay(ctx context.Context, c *rest.Call, text string) (hook.ReplayJob, error) {
	return byID(ctx, c, hook.ReplayPrefix, text, a.cfg.Store.ReplayByID)
}

func (a *API) getReplay(ctx context.Context, c *rest.Call, in *ReplayPath) (*rest.Versioned[view.Replay], error) {
	j, err := a.replay(ctx, c, in.Replay)
	if err != nil {
		return nil, err
	}
	return &rest.Versioned[view.Replay]{ETag: rest.ETag(j.Version), Body: view.OfReplay(&j, c.Now)}, nil
}

// maxActiveReplays bounds the replays of a tenant that have not ended.
const maxActiveReplays = 100

func (a *API) createReplay(ctx context.Context, c *rest.Call, in *replayCreate) (*replayCreated, error) {
	t, err := a.tenant(ctx, c)
	if err != nil {
		return nil, err
	}
	d, err := a.replayDraft(ctx, c, t, in)
	if err != nil {
		return nil, err
	}
	if in.Body.DryRun {
		preview, err := a.previewReplay(ctx, c, d)
		if err != nil {
			return nil, err
		}
		return &replayCreated{Status: http.StatusOK, Body: replayOrPreview{preview: preview}}, nil
	}
	if err := a.cfg.TenantRoom(t); err != nil {
		return nil, fmt.Errorf("create replay: %w", err) // its attempts are stored
	}
	if err := a.checkReplayRoom(ctx, t.ID); err != nil {
		return nil, err
	}
	v := view.OfReplay(&d.job, c.Now)
	rec := a.server.Audit(c, t.ID, "replay.create", v.ID, map[string]any{
		"filter": v.Filter, "total": v.Progress.Total, "per_minute": v.PerMinute, "max_multiple": v.MaxMultiple,
	})
	if err := a.cfg.Store.CreateReplay(ctx, d.job, rec); err != nil {
		return nil, fmt.Errorf("create replay: %w", err)
	}
	return &replayCreated{
		Status: http.StatusCreated, Location: tenantsPath + "/" + v.Tenant + "/replays/" + v.ID,
		Body: replayOrPreview{replay: &v},
	}, nil
}

// checkReplayRoom keeps a tenant from queueing replays without end.
func (a *API) checkReplayRoom(ctx context.Context, tenant hook.ID) error {
	active := []hook.ReplayState{hook.ReplayQueued, hook.ReplayRunning, hook.ReplayPaused}
	list, err := a.cfg.Store.ListReplays(ctx, tenant, active, store.Page{Limit: maxActiveReplays})
	if err != nil {
		return fmt.Errorf("count replays: %w", err)
	}
	if len(list) == maxActiveReplays {
		return rest.Conflict("queued", fmt.Sprintf("%d replays of this tenant have not ended; cancel some or wait", maxActiveReplays))
	}
	return nil
}
