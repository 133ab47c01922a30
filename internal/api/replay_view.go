package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// replayView is a replay as the API shows it.
type replayView struct {
	ID                string          `json:"id"`
	Tenant            string          `json:"tenant"`
	Filter            json.RawMessage `json:"filter" doc:"What it is about, times resolved."`
	Status            string          `json:"status" enum:"queued,running,paused,done,cancelled"`
	PauseReason       *string         `json:"pause_reason" doc:"user or stuck: waits for a person; error_rate, breaker or endpoint_held: goes on by itself."`
	PerMinute         int             `json:"per_minute" doc:"Pace at the start."`
	CurrentPerMinute  int             `json:"current_per_minute"`
	MaxMultiple       float64         `json:"max_multiple"`
	PauseErrorPercent float64         `json:"pause_error_percent"`
	AsOf              stamp           `json:"as_of" doc:"What ended later is not part of it."`
	Progress          progressView    `json:"progress"`
	CreatedBy         string          `json:"created_by"`
	CreatedAt         stamp           `json:"created_at"`
	StartedAt         stamp           `json:"started_at"`
	FinishedAt        stamp           `json:"finished_at"`
	Version           int64           `json:"version"`
}

// progressView is how far a replay has come. In the end delivered, failed and
// skipped are the total.
type progressView struct {
	Total     *int64   `json:"total" doc:"null: too many to count beforehand."`
	Fed       int64    `json:"fed" doc:"Made pending again."`
	Delivered int64    `json:"delivered"`
	Failed    int64    `json:"failed" doc:"Dead again, or cancelled."`
	Skipped   int64    `json:"skipped" doc:"Not fed: pending, delivered meanwhile, or without an endpoint."`
	Percent   *float64 `json:"percent" doc:"Ended or skipped."`
	ETA       stamp    `json:"eta" doc:"Of a running replay, if every minute is clean."`
}

func showReplay(j *hook.ReplayJob, now time.Time) replayView {
	filter, err := json.Marshal(j.Filter)
	if err != nil {
		filter = emptyObject // cannot happen: it holds names and times
	}
	return replayView{
		ID:                hook.ReplayPrefix.Format(j.ID),
		Tenant:            hook.TenantPrefix.Format(j.TenantID),
		Filter:            filter,
		Status:            j.State.String(),
		PauseReason:       nullable(string(j.PauseReason)),
		PerMinute:         j.PerMinute,
		CurrentPerMinute:  j.CurrentPerMinute,
		MaxMultiple:       j.MaxMultiple,
		PauseErrorPercent: j.PauseErrorPercent,
		AsOf:              stamp(j.CreatedAt),
		Progress:          showProgress(j, now),
		CreatedBy:         j.CreatedBy,
		CreatedAt:         stamp(j.CreatedAt),
		StartedAt:         stamp(j.StartedAt),
		FinishedAt:        stamp(j.FinishedAt),
		Version:           j.Version,
	}
}

func showProgress(j *hook.ReplayJob, now time.Time) progressView {
	c := &j.Counts
	v := progressView{Fed: c.Fed, Delivered: c.Delivered, Failed: c.Failed, Skipped: c.Skipped}
	if j.Total < 0 {
		return v
	}
	percent := 100.0
	if j.Total > 0 {
		percent = min(100, math.Floor(float64(c.Delivered+c.Failed+c.Skipped)*1000/float64(j.Total))/10)
	}
	v.Total, v.Percent = &j.Total, &percent
	if left := j.Total - c.Fed - c.Skipped; j.State == hook.ReplayRunning && left > 0 {
		v.ETA = stamp(now.Add(paceOf(j).Estimate(left, j.CurrentPerMinute)))
	}
	return v
}

func paceOf(j *hook.ReplayJob) policy.Pace {
	return policy.Pace{PerMinute: j.PerMinute, Ramp: j.Ramp, MaxMultiple: j.MaxMultiple}
}

// replayPreview is the answer to a dry run.
type replayPreview struct {
	Count            int64                 `json:"count"`
	Exact            bool                  `json:"exact" doc:"false: there are at least that many."`
	EstimatedSeconds int64                 `json:"estimated_seconds" doc:"If every minute is clean."`
	PerEndpoint      []replayEndpointCount `json:"per_endpoint" nullable:"false"`
	Warnings         []string              `json:"warnings" nullable:"false"`
}

type replayEndpointCount struct {
	Endpoint string `json:"endpoint"`
	Count    int64  `json:"count"`
	State    string `json:"state" enum:"closed,open,paused,disabled,deleted" doc:"Of its lane, or why nothing is sent."`
}

// replayOrPreview is one of the two answers to a create.
type replayOrPreview struct {
	replay  *replayView
	preview *replayPreview
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
	return r.Schema(reflect.TypeFor[replayView](), true, "")
}

// forgetfulAfter is how long receivers are advised to remember what they got.
const forgetfulAfter = 7 * 24 * time.Hour

// previewReplay says what a replay would do.
func (a *API) previewReplay(ctx context.Context, c *call, d *replayDraft) (*replayPreview, error) {
	p := &replayPreview{Exact: d.job.Total >= 0, PerEndpoint: []replayEndpointCount{}, Warnings: []string{}}
	for _, n := range d.counts {
		p.Count += n
	}
	p.EstimatedSeconds = int64(paceOf(&d.job).Estimate(p.Count, d.job.PerMinute) / time.Second)
	if err := a.previewEndpoints(ctx, d, p); err != nil {
		return nil, err
	}
	if slices.Contains(d.job.Filter.States, hook.Delivered) {
		old := store.MatchOf(&d.job)
		old.States, old.SettledBy = []hook.DeliveryState{hook.Delivered}, c.now.Add(-forgetfulAfter)
		n, err := a.cfg.Store.CountMatching(ctx, old, store.Page{Limit: 1, Asc: true}) // the oldest first: there they are
		if err != nil {
			return nil, fmt.Errorf("count deliveries: %w", err)
		}
		if n.N > 0 {
			p.warn("some were delivered more than 7 days ago: receivers may have forgotten their ids and take them for new")
		}
	}
	return p, nil
}

func (p *replayPreview) warn(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

// previewEndpoints lists the endpoints, those with most deliveries first.
func (a *API) previewEndpoints(ctx context.Context, d *replayDraft, p *replayPreview) error {
	var ids []hook.ID
	for id := range d.counts {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil
	}
	slices.SortFunc(ids, func(a, b hook.ID) int { return cmp.Or(cmp.Compare(d.counts[b], d.counts[a]), cmp.Compare(a, b)) })
	dests, err := a.cfg.Store.Destinations(ctx, ids)
	if err != nil {
		return fmt.Errorf("read destinations: %w", err)
	}
	states := make(map[hook.ID]string, len(dests))
	for _, dest := range dests {
		states[dest.Endpoint.ID] = laneState(dest)
		if dest.Endpoint.State != hook.Active {
			states[dest.Endpoint.ID] = dest.Endpoint.State.String()
		}
	}
	skipped, waiting := int64(0), 0
	for _, id := range ids {
		state := cmp.Or(states[id], "deleted")
		p.PerEndpoint = append(p.PerEndpoint, replayEndpointCount{hook.EndpointPrefix.Format(id), d.counts[id], state})
		switch state {
		case "deleted", hook.Disabled.String():
			skipped += d.counts[id]
		case laneOpen, hook.Paused.String():
			waiting++
		}
	}
	if skipped > 0 {
		p.warn("%d belong to endpoints that are deleted or disabled and will be skipped", skipped)
	}
	if waiting > 0 {
		p.warn("%d of %d endpoints take nothing now: the replay will wait for them", waiting, len(ids))
	}
	return nil
}
