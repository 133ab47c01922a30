package storetest

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var settleTests = []test{
	{"every field of delivery and attempt comes back", settleRoundTrip},
	{"empty fields come back empty", settleEmptyFields},
	{"a retry stays pending", settleRetry},
	{"a dead delivery keeps its reason", settleDead},
	{"batches of every size are written whole", settleBatchSizes},
	{"only the attempt that counted right is written", settlePrev},
	{"a delivery cancelled meanwhile stays cancelled", settleCancelledMeanwhile},
	{"a success of a cancelled delivery is remembered", settleCancelledSuccess},
	{"a delivery ends without an attempt", settleWithoutAttempt},
	{"nothing ends twice", settleWithoutAttemptTwice},
	{"the first delivery time stays", settleFirstDelivered},
	{"accepts and settles share a batch", settleWithAccepts},
	{"a delivery may be settled by the batch that accepts it", settleAtOnce},
}

func settleRoundTrip(w *world) {
	ten := w.tenant()
	d := w.one(ten)
	w.pass(time.Minute)
	s := w.retry(d, 42*time.Second)
	p := &s.Delivery.Progress
	p.RunDueAt, p.Charged, p.BackoffSteps, p.FailedAttempts, p.Throttles = w.now.Add(-time.Hour), 4, 5, 6, 7
	p.PrevDelay = 1234 * time.Millisecond
	p.Limited = hook.Tally{hook.TLSCertificate: 2, hook.DNSNXDomain: 1}
	s.Delivery.ReplayID = w.id()
	s.Delivery.FirstDeliveredAt = w.now.Add(-2 * time.Hour)
	s.Delivery.Restore = &hook.Restore{State: hook.Dead, DueAt: w.now.Add(-3 * time.Hour), Reason: hook.DeadExhausted}
	a := s.Attempt
	a.Kind, a.Run, a.U = hook.Probe, 3, 0.7320508075688772
	a.Ceiling = 90 * time.Second
	a.Error = "connect: connection refused ✗"
	a.Excerpt = []byte{0xff, 0, '<', '\n'}
	a.Detail = hook.AttemptDetail{
		URL:             "https://example.test/hook?a=1&b=\"2\"",
		RequestHeaders:  map[string][]string{"Webhook-Id": {"evt_1"}, "X-A": {"1", "2"}},
		ResponseHeaders: map[string][]string{"Retry-After": {"5"}},
		Truncated:       true, RemoteAddr: "192.0.2.1:443", RetryAfter: "5", RetryAfterCapped: true,
		LaneState: "half-open", LaneLimit: 2.5, LaneInFlight: 3,
		Phases: hook.Phases{DNS: 1, Connect: 2 * time.Millisecond, TLS: 3 * time.Millisecond, FirstByte: time.Second},
	}
	w.written(s)
	w.same(w.delivery(d.ID), s.Delivery, "delivery")
	w.same(w.attempts(d.ID), []hook.Attempt{*a}, "attempts")
}

func settleEmptyFields(w *world) {
	d := w.one(w.tenant())
	s := w.success(d)
	a := s.Attempt
	a.Status, a.Latency, a.PolicyHash = 0, 0, hook.PolicyHash{}
	s.Delivery.Last.Status, s.Delivery.Last.Latency = 0, 0
	w.written(s)
	w.same(w.delivery(d.ID), s.Delivery, "delivery")
	w.same(w.attempts(d.ID), []hook.Attempt{*a}, "attempts")
}

func settleRetry(w *world) {
	ten := w.tenant()
	d := w.one(ten)
	for n := 1; n <= 3; n++ {
		w.pass(time.Second)
		s := w.retry(d, time.Minute)
		w.written(s)
		d = w.delivery(d.ID)
		w.same(d, s.Delivery, "delivery")
		if d.Attempts != n || d.State != hook.Pending {
			w.t.Fatalf("after %d attempts: %d counted, state %v", n, d.Attempts, d.State)
		}
	}
	var numbers []int
	for _, a := range w.attempts(d.ID) {
		numbers = append(numbers, a.Number)
	}
	w.same(numbers, []int{1, 2, 3}, "attempt numbers")
	w.wantUsage(ten.ID, 1, 7, "while it is retried")
}

func settleDead(w *world) {
	ten := w.tenant()
	s := w.dead(w.one(ten))
	w.written(s)
	w.same(w.delivery(s.Delivery.ID), s.Delivery, "delivery")
	w.wantUsage(ten.ID, 0, 0, "after death")
}

func settleBatchSizes(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	for _, size := range []int{1, 3, 4, 17, 63, 85} {
		var settles []*store.Settle
		accepts := w.accepts(size, ten, e)
		w.store(accepts...)
		for i, a := range accepts {
			s := w.success(a.Deliveries[0])
			if i%3 == 1 {
				s = w.retry(a.Deliveries[0], time.Hour)
			}
			settles = append(settles, s)
		}
		w.written(settles...)
		for _, s := range settles {
			w.same(w.delivery(s.Delivery.ID), s.Delivery, "delivery")
			w.same(w.attempts(s.Delivery.ID), []hook.Attempt{*s.Attempt}, "attempts")
		}
	}
}

func settlePrev(w *world) {
	ten := w.tenant()
	d := w.one(ten)
	early, wrong := w.retry(d, time.Minute), w.success(d)
	wrong.Prev, wrong.Delivery.Attempts = 1, 2
	missing := w.success(d)
	missing.Delivery.ID, missing.Attempt.DeliveryID = w.id(), missing.Delivery.ID
	neighbour := w.success(w.one(ten))
	w.commit(&store.Batch{Settles: []*store.Settle{wrong, missing, neighbour}})
	w.same([]store.SettleOutcome{wrong.Outcome, missing.Outcome, neighbour.Outcome},
		[]store.SettleOutcome{store.SettleGone, store.SettleGone, store.SettleWritten}, "outcomes")
	w.same(w.delivery(d.ID), d, "delivery after refused settles")
	w.same(w.attempts(d.ID), []hook.Attempt{}, "attempts after refused settles")

	w.written(early)
	late := w.success(d)
	if got := w.settle(late); got != store.SettleGone {
		w.t.Errorf("second settle of the same attempt: outcome %d, want gone", got)
	}
	w.same(w.delivery(d.ID), early.Delivery, "delivery after a late settle")
	w.wantUsage(ten.ID, 1, 7, "after refused settles")
}

func settleCancelledMeanwhile(w *world) {
	ten := w.tenant()
	d := w.one(ten)
	s := w.retry(d, time.Minute) // sent before the person cancelled
	w.pass(time.Second)
	row, err := w.db.CancelDelivery(w.ctx(), ten.ID, d.ID, w.now, w.audit(ten.ID, "delivery.cancel"))
	w.check(err, "CancelDelivery")
	w.written(s)

	got := w.delivery(d.ID)
	want := row.Delivery
	want.Attempts, want.Last = 1, s.Delivery.Last
	want.Progress, want.DueAt = got.Progress, got.DueAt // no promise: it will not be tried again
	w.same(got, want, "delivery")
	w.same(w.attempts(d.ID), []hook.Attempt{*s.Attempt}, "attempts")
	w.wantUsage(ten.ID, 0, 0, "after the cancellation")
	due, err := w.db.ReadAhead(w.ctx(), d.EndpointID, w.now.Add(time.Hour), 10)
	w.check(err, "ReadAhead")
	w.same(deliveryIDs(due), []hook.ID{}, "pending deliveries")
}

func settleCancelledSuccess(w *world) {
	ten := w.tenant()
	d := w.one(ten)
	s := w.success(d)
	_, err := w.db.CancelDelivery(w.ctx(), ten.ID, d.ID, w.now, w.audit(ten.ID, "delivery.cancel"))
	w.check(err, "CancelDelivery")
	w.written(s)
	got := w.delivery(d.ID)
	if got.State != hook.Cancelled || got.Reason != hook.CancelledByUser || !got.FirstDeliveredAt.Equal(s.Delivery.FirstDeliveredAt) {
		w.t.Errorf("state %v, reason %v, first delivered %v; want cancelled, user, %v",
			got.State, got.Reason, got.FirstDeliveredAt, s.Delivery.FirstDeliveredAt)
	}
	w.wantUsage(ten.ID, 0, 0, "after the cancellation")
}

func settleWithoutAttempt(w *world) {
	ten := w.tenant()
	d := w.one(ten)
	w.written(w.retry(d, time.Minute))
	d = w.delivery(d.ID)
	w.pass(100 * time.Hour)
	s := w.expired(d)
	w.written(s)
	w.same(w.delivery(d.ID), s.Delivery, "delivery")
	if got := len(w.attempts(d.ID)); got != 1 {
		w.t.Errorf("%d attempts, want the one that was made", got)
	}
	w.wantUsage(ten.ID, 0, 0, "after expiry")
}

func settleWithoutAttemptTwice(w *world) {
	ten := w.tenant()
	d := w.one(ten)
	cancelled := w.one(ten)
	row, err := w.db.CancelDelivery(w.ctx(), ten.ID, cancelled.ID, w.now, w.audit(ten.ID, "delivery.cancel"))
	w.check(err, "CancelDelivery")
	w.written(w.success(d))
	before := w.delivery(d.ID)

	moved, ended := w.expired(d), w.expired(cancelled)
	delivered := w.expired(before)
	w.commit(&store.Batch{Settles: []*store.Settle{moved, ended, delivered}})
	w.same([]store.SettleOutcome{moved.Outcome, ended.Outcome, delivered.Outcome},
		[]store.SettleOutcome{store.SettleGone, store.SettleGone, store.SettleGone}, "outcomes")
	w.same(w.delivery(d.ID), before, "delivered one")
	w.same(w.delivery(cancelled.ID), row.Delivery, "cancelled one")
}

func settleFirstDelivered(w *world) {
	ten := w.tenant()
	d := w.one(ten)
	w.written(w.success(d))
	first := w.now
	w.pass(time.Hour)
	_, err := w.db.RetryDelivery(w.ctx(), ten.ID, d.ID, w.now, w.audit(ten.ID, "delivery.retry"))
	w.check(err, "RetryDelivery")
	w.written(w.success(w.delivery(d.ID)))
	if got := w.delivery(d.ID); !got.FirstDeliveredAt.Equal(first) || !got.SettledAt.Equal(w.now) {
		w.t.Errorf("first delivered %v, settled %v; want %v, %v", got.FirstDeliveredAt, got.SettledAt, first, w.now)
	}
}

func settleWithAccepts(w *world) {
	ten := w.tenant()
	d := w.one(ten)
	e := w.endpoint(ten)
	a, s := w.accept(ten, e), w.success(d)
	w.commit(&store.Batch{Accepts: []*store.Accept{a}, Settles: []*store.Settle{s}})
	if a.Outcome != store.AcceptStored || s.Outcome != store.SettleWritten {
		w.t.Errorf("outcomes %d, %d; want stored, written", a.Outcome, s.Outcome)
	}
	w.wantUsage(ten.ID, 1, 7, "after one in, one out")
}

// settleAtOnce: nobody does this in one commit today, but nothing forbids it.
func settleAtOnce(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	delivered, failed, left := w.accept(ten, e), w.accept(ten, e), w.accept(ten, e)
	b := &store.Batch{
		Accepts: []*store.Accept{delivered, failed, left},
		Settles: []*store.Settle{w.success(delivered.Deliveries[0]), w.retry(failed.Deliveries[0], time.Minute)},
	}
	w.commit(b)
	for _, s := range b.Settles {
		if s.Outcome != store.SettleWritten {
			w.t.Errorf("outcome %v, want written", s.Outcome)
		}
		w.same(w.delivery(s.Delivery.ID), s.Delivery, "delivery")
		w.same(w.attempts(s.Delivery.ID), []hook.Attempt{*s.Attempt}, "attempts")
	}
	w.same(w.delivery(left.Deliveries[0].ID), left.Deliveries[0], "the other delivery")
	w.wantUsage(ten.ID, 2, int64(failed.Deliveries[0].Size+left.Deliveries[0].Size), "after the batch")
}
