package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// The states of a lane as its checkpoint tells them: a probe in flight is saved
// as open.
const (
	laneClosed = "closed"
	laneOpen   = "open"
)

// laneView is the lane of an endpoint, from its last checkpoint.
type laneView struct {
	Endpoint      string   `json:"endpoint"`
	Tenant        string   `json:"tenant"`
	Shard         int      `json:"shard"`
	State         string   `json:"state" enum:"closed,open" doc:"Of the breaker. An open lane holds its deliveries and sends one probe at a time."`
	Status        string   `json:"status" enum:"active,paused,disabled" doc:"Of the endpoint."`
	Paused        bool     `json:"paused" doc:"The endpoint is paused or disabled."`
	OpenedAt      stamp    `json:"opened_at" doc:"null: it is closed."`
	OpenReason    *string  `json:"open_reason" doc:"consecutive: too many failures in a row. ratio: too many of the latest first attempts failed. null: it is closed."`
	ClosedAt      stamp    `json:"closed_at" doc:"When it last closed; null: it never opened."`
	HoldUntil     stamp    `json:"hold_until" doc:"The destination asked for silence until then."`
	NextProbeAt   stamp    `json:"next_probe_at" doc:"null: it is closed."`
	Limit         float64  `json:"limit" doc:"Requests in flight."`
	LimitMode     string   `json:"limit_mode" enum:"adaptive,fixed"`
	SlowStart     bool     `json:"slow_start" doc:"The limit is on its way up from 1, by leaps: no queue has shown yet."`
	BaseLatencyMS *float64 `json:"base_latency_ms" doc:"How long the endpoint takes without load, which is what the adaptive limit compares with; null: not known yet."`
	PacedBy       *string  `json:"paced_by" doc:"What keeps requests apart, the strictest if several do. throttle: the endpoint refused more. ceiling: more broke it before. recovery: it has just come back. host: other endpoints of its host came back with it. rate_limit: the policy says so. null: nothing. Of an open lane: what will pace it once it is closed."`
	RatePerSecond *float64 `json:"rate_per_second" doc:"Requests that may start per second now; null: not paced."`

	Learnt learntView `json:"learnt" doc:"What it knows of its endpoint, in requests per second. reset forgets it."`

	Storm      stormView      `json:"storm" doc:"Retries compared with first attempts."`
	RetryQueue retryQueueView `json:"retry_queue" doc:"What waits for another attempt."`
}

func (a *API) addLaneRoutes() {
	tags := []string{"endpoints"}
	register(a, huma.Operation{
		OperationID: "get-lane", Method: http.MethodGet, Path: endpointPath + "/lane",
		Summary: "Get the lane of an endpoint", Tags: tags,
	}, needRead, func(ctx context.Context, c *call, in *endpointInput) (*output[laneView], error) {
		e, err := a.endpoint(ctx, c, in.Endpoint)
		if err != nil {
			return nil, err
		}
		return a.laneOf(ctx, e)
	})
	register(a, huma.Operation{
		OperationID: "get-endpoint-policy", Method: http.MethodGet, Path: endpointPath + "/policy",
		Summary: "Get the resolved policy and where each value came from", Tags: tags,
	}, needRead, a.getPolicy)
	register(a, huma.Operation{
		OperationID: "list-lanes", Method: http.MethodGet, Path: tenantPath + "/lanes",
		Summary: "List lanes", Tags: tags,
	}, needRead, func(ctx context.Context, c *call, in *laneList) (*listOutput[laneView], error) {
		return a.listLanes(ctx, c, in.PageParams, in.LaneParams)
	})
	register(a, huma.Operation{
		OperationID: "list-all-lanes", Method: http.MethodGet, Path: "/v1/lanes",
		Summary: "List lanes of all tenants", Tags: tags,
	}, needAdminRead, func(ctx context.Context, c *call, in *allLaneList) (*listOutput[laneView], error) {
		return a.listLanes(ctx, c, in.PageParams, in.LaneParams)
	})
}

// laneState says whether a destination's lane is open.
func laneState(d store.Destination) string {
	if d.Lane != nil && d.Lane.Open {
		return laneOpen
	}
	return laneClosed
}

// laneOf shows the lane of an endpoint.
func (a *API) laneOf(ctx context.Context, e hook.Endpoint) (*output[laneView], error) {
	s, err := a.surroundOne(ctx, e)
	if err != nil {
		return nil, err
	}
	r, err := a.resolve(s.TenantPolicy, e.Policy)
	if err != nil {
		return nil, err
	}
	v := showLane(s.Destination, &r.Policy, a.now())
	if v.Storm, v.RetryQueue, err = a.watchOf(ctx, e.ID); err != nil {
		return nil, err
	}
	return &output[laneView]{Body: v}, nil
}

func showLane(d store.Destination, p *policy.Policy, now time.Time) laneView {
	e := d.Endpoint
	v := laneView{
		Endpoint:  hook.EndpointPrefix.Format(e.ID),
		Tenant:    hook.TenantPrefix.Format(e.TenantID),
		Shard:     hook.ShardOf(e.ID),
		State:     laneState(d),
		Status:    e.State.String(),
		Paused:    e.State != hook.Active,
		LimitMode: string(p.Concurrency.Mode),
		Limit:     float64(max(p.Concurrency.Limit, p.Concurrency.Initial)),
	}
	v.PacedBy, v.RatePerSecond = pacingOf(d, p.RateLimit.PerSecond, now)
	cp := d.Lane
	if cp == nil {
		return v
	}
	v.Learnt = showLearnt(d, now)
	if cp.Open {
		v.OpenedAt, v.OpenReason = stamp(cp.OpenedAt), nullable(cp.OpenReason.String())
		v.NextProbeAt = stamp(cp.NextProbeAt)
	}
	v.ClosedAt, v.HoldUntil = stamp(cp.ClosedAt), stamp(cp.HoldUntil)
	v.SlowStart = cp.SlowStart
	if cp.Limit > 0 {
		v.Limit = cp.Limit
	}
	if cp.BaseLatency > 0 {
		ms := millis(cp.BaseLatency)
		v.BaseLatencyMS = &ms
	}
	return v
}

// policyView is a resolved policy.
type policyView struct {
	Resolved json.RawMessage   `json:"resolved" doc:"Every value."`
	Origin   map[string]string `json:"origin" doc:"Which level or preset set the value at a path."`
	Hash     string            `json:"hash"`
	Ladder   []stepView        `json:"ladder" nullable:"false"`
	Span     spanView          `json:"span"`
	Warnings []string          `json:"warnings" nullable:"false"`
}

// stepView is one retry; durations count from the attempt before, cumulative
// ones from the first attempt.
type stepView struct {
	Attempt        int    `json:"attempt"`
	Ceiling        string `json:"ceiling"`
	Min            string `json:"min"`
	Mean           string `json:"mean"`
	Max            string `json:"max"`
	CumulativeMean string `json:"cumulative_mean"`
	CumulativeMax  string `json:"cumulative_max"`
}

// spanView is the time from the first to the last attempt.
type spanView struct {
	Mean string `json:"mean"`
	P5   string `json:"p5"`
	P95  string `json:"p95"`
	Max  string `json:"max"`
}

func (a *API) getPolicy(ctx context.Context, c *call, in *endpointInput) (*output[policyView], error) {
	e, err := a.endpoint(ctx, c, in.Endpoint)
	if err != nil {
		return nil, err
	}
	s, err := a.surroundOne(ctx, e)
	if err != nil {
		return nil, err
	}
	r, err := a.resolve(s.TenantPolicy, e.Policy)
	if err != nil {
		return nil, err
	}
	return showPolicy(r)
}

func showPolicy(r *policy.Resolved) (*output[policyView], error) {
	full, err := json.Marshal(r.Policy)
	if err != nil {
		return nil, err
	}
	v := policyView{
		Resolved: full,
		Origin:   r.Origin,
		Hash:     hashText(r.Hash),
		Ladder:   showLadder(&r.Policy),
		Span:     showSpan(&r.Policy),
		Warnings: r.Warnings,
	}
	if v.Warnings == nil {
		v.Warnings = []string{}
	}
	return &output[policyView]{Body: v}, nil
}

func showLadder(p *policy.Policy) []stepView {
	out := []stepView{}
	for _, s := range p.Ladder() {
		out = append(out, stepView{
			Attempt:        s.N + 1,
			Ceiling:        quantity.FormatDuration(s.Ceiling),
			Min:            quantity.FormatDuration(s.Earliest),
			Mean:           quantity.FormatDuration(s.Mean),
			Max:            quantity.FormatDuration(s.Latest),
			CumulativeMean: quantity.FormatDuration(s.CumulativeMean),
			CumulativeMax:  quantity.FormatDuration(s.CumulativeLatest),
		})
	}
	return out
}

func showSpan(p *policy.Policy) spanView {
	s := p.Span()
	return spanView{
		Mean: quantity.FormatDuration(s.Mean), P5: quantity.FormatDuration(s.P5),
		P95: quantity.FormatDuration(s.P95), Max: quantity.FormatDuration(s.Latest),
	}
}
