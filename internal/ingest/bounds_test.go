package ingest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ingest"
	"github.com/breakwaterhq/breakwater/internal/store"
)

func submissions(n int, eventType string) []hook.Submission {
	subs := make([]hook.Submission, n)
	for i := range subs {
		subs[i] = hook.Submission{Type: eventType, Payload: []byte("{}")}
	}
	return subs
}

// TestRequestIsBoundedInDeliveries: a small batch that fans out far is refused
// as a whole, before anything is made of it.
func TestRequestIsBoundedInDeliveries(t *testing.T) {
	t.Parallel()
	r, stop := newRig(t, func(c *ingest.Config) { c.MaxDeliveries, c.MaxFanout = 20, 30 })
	defer stop()
	for range 7 {
		r.endpoint("", "wide")
	}
	for range 18 {
		r.endpoint("", "wider")
	}
	got := r.in.AcceptBatch(t.Context(), r.tenant.ID, append(submissions(3, "wide"), submissions(1, "not a type")...))
	for i, res := range got[:3] {
		refused, ok := errors.AsType[*hook.Invalid](res.Err)
		if !ok || refused.Code != "fanout_too_large" || !strings.Contains(res.Err.Error(), "20 deliveries at once (ingest.max_request_deliveries)") {
			t.Errorf("event %d of a batch that makes 21 deliveries: %v", i, res.Err)
		}
	}
	if len(r.committed) > 0 {
		t.Errorf("%d events of it were stored", len(r.committed))
	}
	for i, res := range r.in.AcceptBatch(t.Context(), r.tenant.ID, append(submissions(2, "wide"), submissions(5, "none")...)) {
		if res.Err != nil {
			t.Errorf("event %d of a batch that makes 14 deliveries: %v", i, res.Err)
		}
	}
	r.endpoint("", "wider")
	r.endpoint("", "wider")
	r.endpoint("", "wider")
	if receipt, err := r.accept(hook.Submission{Type: "wider"}); err != nil || receipt.Deliveries != 21 {
		t.Errorf("an event alone = %+v, %v; want its 21 deliveries: only its fan-out is bounded", receipt, err)
	}
}

// fullWriter has no room.
type fullWriter struct{ t *testing.T }

func (w fullWriter) Accept(tenant hook.ID, l store.Load, _ func() []*store.Accept) error {
	if tenant == 0 || l.Rows != 9 || l.Bytes != 6 {
		w.t.Errorf("load of 3 events to 2 endpoints each is %+v", l)
	}
	return hook.ErrOverloaded
}

// TestNothingIsBuiltWithoutRoom: the writer hears what a batch weighs before
// its rows are made.
func TestNothingIsBuiltWithoutRoom(t *testing.T) {
	t.Parallel()
	r, stop := newRig(t, func(c *ingest.Config) { c.Writer = fullWriter{t} })
	defer stop()
	r.endpoint("", "*")
	r.endpoint("", "a")
	for _, res := range r.in.AcceptBatch(t.Context(), r.tenant.ID, submissions(3, "a")) {
		if !errors.Is(res.Err, hook.ErrOverloaded) {
			t.Errorf("result = %v, want overloaded", res.Err)
		}
	}
}
