package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/shape"
	"github.com/breakwaterhq/breakwater/internal/window"
)

// flight is one attempt on its way. The loop makes it and does not touch it
// until it comes back; delivery and event are as they were at the start.
type flight struct {
	loop     *loop
	r        *runner
	it       *window.Item
	dest     *destination
	delivery hook.Delivery
	event    *hook.Event

	kind         hook.AttemptKind
	tag          lane.Tag
	hostLoad     float64 // on its host, itself included; 0: not counted
	started      time.Time
	laneState    lane.State
	laneLimit    float64
	laneInFlight int

	trace    hook.Trace     // of its event; only read for a Tracer
	header   []egress.Field // as sent
	answer   egress.Result
	answered time.Time
}

// newFlight returns one that has landed, if there is one: each is large, and
// there are never more than the slots allow.
func (l *loop) newFlight() *flight {
	last := len(l.landed) - 1
	if last < 0 {
		return &flight{}
	}
	f := l.landed[last]
	l.landed = l.landed[:last]
	return f
}

// fly makes the attempt and hands the result to the loop.
func (d *Dispatcher) fly(f *flight) {
	f.answer = d.attempt(f)
	f.answered = time.Now()
	f.loop.answered(f)
}

func (d *Dispatcher) attempt(f *flight) (res egress.Result) {
	defer func() {
		if p := recover(); p != nil {
			// What one endpoint brings about must not end the deliveries of all others.
			d.cfg.Log.Error("attempt panicked", "endpoint", hook.EndpointPrefix.Format(f.delivery.EndpointID),
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			res = local("a mistake of this server ended the attempt", errPanicked)
		}
	}()
	if f.dest.broken != nil {
		return local("signing key is unreadable", f.dest.broken)
	}
	event := f.event
	if event == nil {
		e, err := d.fetch(f)
		if err != nil {
			return local("event could not be read", err)
		}
		event = &e
	}
	d.trace(f, event)
	body := shape.Body(event, f.dest.mode)
	now := time.Now()
	f.header = f.dest.header(event, &f.delivery, now, body)
	f.started = now
	return d.cfg.Sender.Send(d.attempts, &egress.Request{
		Tenant: f.dest.tenant, URL: f.dest.url, Body: body, Header: f.header,
		Connect: f.dest.policy.Timeout.Connect, Total: f.dest.policy.Timeout.Total,
		FollowRedirects: f.dest.policy.Classify.Redirects.Mode == policy.RedirectFollow, MaxHops: f.dest.policy.Classify.Redirects.MaxHops,
		DropOnHostChange: f.dest.private,
		MayStart:         func() bool { return d.owner.MayStart(f.r.shard, f.r.epoch) },
	})
}

func (d *Dispatcher) fetch(f *flight) (hook.Event, error) {
	ctx, cancel := context.WithTimeout(d.attempts, readTimeout)
	defer cancel()
	return d.cfg.Store.Event(ctx, f.delivery.TenantID, f.delivery.EventID)
}

var errPanicked = errors.New("attempt panicked")

func local(text string, err error) egress.Result {
	return egress.Result{Reason: hook.LocalError, Text: text, Err: err}
}

// Header names in canonical form.
const (
	headerContentType = "Content-Type"
	headerDelivery    = "Breakwater-Delivery"
	headerAttempt     = "Breakwater-Attempt"
)

// header returns all headers of one attempt.
func (t *destination) header(e *hook.Event, d *hook.Delivery, now time.Time, body []byte) []egress.Field {
	_, hops := hook.CutHops(e.ContentType)
	all := append(make([]egress.Field, 0, 8+len(t.signatures)+len(t.custom)),
		egress.Field{Name: headerAttempt, Value: strconv.Itoa(d.Attempts + 1)},
		egress.Field{Name: headerDelivery, Value: hook.DeliveryPrefix.Format(d.ID)},
		egress.Field{Name: hook.HeaderHops, Value: strconv.Itoa(hops + 1)},
		egress.Field{Name: hook.HeaderType, Value: e.Type},
		egress.Field{Name: headerContentType, Value: shape.Type(e, t.mode)},
	)
	set := func(name, value string) { all = append(all, egress.Field{Name: name, Value: value}) }
	shape.Headers(e, t.mode, set)
	if t.traced {
		sendTrace(set, e)
	}
	t.signer.Sign(set, hook.EventPrefix.Format(e.ID), now, body)
	return append(all, t.custom...)
}

// sendTrace sets the headers of the trace that an event belongs to, if there is
// one.
func sendTrace(set func(name, value string), e *hook.Event) {
	_, trace := hook.CutTrace(e.ContentType)
	if trace.Parent != "" {
		set(hook.HeaderTraceParent, trace.Parent)
	}
	if trace.State != "" {
		set(hook.HeaderTraceState, trace.State)
	}
}
