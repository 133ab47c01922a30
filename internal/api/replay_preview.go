package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// replayOrPreview is one of the two answers to a create.
type replayOrPreview struct {
	replay  *view.Replay
	preview *view.ReplayPreview
}

// MarshalJSON writes the one that is there.
func (r replayOrPreview) MarshalJSON() ([]byte, error) {
	if r.preview != nil {
		return json.Marshal(r.preview)
	}
	return json.Marshal(r.replay)
}

// Schema describes the usual answer; the route describes the other one.
func (replayOrPreview) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[view.Replay](), true, "")
}

// forgetfulAfter is how long receivers are advised to remember what they got.
const forgetfulAfter = 7 * 24 * time.Hour

// previewReplay says what a replay would do.
func (a *API) previewReplay(ctx context.Context, c *rest.Call, d *replayDraft) (*view.ReplayPreview, error) {
	p := &view.ReplayPreview{Exact: d.job.Total >= 0, Missing: d.missing, PerEndpoint: []view.ReplayEndpointCount{}, Warnings: []string{}}
	for _, n := range d.counts {
		p.Count += n
	}
	p.SetPace(&d.job)
	if err := a.previewEndpoints(ctx, d, p); err != nil {
		return nil, err
	}
	if kept := a.cfg.Retention; d.job.Filter.Missing != nil && kept > 0 && d.job.Filter.Since.Before(c.Now.Add(-kept)) {
		p.Warn("events that are older than %s are removed: none of those is sent", quantity.FormatDuration(kept))
	}
	if slices.Contains(d.job.Filter.States, hook.Delivered) {
		old := store.MatchOf(&d.job)
		old.States, old.SettledBy = []hook.DeliveryState{hook.Delivered}, c.Now.Add(-forgetfulAfter)
		n, err := a.cfg.Store.CountMatching(ctx, old, store.Page{Limit: 1, Asc: true}) // the oldest first: there they are
		if err != nil {
			return nil, fmt.Errorf("count deliveries: %w", err)
		}
		if n.N > 0 {
			p.Warn("some were delivered more than 7 days ago: receivers may have forgotten their ids and take them for new")
		}
	}
	return p, nil
}

// previewEndpoints lists the endpoints, those with most deliveries first.
func (a *API) previewEndpoints(ctx context.Context, d *replayDraft, p *view.ReplayPreview) error {
	ids := slices.SortedFunc(maps.Keys(d.counts), func(a, b hook.ID) int {
		return cmp.Or(cmp.Compare(d.counts[b], d.counts[a]), cmp.Compare(a, b))
	})
	dests, err := a.destinations(ctx, ids)
	if err != nil {
		return err
	}
	skipped, waiting := int64(0), 0
	for _, id := range ids {
		state := "deleted"
		if dest, ok := dests[id]; ok {
			if state = view.LaneState(dest); dest.Endpoint.State != hook.Active {
				state = dest.Endpoint.State.String()
			}
		}
		p.PerEndpoint = append(p.PerEndpoint, view.ReplayEndpointCount{Endpoint: hook.EndpointPrefix.Format(id), Count: d.counts[id], State: state})
		switch state {
		case "deleted", hook.Disabled.String():
			skipped += d.counts[id]
		case view.LaneOpen, hook.Paused.String():
			waiting++
		}
	}
	if skipped > 0 {
		p.Warn("%d belong to endpoints that are deleted or disabled and will be skipped", skipped)
	}
	if waiting > 0 {
		p.Warn("%d of %d endpoints take nothing now: the replay will wait for them", waiting, len(ids))
	}
	return nil
}
