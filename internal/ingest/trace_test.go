package ingest_test

import (
	"context"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestTraceIsKeptForThoseWhoUseIt: the trace context of an event is stored if it
// is traced here or an endpoint that gets the event forwards it, else not.
func TestTraceIsKeptForThoseWhoUseIt(t *testing.T) {
	t.Parallel()
	r, stop := newRig(t, nil)
	defer stop()
	r.endpoint("", "quiet.*")
	told := r.endpoint("", "told.*")
	told.TraceContext = hook.TraceForward
	_, err := r.db.UpdateEndpoint(context.Background(), told, r.audit())
	r.must(err)
	r.in.Forget(r.tenant.ID)

	trace := hook.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=1"}
	for name, tc := range map[string]struct {
		typ  string
		from *hook.EventTrace
		want hook.Trace
	}{
		"nobody asks":       {"quiet.a", &hook.EventTrace{Trace: trace}, hook.Trace{}},
		"an endpoint asks":  {"told.a", &hook.EventTrace{Trace: trace}, trace},
		"traced here":       {"quiet.a", &hook.EventTrace{Trace: trace, Keep: true}, trace},
		"no trace":          {"told.a", nil, hook.Trace{}},
		"no trace to keep":  {"told.a", &hook.EventTrace{Keep: true}, hook.Trace{}},
		"kept, no endpoint": {"other", &hook.EventTrace{Trace: trace, Keep: true}, trace},
	} {
		receipt, err := r.accept(hook.Submission{Type: tc.typ, ContentType: hook.WithHops("text/plain", 1), Trace: tc.from})
		r.must(err)
		e, err := r.db.Event(context.Background(), r.tenant.ID, receipt.EventID)
		r.must(err)
		if want := hook.WithTrace("text/plain; breakwater-hops=1", tc.want); e.ContentType != want {
			t.Errorf("%s: stored as %q, want %q", name, e.ContentType, want)
		}
	}
}
