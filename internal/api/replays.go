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

type replayInput struct {
	ReplayPath
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

const (
	replaysPath = tenantPath + "/replays"
	replayPath  = replaysPath + "/{replay}"
)

func (a *API) addReplayRoutes() {
	tags := []string{"replays"}
	preview := &huma.Response{
		Description: "What would be replayed (dry_run)",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: a.server.Schema(reflect.TypeFor[view.ReplayPreview]())}},
	}
	rest.Register(a.server, huma.Operation{
		OperationID: "list-replays", Method: http.MethodGet, Path: replaysPath, Summary: "List replays", Tags: tags,
	}, rest.NeedRead, a.listReplays)
	rest.Register(a.server, huma.Operation{
		OperationID: "create-replay", Method: http.MethodPost, Path: replaysPath,
		Summary: "Deliver dead, delivered or cancelled deliveries again", Tags: tags, DefaultStatus: http.StatusCreated,
		Description: "What matches now is made pending again, at a pace that grows while the destination copes. " +
			"One replay of an endpoint runs at a time, the next one waits.",
		Responses: map[string]*huma.Response{"200": preview},
	}, rest.NeedWrite, a.createReplay)
	rest.Register(a.server, huma.Operation{
		OperationID: "get-replay", Method: http.MethodGet, Path: replayPath, Summary: "Get a replay", Tags: tags,
	}, rest.NeedRead, a.getReplay)
	rest.Register(a.server, huma.Operation{
		OperationID: "change-replay", Method: http.MethodPatch, Path: replayPath, Summary: "Change the pace of a replay", Tags: tags,
	}, rest.NeedWrite, a.patchReplay)
	for _, act := range []struct {
		name, summary string
		change        func(*hook.ReplayJob)
	}{
		{"pause", "Stop feeding; what was fed goes on", pauseReplay},
		{"resume", "Go on from where it was, at the first pace", resumeReplay},
		{"cancel", "End it; what was not fed stays as it is", cancelReplay},
	} {
		rest.Register(a.server, huma.Operation{
			OperationID: act.name + "-replay", Method: http.MethodPost, Path: replayPath + "/" + act.name, Summary: act.summary, Tags: tags,
		}, rest.NeedWrite, func(ctx context.Context, c *rest.Call, in *replayAction) (*rest.Output[view.Replay], error) {
			return a.commandReplay(ctx, c, in, "replay."+act.name, act.change)
		})
	}
}

func (a *API) listReplays(ctx context.Context, c *rest.Call, in *replayList) (*rest.ListOutput[view.Replay], error) {
	page, err := a.server.Page(c, in.PageParams)
	if err != nil {
		return nil, err
	}
	var states []hook.ReplayState
	for _, s := range in.Status {
		state, err := hook.ParseReplayState(s)
		if err != nil {
			return nil, rest.BadParameter("query.status", err.Error())
		}
		states = append(states, state)
	}
	rows, err := a.cfg.Store.ListReplays(ctx, c.Tenant, states, page)
	if err != nil {
		return nil, fmt.Errorf("list replays: %w", err)
	}
	return rest.Paged(a.server, c, in.PageParams, rows,
		func(j hook.ReplayJob) hook.ID { return j.ID },
		func(j hook.ReplayJob) view.Replay { return view.OfReplay(&j, c.Now) })
}

func (a *API) replay(ctx context.Context, c *rest.Call, text string) (hook.ReplayJob, error) {
	id, err := hook.ReplayPrefix.Parse(text)
	if err != nil {
		return hook.ReplayJob{}, hook.ErrNotFound
	}
	return a.cfg.Store.ReplayByID(ctx, c.Tenant, id)
}

func (a *API) getReplay(ctx context.Context, c *rest.Call, in *replayInput) (*rest.Versioned[view.Replay], error) {
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
