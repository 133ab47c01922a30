package dispatch_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/vault"
	"github.com/breakwaterhq/breakwater/receiver"
)

func TestHeadersOfARequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, always(200))
		defer r.close()
		e := r.endpointWith("", func(e *hook.Endpoint) {
			e.Signatures = append(e.Signatures, hook.Signature{Scheme: hook.SchemeStripe, Header: "acme-signature"})
			own := []byte(`{"x-token":"open sesame","Acme-Signature":"not this one"}`)
			var err error
			_, e.HeadersSealed, err = r.vault.Seal(e.TenantID, e.ID, vault.PurposeHeaders, own)
			r.must(err)
		})
		id := r.publish(e, 1)[0]
		time.Sleep(time.Second)

		// Sent: each header once, our signature before the endpoint's own value.
		req, sent := r.sink.latest(), http.Header{}
		for _, f := range req.Header {
			sent.Add(f.Name, f.Value)
		}
		for name, values := range sent {
			if len(values) != 1 || values[0] == "" || values[0] == "not this one" {
				t.Errorf("%s: %q, want one value of ours", name, values)
			}
		}
		if got := sent.Get("Breakwater-Type"); got != "order.paid" {
			t.Errorf("type = %q", got)
		}
		if got := sent.Get("X-Token"); got != "open sesame" {
			t.Errorf("own header = %q", got)
		}

		// Recorded: the same headers, without anything secret.
		want := map[string][]string{
			"Breakwater-Attempt": {"1"}, "Breakwater-Hops": {"1"}, "Breakwater-Delivery": {hook.DeliveryPrefix.Format(id)}, "Content-Type": {"application/json"},
			"Breakwater-Type": sent["Breakwater-Type"],
			"Webhook-Id":      sent["Webhook-Id"], "Webhook-Timestamp": sent["Webhook-Timestamp"],
			"Webhook-Signature": {"***"}, "Acme-Signature": {"***"}, "X-Token": {"***"},
		}
		if diff := cmp.Diff(want, r.attempts(id)[0].Detail.RequestHeaders); diff != "" {
			t.Errorf("recorded headers (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(sent))); diff != "" {
			t.Errorf("names of sent headers (-want +got):\n%s", diff)
		}
		for _, name := range []string{"X-Token", "Acme-Signature"} {
			if !slices.Contains(req.DropOnHostChange, name) {
				t.Errorf("%s would follow a redirect to another host", name)
			}
		}
	})
}

// TestHopsAreCounted: an event that was posted by a delivery goes on with one
// hop more, and looks as it was posted otherwise.
func TestHopsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, always(200))
		defer r.close()
		r.contentType = hook.WithHops("text/plain", 2)
		r.publish(r.endpoint(""), 1)
		time.Sleep(time.Second)
		req := r.sink.latest()
		if hops, kind := fieldOf(req, "Breakwater-Hops"), fieldOf(req, "Content-Type"); hops != "3" || kind != "text/plain" {
			t.Errorf("hops %s of %s, want 3 of text/plain", hops, kind)
		}
		r.contentType = hook.WithHops("application/json", 1)
		r.publish(r.endpointWith("", func(e *hook.Endpoint) { e.Body = hook.BodyEnvelope }), 1)
		time.Sleep(time.Second)
		req = r.sink.latest()
		if hops := fieldOf(req, "Breakwater-Hops"); hops != "2" || !strings.Contains(string(req.Body), `"data":{"n":1}`) {
			t.Errorf("hops %s of %s", hops, req.Body)
		}
	})
}

// TestBodyIsSignedAsSent: whatever form an endpoint asked for, its receiver can verify
// what arrives.
func TestBodyIsSignedAsSent(t *testing.T) {
	t.Parallel()
	for mode, want := range map[hook.BodyMode]struct{ kind, part string }{
		hook.BodyPayload:           {"application/json", `{"n":1}`},
		hook.BodyEnvelope:          {"application/json", `"data":{"n":1}`},
		hook.BodyCloudEvents:       {"application/cloudevents+json", `"specversion":"1.0"`},
		hook.BodyCloudEventsBinary: {"application/json", `{"n":1}`},
		hook.BodySlack:             {"application/json", `"blocks":`},
		hook.BodyDiscord:           {"application/json", `"embeds":`},
		hook.BodyTeams:             {"application/json", `AdaptiveCard`},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, always(200))
			defer r.close()
			r.publish(r.endpointWith("", func(e *hook.Endpoint) { e.Body = mode }), 1)
			time.Sleep(time.Second)
			req := r.sink.latest()
			h := http.Header{}
			for _, f := range req.Header {
				h.Add(f.Name, f.Value)
			}
			v, err := receiver.New(receiver.Config{Secrets: []string{r.secret}})
			r.must(err)
			if got, err := v.Verify(h, req.Body); err != nil || mode == hook.BodyPayload && got.Type != "order.paid" {
				t.Errorf("%s: %+v, %v", mode, got, err)
			}
			if kind := h.Get("Content-Type"); kind != want.kind || !strings.Contains(string(req.Body), want.part) {
				t.Errorf("%s: sent %s as %s", mode, req.Body, kind)
			}
			if binary := mode == hook.BodyCloudEventsBinary; (h.Get("Ce-Id") == h.Get("Webhook-Id")) != binary || (h.Get("Ce-Type") != "") != binary {
				t.Errorf("%s: headers %v", mode, h)
			}
		})
	}
}

// TestTraceContextIsForwardedWhenAskedFor: an endpoint gets the trace context of
// an event only if it asks, and never sees how we keep it.
func TestTraceContextIsForwardedWhenAskedFor(t *testing.T) {
	t.Parallel()
	trace := hook.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=1,b=x;y"}
	for name, tc := range map[string]struct {
		stored      hook.Trace
		mode        hook.TraceContext
		want        hook.Trace
		attemptSeen bool
	}{
		"off":                {trace, hook.TraceOff, hook.Trace{}, true},
		"forward":            {trace, hook.TraceForward, trace, true},
		"forward, no state":  {hook.Trace{Parent: trace.Parent}, hook.TraceForward, hook.Trace{Parent: trace.Parent}, true},
		"forward, no parent": {hook.Trace{}, hook.TraceForward, hook.Trace{}, false},
	} {
		for _, mode := range []hook.BodyMode{hook.BodyPayload, hook.BodyEnvelope} {
			synctest.Test(t, func(t *testing.T) {
				tracer := &recordedTraces{}
				r := newRig(t, always(503), settings(func(c *dispatch.Config) { c.Tracer = tracer }))
				defer r.close()
				r.contentType = hook.WithTrace(hook.WithHops("application/json", 1), tc.stored)
				id := r.publish(r.endpointWith("", func(e *hook.Endpoint) { e.TraceContext, e.Body = tc.mode, mode }), 1)[0]
				time.Sleep(time.Second)
				req := r.sink.latest()
				if got := (hook.Trace{Parent: fieldOf(req, "Traceparent"), State: fieldOf(req, "Tracestate")}); got != tc.want {
					t.Errorf("%s, %s: sent %+v, want %+v", name, mode, got, tc.want)
				}
				if kind, hops := fieldOf(req, "Content-Type"), fieldOf(req, "Breakwater-Hops"); kind != "application/json" || hops != "2" {
					t.Errorf("%s, %s: sent as %s after %s hops", name, mode, kind, hops)
				}
				if !strings.Contains(string(req.Body), `{"n":1}`) {
					t.Errorf("%s, %s: sent %s", name, mode, req.Body)
				}
				got := tracer.of(id)
				switch {
				case !tc.attemptSeen && len(got) > 0:
					t.Errorf("%s: an event without a trace makes spans: %+v", name, got)
				case tc.attemptSeen && (len(got) != 1 || got[0].from != tc.stored || got[0].Number != 1 || got[0].Status != 503 || got[0].ended.Before(got[0].StartedAt)):
					t.Errorf("%s: traced as %+v", name, got)
				}
			})
		}
	}
}

// recordedTraces is a tracer that remembers.
type recordedTraces struct {
	mu  sync.Mutex
	all []tracedAttempt
}

type tracedAttempt struct {
	hook.Attempt
	from  hook.Trace
	ended time.Time
}

func (r *recordedTraces) Attempted(from hook.Trace, a *hook.Attempt, ended time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, tracedAttempt{*a, from, ended})
}

func (r *recordedTraces) of(delivery hook.ID) []tracedAttempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.all), func(a tracedAttempt) bool { return a.DeliveryID != delivery })
}
