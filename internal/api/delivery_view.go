package api

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// deliveryView is a delivery as the API shows it.
type deliveryView struct {
	ID               string    `json:"id"`
	Tenant           string    `json:"tenant"`
	Event            string    `json:"event"`
	Endpoint         string    `json:"endpoint"`
	Type             string    `json:"type"`
	Status           string    `json:"status" enum:"pending,delivered,dead,cancelled"`
	View             *string   `json:"view" doc:"Of a pending delivery: held, retrying or null."`
	Reason           *string   `json:"reason" doc:"Why it is dead or cancelled."`
	Attempts         int       `json:"attempts"`
	Charged          int       `json:"charged" doc:"Attempts of this run that count."`
	Run              int       `json:"run"`
	DueAt            stamp     `json:"due_at"`
	WaitingFor       *string   `json:"waiting_for" doc:"Of a pending delivery that is due, what keeps it. paused: its endpoint is paused or disabled. open: the breaker is open. hold: the endpoint asked for silence. pace: its lane is paced, see paced_by of the lane. null: nothing; it is sent now, or as soon as requests before it have ended."`
	CreatedAt        stamp     `json:"created_at"`
	SettledAt        stamp     `json:"settled_at"`
	FirstDeliveredAt stamp     `json:"first_delivered_at"`
	ExpiresAt        stamp     `json:"expires_at" doc:"Of a pending delivery: the last moment a retry may be due."`
	Last             *lastView `json:"last" doc:"The latest attempt."`
	Replay           *string   `json:"replay"`
}

// lastView is the latest attempt of a delivery.
type lastView struct {
	Attempt    string  `json:"attempt"`
	StatusCode *int    `json:"status_code"`
	Class      string  `json:"class"`
	Reason     string  `json:"reason"`
	LatencyMS  float64 `json:"latency_ms"`
	At         stamp   `json:"at"`
}

const (
	viewHeld     = "held"
	viewRetrying = "retrying"
)

// holding says which endpoints of a page hold their deliveries at a moment, why,
// and how long deliveries may take there.
type holding struct {
	at    time.Time
	lanes map[hook.ID]laneFacts
}

type laneFacts struct {
	held       bool
	waiting    string // what is due waits for this
	maxElapsed time.Duration
}

// holdingOf reads what the views of pending deliveries depend on.
func (a *API) holdingOf(ctx context.Context, rows []store.DeliveryRow) (holding, error) {
	var ids []hook.ID
	seen := map[hook.ID]bool{}
	for _, r := range rows {
		if r.State == hook.Pending && !seen[r.EndpointID] {
			seen[r.EndpointID] = true
			ids = append(ids, r.EndpointID)
		}
	}
	h := holding{at: a.now()}
	if len(ids) == 0 {
		return h, nil
	}
	dests, err := a.cfg.Store.Destinations(ctx, ids)
	if err != nil {
		return h, fmt.Errorf("read destinations: %w", err)
	}
	h.lanes = make(map[hook.ID]laneFacts, len(dests))
	for _, d := range dests {
		p := a.policyOf(d)
		h.lanes[d.Endpoint.ID] = laneFacts{
			held: isHolding(d), waiting: waitAt(d, p.RateLimit.PerSecond, h.at), maxElapsed: p.Retry.MaxElapsed,
		}
	}
	return h, nil
}

func isHolding(d store.Destination) bool {
	return d.Endpoint.State != hook.Active || laneState(d) == laneOpen
}

// show shows a delivery.
func (h holding) show(r store.DeliveryRow) deliveryView {
	v := deliveryView{
		ID:               hook.DeliveryPrefix.Format(r.ID),
		Tenant:           hook.TenantPrefix.Format(r.TenantID),
		Event:            hook.EventPrefix.Format(r.EventID),
		Endpoint:         hook.EndpointPrefix.Format(r.EndpointID),
		Type:             r.Type,
		Status:           r.State.String(),
		Attempts:         r.Attempts,
		Charged:          r.Progress.Charged,
		Run:              r.Progress.Run,
		DueAt:            stamp(r.DueAt),
		CreatedAt:        stamp(r.ID.Time()),
		SettledAt:        stamp(r.SettledAt),
		FirstDeliveredAt: stamp(r.FirstDeliveredAt),
	}
	if r.Reason != 0 {
		v.Reason = nullable(r.Reason.String())
	}
	if r.ReplayID != 0 {
		v.Replay = nullable(hook.ReplayPrefix.Format(r.ReplayID))
	}
	if r.State == hook.Pending {
		f := h.lanes[r.EndpointID]
		if !r.DueAt.After(h.at) {
			v.WaitingFor = nullable(f.waiting)
		}
		switch {
		case f.held:
			v.View = nullable(viewHeld)
		case r.Attempts > 0:
			v.View = nullable(viewRetrying)
		}
		if f.maxElapsed > 0 && !r.Progress.RunDueAt.IsZero() {
			v.ExpiresAt = stamp(r.Progress.RunDueAt.Add(f.maxElapsed))
		}
	}
	if r.Last.AttemptID != 0 {
		v.Last = &lastView{
			Attempt:    hook.AttemptPrefix.Format(r.Last.AttemptID),
			StatusCode: statusCode(r.Last.Status),
			Class:      r.Last.Class.String(),
			Reason:     r.Last.Reason.String(),
			LatencyMS:  millis(r.Last.Latency),
			At:         stamp(r.Last.At),
		}
	}
	return v
}

// statusCode shows no answer as null.
func statusCode(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// attemptView is one request and its outcome.
type attemptView struct {
	ID         string          `json:"id"`
	Delivery   string          `json:"delivery"`
	Event      string          `json:"event"`
	Endpoint   string          `json:"endpoint"`
	Number     int             `json:"number"`
	Run        int             `json:"run"`
	Kind       string          `json:"kind" enum:"first,retry,probe,replay,manual"`
	Charged    bool            `json:"charged"`
	Class      string          `json:"class"`
	Reason     string          `json:"reason"`
	StatusCode *int            `json:"status_code"`
	Error      *string         `json:"error"`
	StartedAt  stamp           `json:"started_at"`
	LatencyMS  float64         `json:"latency_ms"`
	Phases     phasesView      `json:"phases" doc:"Milliseconds."`
	RemoteAddr *string         `json:"remote_addr"`
	Request    requestView     `json:"request"`
	Response   responseView    `json:"response"`
	RetryAfter *string         `json:"retry_after" doc:"The header as it came."`
	Wait       *waitView       `json:"wait" doc:"How the wait after this attempt was found; null when it was the last."`
	NextDueAt  stamp           `json:"next_due_at"`
	Lane       attemptLaneView `json:"lane"`
	PolicyHash string          `json:"policy_hash"`
	Node       *string         `json:"node"`
}

type phasesView struct {
	DNS       float64 `json:"dns"`
	Connect   float64 `json:"connect"`
	TLS       float64 `json:"tls"`
	FirstByte float64 `json:"first_byte"`
}

type requestView struct {
	URL     string              `json:"url"`
	Headers map[string][]string `json:"headers" doc:"Secrets are masked."`
}

type responseView struct {
	Headers    map[string][]string `json:"headers"`
	Body       string              `json:"body" doc:"Its beginning, when it is text."`
	BodyBase64 []byte              `json:"body_base64,omitempty" doc:"Its beginning, when it is not."`
	Truncated  bool                `json:"truncated"`
}

type waitView struct {
	Retry     int     `json:"retry"`
	CeilingMS float64 `json:"ceiling_ms"`
	U         float64 `json:"u" doc:"The number that was drawn."`
	DelayMS   float64 `json:"delay_ms"`
	Source    string  `json:"source" enum:"none,backoff,retry_after,throttle"`
}

type attemptLaneView struct {
	State    *string `json:"state"`
	Limit    float64 `json:"limit"`
	InFlight int     `json:"in_flight"`
}

func showAttempt(t hook.Attempt) attemptView {
	d := t.Detail
	v := attemptView{
		ID:         hook.AttemptPrefix.Format(t.ID),
		Delivery:   hook.DeliveryPrefix.Format(t.DeliveryID),
		Event:      hook.EventPrefix.Format(t.EventID),
		Endpoint:   hook.EndpointPrefix.Format(t.EndpointID),
		Number:     t.Number,
		Run:        t.Run,
		Kind:       t.Kind.String(),
		Charged:    t.Charged,
		Class:      t.Class.String(),
		Reason:     t.Reason.String(),
		StatusCode: statusCode(t.Status),
		Error:      nullable(t.Error),
		StartedAt:  stamp(t.StartedAt),
		LatencyMS:  millis(t.Latency),
		Phases: phasesView{
			DNS: millis(d.Phases.DNS), Connect: millis(d.Phases.Connect),
			TLS: millis(d.Phases.TLS), FirstByte: millis(d.Phases.FirstByte),
		},
		RemoteAddr: nullable(d.RemoteAddr),
		Request:    requestView{URL: d.URL, Headers: orNoHeaders(d.RequestHeaders)},
		Response:   responseView{Headers: orNoHeaders(d.ResponseHeaders), Truncated: d.Truncated},
		RetryAfter: nullable(d.RetryAfter),
		NextDueAt:  stamp(t.NextDueAt),
		Lane:       attemptLaneView{State: nullable(d.LaneState), Limit: d.LaneLimit, InFlight: d.LaneInFlight},
		PolicyHash: hashText(t.PolicyHash),
	}
	if utf8.Valid(t.Excerpt) {
		v.Response.Body = string(t.Excerpt)
	} else {
		v.Response.BodyBase64 = t.Excerpt
	}
	if t.NodeID != 0 {
		v.Node = nullable(hook.NodePrefix.Format(t.NodeID))
	}
	if !t.NextDueAt.IsZero() {
		v.Wait = &waitView{
			Retry: t.RetryN, CeilingMS: millis(t.Ceiling), U: t.U,
			DelayMS: millis(t.Delay), Source: t.DelaySource.String(),
		}
	}
	return v
}

func orNoHeaders(h map[string][]string) map[string][]string {
	if h == nil {
		return map[string][]string{}
	}
	return h
}
