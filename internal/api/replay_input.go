package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/breakwaterhq/breakwater/internal/api/destination"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// EndedFilter picks deliveries that have ended, to replay or to discard them.
type EndedFilter struct {
	Endpoint    string   `json:"endpoint,omitempty" maxLength:"64" doc:"ep_… or uid; absent: all endpoints of the tenant."`
	Reasons     []string `json:"reasons,omitempty" maxItems:"20" doc:"Why they ended."`
	Types       []string `json:"types,omitempty" maxItems:"100" doc:"order.paid or order.*"`
	Since       string   `json:"since,omitempty" maxLength:"64" doc:"RFC 3339 time, or a duration meaning that long ago; inclusive."`
	Until       string   `json:"until,omitempty" maxLength:"64" doc:"As since; exclusive."`
	DeliveryIDs []string `json:"delivery_ids,omitempty" maxItems:"1000" doc:"These and no others."`
	All         bool     `json:"all,omitempty" doc:"Needed to take all dead letters, without any filter."`
}

// empty reports whether nothing is filtered.
func (f *EndedFilter) empty() bool {
	return f.Endpoint == "" && f.Since == "" && f.Until == "" && len(f.Reasons)+len(f.Types)+len(f.DeliveryIDs) == 0
}

type replayCreate struct {
	rest.TenantPath
	Body struct {
		EndedFilter
		Statuses          []string `json:"statuses,omitempty" maxItems:"3" doc:"dead, delivered, cancelled; absent: dead, or all three with delivery_ids."`
		PerMinute         int      `json:"per_minute,omitempty" minimum:"1" maximum:"100000" doc:"Pace at the start; absent: by policy."`
		MaxMultiple       float64  `json:"max_multiple,omitempty" minimum:"1" maximum:"1000" doc:"How many times that it may grow to; absent: by policy."`
		PauseErrorPercent float64  `json:"pause_error_percent,omitempty" minimum:"1" maximum:"100" doc:"Share of errors above which it pauses itself; absent: by policy."`
		IncludeMissing    bool     `json:"include_missing,omitempty" doc:"Also create deliveries for events since then that the endpoint asks for and has no delivery of: those accepted before it was there, or before it asked for them. Needs endpoint and since."`
		DryRun            bool     `json:"dry_run,omitempty" doc:"Only say what would be replayed and how long it would take."`
	}
}

// replayDraft is a replay that is not stored yet, with what it is about.
type replayDraft struct {
	job    hook.ReplayJob
	counts map[hook.ID]int64 // deliveries by endpoint
	more   bool              // there are more than were counted

	missing int64 // of them, to be created
}

// maxReplayCount is where counting the deliveries of a new replay stops. It is
// counted once, so it may take longer than a list.
const maxReplayCount = 1_000_000

// replayDraft checks a request and counts what it is about.
func (a *API) replayDraft(ctx context.Context, c *rest.Call, t hook.Tenant, in *replayCreate) (*replayDraft, error) {
	if in.Body.IncludeMissing {
		if err := checkMissing(&in.Body.EndedFilter); err != nil {
			return nil, err
		}
	}
	f, err := a.replayFilter(ctx, c, &in.Body.EndedFilter, in.Body.Statuses)
	if err != nil {
		return nil, err
	}
	if in.Body.IncludeMissing {
		e, err := a.endpoint(ctx, c, in.Body.Endpoint)
		if err != nil {
			return nil, err
		}
		f.Missing = &hook.MissingFilter{Types: e.Types, Filter: e.Filter}
	}
	d := &replayDraft{job: hook.ReplayJob{
		ID: a.cfg.IDs.Next(c.Now), TenantID: t.ID, EndpointID: f.Endpoint, Filter: f, State: hook.ReplayQueued,
		EndID: store.ReplayEnd(c.Now), CreatedBy: rest.KeyText(c.Key), CreatedAt: c.Now, UpdatedAt: c.Now, Version: 1,
	}}
	if d.counts, err = a.cfg.Store.CountByEndpoint(ctx, store.MatchOf(&d.job), maxReplayCount); err != nil {
		return nil, fmt.Errorf("count deliveries: %w", err)
	}
	if err := a.countMissing(ctx, c, d); err != nil {
		return nil, err
	}
	d.setTotal()
	pace, err := a.replayPace(ctx, t, d.job.EndpointID)
	if err != nil {
		return nil, err
	}
	d.setPace(pace, in)
	return d, nil
}

// checkMissing demands what bounds the events that are looked for: those of a tenant
// are many.
func checkMissing(b *EndedFilter) error {
	bad := &rest.Invalid{}
	if b.Endpoint == "" {
		bad.Add("endpoint", "required", "must name the endpoint that is to get the events, with include_missing")
	}
	if b.Since == "" {
		bad.Add("since", "required", "must say from when on events are looked for, with include_missing")
	}
	if len(b.DeliveryIDs) > 0 {
		bad.Add("delivery_ids", "not_allowed", "must not be given with include_missing: what is missing has no id")
	}
	return bad.Err()
}

// countMissing adds the events that deliveries are created for, until there are as many
// as are counted, or it takes too long.
func (a *API) countMissing(ctx context.Context, c *rest.Call, d *replayDraft) error {
	j := &d.job
	if j.Filter.Missing == nil {
		return nil
	}
	n, exact, err := a.cfg.Missing.Count(ctx, c.Now, j, max(maxReplayCount-d.counts[j.EndpointID], 0))
	if err != nil {
		return fmt.Errorf("count events without delivery: %w", err)
	}
	if n > 0 {
		d.counts[j.EndpointID] += n
	}
	d.missing, d.more = n, !exact
	return nil
}

// setTotal sums up. When all of it belongs to one endpoint the replay does too:
// then it need not wait for those of others.
func (d *replayDraft) setTotal() {
	j := &d.job
	for endpoint, n := range d.counts {
		j.Total += n
		if len(d.counts) == 1 {
			j.EndpointID = endpoint
		}
	}
	if j.Total >= maxReplayCount || d.more {
		j.Total, j.EndpointID = -1, j.Filter.Endpoint
	}
}

func (d *replayDraft) setPace(p policy.Replay, in *replayCreate) {
	j := &d.job
	j.PerMinute, j.Ramp = cmp.Or(in.Body.PerMinute, p.PerMinute), p.Ramp
	j.MaxMultiple = cmp.Or(in.Body.MaxMultiple, float64(p.MaxMultiple))
	j.PauseErrorPercent = cmp.Or(in.Body.PauseErrorPercent, p.PauseErrorPercent)
	j.CurrentPerMinute = j.PerMinute
}

// replayPace returns the pace by policy. A replay of a disabled endpoint is
// refused; a deleted one has none and is skipped later.
func (a *API) replayPace(ctx context.Context, t hook.Tenant, endpoint hook.ID) (policy.Replay, error) {
	e, err := a.replayed(ctx, endpoint)
	if err != nil {
		return policy.Replay{}, err
	}
	r, err := a.policies.Resolve(t.Level(), e.Level())
	if err != nil {
		return policy.Replay{}, fmt.Errorf("resolve policy: %w", err)
	}
	return r.Policy.Replay, nil
}

// replayFilter reads the filter; everything that is wrong is told at once.
func (a *API) replayFilter(ctx context.Context, c *rest.Call, b *EndedFilter, statuses []string) (hook.ReplayFilter, error) {
	bad := &rest.Invalid{}
	f := hook.ReplayFilter{Types: b.Types, All: b.All}
	if !b.All && b.empty() && len(statuses) == 0 {
		bad.AddAs("filter_empty", "all", "must be true to take every dead letter of the tenant")
		return f, bad
	}
	if b.Endpoint != "" {
		e, err := a.endpoint(ctx, c, b.Endpoint)
		switch {
		case errors.Is(err, hook.ErrNotFound):
			bad.Add("endpoint", "unknown", "names an endpoint that does not exist")
		case err != nil:
			return f, err
		}
		f.Endpoint = e.ID
	}
	f.States = replayStates(bad, statuses, len(b.DeliveryIDs) > 0)
	f.Reasons = parseList(bad, "reasons", b.Reasons, hook.ParseEndReason)
	f.Deliveries = parseList(bad, "delivery_ids", b.DeliveryIDs, hook.DeliveryPrefix.Parse)
	slices.Sort(f.Deliveries)
	f.Deliveries = slices.Compact(f.Deliveries)
	destination.CheckTypes(bad, b.Types)
	f.Since, f.Until = bad.Moment("since", b.Since, c.Now), bad.Moment("until", b.Until, c.Now)
	return f, bad.Err()
}

// replayStates reads the statuses that are replayed.
func replayStates(bad *rest.Invalid, names []string, byID bool) []hook.DeliveryState {
	switch {
	case len(names) == 0 && byID:
		return []hook.DeliveryState{hook.Delivered, hook.Dead, hook.Cancelled}
	case len(names) == 0:
		return []hook.DeliveryState{hook.Dead}
	}
	states := parseList(bad, "statuses", names, hook.ParseDeliveryState)
	if slices.Contains(states, hook.Pending) {
		bad.Add("statuses", "not_allowed", "must not hold pending: those are delivered anyway")
	}
	slices.Sort(states)
	return slices.Compact(states)
}

// parseList reads each text and names those that cannot be read.
func parseList[T any](bad *rest.Invalid, path string, texts []string, parse func(string) (T, error)) []T {
	var out []T
	for i, s := range texts {
		v, err := parse(s)
		if err != nil {
			bad.Add(rest.At(path, i), "invalid", err.Error())
			continue
		}
		out = append(out, v)
	}
	return out
}
