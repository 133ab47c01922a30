package view

import (
	"time"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Delivery is a delivery as the API shows it.
type Delivery struct {
	ID               string  `json:"id"`
	Tenant           string  `json:"tenant"`
	Event            string  `json:"event"`
	Endpoint         string  `json:"endpoint"`
	Type             string  `json:"type"`
	Status           string  `json:"status" enum:"pending,delivered,dead,cancelled"`
	View             *string `json:"view" doc:"Of a pending delivery: held, retrying or null."`
	Reason           *string `json:"reason" doc:"Why it is dead or cancelled."`
	Attempts         int     `json:"attempts"`
	Charged          int     `json:"charged" doc:"Attempts of this run that count."`
	Run              int     `json:"run"`
	DueAt            Stamp   `json:"due_at"`
	WaitingFor       *string `json:"waiting_for" doc:"Of a pending delivery that is due, what keeps it. paused: its endpoint is paused or disabled. open: the breaker is open. hold: the endpoint asked for silence. pace: its lane is paced, see paced_by of the lane. null: nothing; it is sent now, or as soon as requests before it have ended."`
	CreatedAt        Stamp   `json:"created_at"`
	SettledAt        Stamp   `json:"settled_at"`
	FirstDeliveredAt Stamp   `json:"first_delivered_at"`
	ExpiresAt        Stamp   `json:"expires_at" doc:"Of a pending delivery: the last moment a retry may be due."`
	KeptUntil        Stamp   `json:"kept_until" doc:"Of a delivery that has ended: retention removes it then, or later."`
	Last             *Last   `json:"last" doc:"The latest attempt."`
	Replay           *string `json:"replay"`
}

// Last is the latest attempt of a delivery.
type Last struct {
	Attempt    string  `json:"attempt"`
	StatusCode *int    `json:"status_code"`
	Class      string  `json:"class"`
	Reason     string  `json:"reason"`
	LatencyMS  float64 `json:"latency_ms"`
	At         Stamp   `json:"at"`
}

// Views of pending deliveries.
const (
	Held     = "held"
	Retrying = "retrying"
)

// OfDelivery shows a delivery at a moment. l tells of the lane of a pending one.
func OfDelivery(r store.DeliveryRow, l LaneFacts, at time.Time) Delivery {
	v := Delivery{
		ID:               hook.DeliveryPrefix.Format(r.ID),
		Tenant:           hook.TenantPrefix.Format(r.TenantID),
		Event:            hook.EventPrefix.Format(r.EventID),
		Endpoint:         hook.EndpointPrefix.Format(r.EndpointID),
		Type:             r.Type,
		Status:           r.State.String(),
		Attempts:         r.Attempts,
		Charged:          r.Progress.Charged,
		Run:              r.Progress.Run,
		DueAt:            Stamp(r.DueAt),
		CreatedAt:        Stamp(r.ID.Time()),
		SettledAt:        Stamp(r.SettledAt),
		FirstDeliveredAt: Stamp(r.FirstDeliveredAt),
		Replay:           IDOrNull(hook.ReplayPrefix, r.ReplayID),
	}
	if r.Reason != 0 {
		v.Reason = Nullable(r.Reason.String())
	}
	if r.State == hook.Pending {
		if !r.DueAt.After(at) {
			v.WaitingFor = Nullable(l.Waiting)
		}
		switch {
		case l.Held:
			v.View = Nullable(Held)
		case r.Attempts > 0:
			v.View = Nullable(Retrying)
		}
		if l.MaxElapsed > 0 && !r.Progress.RunDueAt.IsZero() {
			v.ExpiresAt = Stamp(r.Progress.RunDueAt.Add(l.MaxElapsed))
		}
	}
	if r.Last.AttemptID != 0 {
		v.Last = &Last{
			Attempt:    hook.AttemptPrefix.Format(r.Last.AttemptID),
			StatusCode: statusCode(r.Last.Status),
			Class:      r.Last.Class.String(),
			Reason:     r.Last.Reason.String(),
			LatencyMS:  Millis(r.Last.Latency),
			At:         Stamp(r.Last.At),
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

// Attempt is one request and its outcome.
type Attempt struct {
	ID         string      `json:"id"`
	Delivery   string      `json:"delivery"`
	Event      string      `json:"event"`
	Endpoint   string      `json:"endpoint"`
	Number     int         `json:"number"`
	Run        int         `json:"run"`
	Kind       string      `json:"kind" enum:"first,retry,probe,replay,manual"`
	Charged    bool        `json:"charged"`
	Class      string      `json:"class"`
	Reason     string      `json:"reason"`
	StatusCode *int        `json:"status_code"`
	Error      *string     `json:"error"`
	StartedAt  Stamp       `json:"started_at"`
	LatencyMS  float64     `json:"latency_ms"`
	Phases     Phases      `json:"phases" doc:"Milliseconds."`
	RemoteAddr *string     `json:"remote_addr"`
	Request    Request     `json:"request"`
	Response   Response    `json:"response"`
	RetryAfter *string     `json:"retry_after" doc:"The header as it came."`
	Wait       *Wait       `json:"wait" doc:"How the wait after this attempt was found; null when it was the last."`
	NextDueAt  Stamp       `json:"next_due_at"`
	Lane       AttemptLane `json:"lane"`
	PolicyHash string      `json:"policy_hash"`
	Node       *string     `json:"node"`
}

// Phases are how long the parts of a request took.
type Phases struct {
	DNS       float64 `json:"dns"`
	Connect   float64 `json:"connect"`
	TLS       float64 `json:"tls"`
	FirstByte float64 `json:"first_byte"`
}

// Request is what was sent.
type Request struct {
	URL     string              `json:"url"`
	Headers map[string][]string `json:"headers" doc:"Secrets are masked."`
}

// Response is what came back.
type Response struct {
	Headers    map[string][]string `json:"headers"`
	Body       string              `json:"body" doc:"Its beginning, when it is text."`
	BodyBase64 []byte              `json:"body_base64,omitempty" doc:"Its beginning, when it is not."`
	Truncated  bool                `json:"truncated"`
}

// Wait is how the time until the next attempt was found.
type Wait struct {
	Retry     int     `json:"retry"`
	CeilingMS float64 `json:"ceiling_ms"`
	U         float64 `json:"u" doc:"The number that was drawn."`
	DelayMS   float64 `json:"delay_ms"`
	Source    string  `json:"source" enum:"none,backoff,retry_after,throttle,confirm"`
}

// AttemptLane is the lane as it was when the request started.
type AttemptLane struct {
	State    *string `json:"state"`
	Limit    float64 `json:"limit"`
	InFlight int     `json:"in_flight"`
}

// AttemptEntry is an attempt in a list over all deliveries: without request, answer
// and phases.
type AttemptEntry struct {
	ID         string  `json:"id"`
	Tenant     string  `json:"tenant"`
	Delivery   string  `json:"delivery"`
	Event      string  `json:"event"`
	Endpoint   string  `json:"endpoint"`
	Type       string  `json:"type" doc:"Of the event; empty when the event has left."`
	Number     int     `json:"number"`
	Run        int     `json:"run"`
	Kind       string  `json:"kind" enum:"first,retry,probe,replay,manual"`
	Charged    bool    `json:"charged"`
	Class      string  `json:"class"`
	Reason     string  `json:"reason"`
	StatusCode *int    `json:"status_code"`
	Error      *string `json:"error"`
	StartedAt  Stamp   `json:"started_at"`
	LatencyMS  float64 `json:"latency_ms"`
	Wait       *Wait   `json:"wait" doc:"How the wait after this attempt was found; null when it was the last."`
	NextDueAt  Stamp   `json:"next_due_at"`
	PolicyHash string  `json:"policy_hash"`
	Node       *string `json:"node"`
}

// OfAttemptRow shows an attempt of a list.
func OfAttemptRow(r store.AttemptRow) AttemptEntry {
	a := OfAttempt(r.Attempt)
	return AttemptEntry{
		ID: a.ID, Tenant: hook.TenantPrefix.Format(r.TenantID), Delivery: a.Delivery, Event: a.Event, Endpoint: a.Endpoint, Type: r.Type,
		Number: a.Number, Run: a.Run, Kind: a.Kind, Charged: a.Charged, Class: a.Class, Reason: a.Reason, StatusCode: a.StatusCode,
		Error: a.Error, StartedAt: a.StartedAt, LatencyMS: a.LatencyMS, Wait: a.Wait, NextDueAt: a.NextDueAt, PolicyHash: a.PolicyHash, Node: a.Node,
	}
}

// OfAttempt shows an attempt.
func OfAttempt(t hook.Attempt) Attempt {
	d := t.Detail
	v := Attempt{
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
		Error:      Nullable(t.Error),
		StartedAt:  Stamp(t.StartedAt),
		LatencyMS:  Millis(t.Latency),
		Phases: Phases{
			DNS: Millis(d.Phases.DNS), Connect: Millis(d.Phases.Connect),
			TLS: Millis(d.Phases.TLS), FirstByte: Millis(d.Phases.FirstByte),
		},
		RemoteAddr: Nullable(d.RemoteAddr),
		Request:    Request{URL: d.URL, Headers: OrEmptyMap(d.RequestHeaders)},
		Response:   Response{Headers: OrEmptyMap(d.ResponseHeaders), Truncated: d.Truncated},
		RetryAfter: Nullable(d.RetryAfter),
		NextDueAt:  Stamp(t.NextDueAt),
		Lane:       AttemptLane{State: Nullable(d.LaneState), Limit: Rounded(d.LaneLimit), InFlight: d.LaneInFlight},
		PolicyHash: Hash(t.PolicyHash),
		Node:       IDOrNull(hook.NodePrefix, t.NodeID),
	}
	if utf8.Valid(t.Excerpt) {
		v.Response.Body = string(t.Excerpt)
	} else {
		v.Response.BodyBase64 = t.Excerpt
	}
	if !t.NextDueAt.IsZero() {
		v.Wait = &Wait{
			Retry: t.RetryN, CeilingMS: Millis(t.Ceiling), U: Rounded(t.U),
			DelayMS: Millis(t.Delay), Source: t.DelaySource.String(),
		}
	}
	return v
}
