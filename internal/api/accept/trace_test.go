package accept_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/api/accept"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

const (
	parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	oneEvt = `{"type":"a.b","payload":1}`
	batch2 = `{"events":[{"type":"a","payload":1},{"type":"b","payload":1}]}`
)

// TestTraceIsHandedOver: the publisher's trace context goes with its events, and
// no request fails because of one.
func TestTraceIsHandedOver(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for name, tc := range map[string]struct {
		headers []string
		want    *hook.EventTrace
	}{
		"none":      {nil, nil},
		"parent":    {[]string{"traceparent", parent}, &hook.EventTrace{Trace: hook.Trace{Parent: parent}}},
		"state":     {[]string{"traceparent", parent, "tracestate", "a=1"}, &hook.EventTrace{Trace: hook.Trace{Parent: parent, State: "a=1"}}},
		"malformed": {[]string{"traceparent", "00-x", "tracestate", "a=1"}, nil},
	} {
		for path, body := range map[string]string{eventsPath: oneEvt, batchPath: batch2} {
			if diff := cmp.Diff(tc.want, s.accepted(path, body, tc.headers...).Trace); diff != "" {
				t.Errorf("%s to %s (-want +got):\n%s", name, path, diff)
			}
		}
	}
}

// TestRequestsAreTraced: each request is one span, from its trace to its outcome.
func TestRequestsAreTraced(t *testing.T) {
	t.Parallel()
	own := hook.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"}
	from := hook.Trace{Parent: parent}
	for name, tc := range map[string]struct {
		path, body string
		fail       error
		want       accept.Outcome
	}{
		"event":         {eventsPath, oneEvt, nil, accept.Outcome{Status: 202, Type: "a.b", Receipt: hook.Receipt{EventID: 1, Deliveries: 1}}},
		"refused":       {eventsPath, oneEvt, hook.ErrOverloaded, accept.Outcome{Status: 503, Type: "a.b", Code: "overloaded"}},
		"malformed":     {eventsPath, `{`, nil, accept.Outcome{Status: 400, Code: "invalid_json"}},
		"batch":         {batchPath, batch2, nil, accept.Outcome{Status: 202, Accepted: 2}},
		"half a batch":  {batchPath, `{"events":[{"type":"a","payload":1},{}]}`, nil, accept.Outcome{Status: 202, Accepted: 1, Rejected: 1}},
		"refused batch": {batchPath, batch2, hook.ErrOverloaded, accept.Outcome{Status: 503, Code: "overloaded", Rejected: 2}},
		"no batch":      {batchPath, `{}`, nil, accept.Outcome{Status: 422, Code: "validation_failed"}},
	} {
		tracer := &fakeTracer{own: own}
		s := newTracedServer(t, tracer)
		s.ingest.fail = tc.fail
		s.post(tc.path, tc.body, "Traceparent", parent)
		route := "/v1/tenants/{tenant}/events"
		if tc.path == batchPath {
			route += "/batch"
		}
		if tracer.begun != 1 || tracer.from != from || tracer.request != (accept.Begun{At: start, Route: route, Tenant: 2}) {
			t.Errorf("%s: %d spans begun, the last one by %+v in %+v", name, tracer.begun, tracer.request, tracer.from)
		}
		if diff := cmp.Diff([]accept.Outcome{tc.want}, tracer.ended); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, got := range s.ingest.got {
			if *got.Trace != (hook.EventTrace{Trace: own, Keep: true}) {
				t.Errorf("%s: events go on with %+v", name, got.Trace)
			}
		}
	}
}

type fakeTracer struct {
	own     hook.Trace
	begun   int
	from    hook.Trace
	request accept.Begun
	ended   []accept.Outcome
}

func (f *fakeTracer) Begin(from hook.Trace, r accept.Begun) accept.Span {
	f.begun++
	f.from, f.request = from, r
	return f
}

func (f *fakeTracer) Trace() (hook.Trace, bool) { return f.own, true }
func (f *fakeTracer) End(o accept.Outcome)      { f.ended = append(f.ended, o) }
