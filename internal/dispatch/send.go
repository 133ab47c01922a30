package dispatch

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// flight is one attempt on its way. The loop makes it and does not touch it
// until it comes back; delivery and event are as they were at the start.
type flight struct {
	loop     *loop
	r        *resident
	it       *item
	dest     *destination
	delivery hook.Delivery
	event    *hook.Event

	kind         hook.AttemptKind
	tag          lane.Tag
	started      time.Time
	laneState    lane.State
	laneLimit    float64
	laneInFlight int

	header   http.Header // as sent
	answer   egress.Result
	answered time.Time
}

// fly makes the attempt and hands the result to the loop.
func (d *Dispatcher) fly(f *flight) {
	f.answer = d.attempt(f)
	f.answered = time.Now()
	f.loop.answered(f)
}

func (d *Dispatcher) attempt(f *flight) egress.Result {
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
	body := f.dest.body(event)
	now := time.Now()
	f.header = f.dest.headers(event, f.delivery, now, body)
	if !d.owner.mayStart() {
		return egress.Result{Reason: hook.Interrupted, Text: "lease ended before the request"}
	}
	f.started = now
	return d.cfg.Sender.Send(d.attempts, &egress.Request{
		URL: f.dest.url, Body: body, Header: f.header,
		Connect: f.dest.policy.Timeout.Connect, Total: f.dest.policy.Timeout.Total,
		FollowRedirects: f.dest.policy.Classify.Redirects.Mode == policy.RedirectFollow, MaxHops: f.dest.policy.Classify.Redirects.MaxHops,
		DropOnHostChange: f.dest.private,
	})
}

func (d *Dispatcher) fetch(f *flight) (hook.Event, error) {
	ctx, cancel := context.WithTimeout(d.attempts, readTimeout)
	defer cancel()
	return d.cfg.Store.Event(ctx, f.delivery.TenantID, f.delivery.EventID)
}

func local(text string, err error) egress.Result {
	return egress.Result{Reason: hook.LocalError, Text: text, Err: err}
}

// Header names in the canonical form of the header map.
const (
	headerContentType = "Content-Type"
	headerDelivery    = "Breakwater-Delivery"
	headerAttempt     = "Breakwater-Attempt"
)

// headers returns everything the request carries but what the client adds.
func (t *destination) headers(e *hook.Event, d hook.Delivery, now time.Time, body []byte) http.Header {
	h := make(http.Header, 6+len(t.custom))
	h[headerContentType] = []string{t.contentType(e)}
	h[headerDelivery] = []string{hook.DeliveryPrefix.Format(d.ID)}
	h[headerAttempt] = []string{strconv.Itoa(d.Attempts + 1)}
	for name, value := range t.custom {
		h[name] = []string{value}
	}
	t.signer.Sign(h, hook.EventPrefix.Format(e.ID), now, body)
	return h
}
