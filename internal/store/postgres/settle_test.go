package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
)

// failure prepares the settle of a 503 that is tried again in an hour.
func (n *node) failure(d hook.Delivery) *store.Settle {
	s := n.success(d)
	s.Attempt.Class, s.Attempt.Reason, s.Attempt.Status = hook.Down, hook.ServerError, 503
	s.Delivery.State, s.Delivery.SettledAt, s.Delivery.FirstDeliveredAt = hook.Pending, time.Time{}, time.Time{}
	s.Delivery.DueAt = d.DueAt.Add(time.Hour)
	s.Delivery.Progress.BackoffSteps, s.Delivery.Progress.FailedAttempts = 1, 1
	s.Delivery.Last.Class, s.Delivery.Last.Reason, s.Delivery.Last.Status = hook.Down, hook.ServerError, 503
	return s
}

// TestFirstSuccessIsWrittenAlike settles the same success by both statements: as a
// change of a row that the node knows of, and as an insert that meets a row which
// another node has made visible.
func TestFirstSuccessIsWrittenAlike(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n, reader := join(t, dsn, "n"), join(t, dsn, "reader")
	n.own(false)
	now := time.Now().Truncate(time.Microsecond)
	for name, tc := range map[string]struct {
		prepare   func(*store.Settle)
		meanwhile func(*node, hook.Delivery)
		want      store.SettleOutcome
	}{
		"plain": {want: store.SettleWritten},
		"everything told": {
			prepare: func(s *store.Settle) {
				s.Delivery.Progress.Charged = 1
				a := s.Attempt
				a.Charged, a.Excerpt, a.Status, s.Delivery.Last.Status = true, []byte("thanks"), 204, 204
				a.Detail.RequestHeaders, a.Detail.ResponseHeaders = requestHeaders, responseHeaders
			},
			want: store.SettleWritten,
		},
		"nothing told": {
			prepare: func(s *store.Settle) {
				a := s.Attempt
				a.Kind, a.Detail = hook.Probe, hook.AttemptDetail{}
				a.Status, a.Latency, s.Delivery.Last.Status, s.Delivery.Last.Latency = 0, 0, 0, 0
			},
			want: store.SettleWritten,
		},
		"cancelled meanwhile": {
			meanwhile: func(n *node, d hook.Delivery) {
				_, err := n.db.CancelDelivery(t.Context(), d.TenantID, d.ID, now, n.audit())
				n.check(err, "CancelDelivery")
			},
			want: store.SettleWritten,
		},
		"sent by hand meanwhile": {
			meanwhile: func(n *node, d hook.Delivery) {
				_, err := n.db.RetryDelivery(t.Context(), d.TenantID, d.ID, now, n.audit())
				n.check(err, "RetryDelivery")
			},
			want: store.SettleWritten,
		},
		"settled meanwhile": {
			meanwhile: func(_ *node, d hook.Delivery) {
				s := n.failure(d)
				s.Attempt.StartedAt, s.Delivery.Last.At = now, now
				n.commit(&store.Batch{Settles: []*store.Settle{s}})
			},
			want: store.SettleGone,
		},
		"replayed meanwhile": {
			meanwhile: func(_ *node, d hook.Delivery) { exec(t, dsn, "UPDATE deliveries SET run = 2 WHERE id = $1", d.ID) },
			want:      store.SettleGone,
		},
		"another epoch": {prepare: func(s *store.Settle) { s.Epoch-- }, want: store.SettleFenced},
		"another shard": {prepare: func(s *store.Settle) { s.Shard, s.Epoch = (s.Shard+1)%hook.Shards, s.Epoch+1 }, want: store.SettleFenced},
	} {
		settle := func(looks *node) settled {
			ten := n.tenant()
			d := n.accepted(ten, n.endpoint(ten))
			looks.delivery(d.ID)
			s := n.success(d)
			s.Attempt.StartedAt, s.Delivery.SettledAt, s.Delivery.FirstDeliveredAt, s.Delivery.Last.At = now, now, now, now
			if tc.prepare != nil {
				tc.prepare(s)
			}
			if tc.meanwhile != nil {
				tc.meanwhile(looks, d)
			}
			if !postgres.IsFirst(s, n.me.ID) {
				t.Fatalf("%s: not a first success", name)
			}
			n.commit(&store.Batch{Settles: []*store.Settle{s}})
			return n.settledOf(dsn, s)
		}
		changed, inserted := settle(n), settle(reader)
		if diff := cmp.Diff(changed, inserted); diff != "" {
			t.Errorf("%s: an insert (+) is not written as a change (-):\n%s", name, diff)
		}
		if inserted.Outcome != tc.want {
			t.Errorf("%s: outcome %d, want %d", name, inserted.Outcome, tc.want)
		}
	}
}

// settled is all that a settle may have changed.
type settled struct {
	Outcome        store.SettleOutcome
	Delivery       string
	Attempts       []hook.Attempt
	NamesAttempt   bool // one of them is the delivery's last
	Pending, Bytes int  // of the tenant
}

// settledRows are the rows without what differs between any two deliveries.
const settledRows = `
SELECT jsonb_pretty(to_jsonb(d)
    - '{id,tenant_id,event_id,endpoint_id,last_attempt_id,due_at,run_due_at,restore_due_at,first_attempt,first_excerpt}'::text[]),
  (SELECT sum(pending) FROM tenant_usage u WHERE u.tenant_id = d.tenant_id),
  (SELECT sum(bytes) FROM tenant_usage u WHERE u.tenant_id = d.tenant_id)
FROM deliveries d WHERE d.id = $1`

// settledOf reads them, and the attempts, which may be part of the row, through the
// store.
func (n *node) settledOf(dsn string, s *store.Settle) settled {
	n.t.Helper()
	t, got := n.t, settled{Outcome: s.Outcome}
	var err error
	got.Attempts, err = n.db.AttemptsOf(t.Context(), 0, s.Delivery.ID)
	n.check(err, "AttemptsOf")
	last := n.delivery(s.Delivery.ID).Last.AttemptID
	for i := range got.Attempts {
		a := &got.Attempts[i]
		got.NamesAttempt = got.NamesAttempt || a.ID == last
		if d := &s.Delivery; a.TenantID != d.TenantID || a.DeliveryID != d.ID || a.EventID != d.EventID || a.EndpointID != d.EndpointID {
			t.Errorf("attempt %+v of delivery %+v", a, d)
		}
		a.ID, a.TenantID, a.DeliveryID, a.EventID, a.EndpointID = 0, 0, 0, 0, 0
	}
	conn := connect(t, dsn)
	defer func() { _ = conn.Close(t.Context()) }()
	if err := conn.QueryRow(t.Context(), settledRows, s.Delivery.ID).Scan(&got.Delivery, &got.Pending, &got.Bytes); err != nil {
		t.Fatalf("read the rows: %v", err)
	}
	return got
}

// TestOnlyFirstSuccessesAreFirst changes a first success in every field that the
// short statement does not write: each must go the long way.
func TestOnlyFirstSuccessesAreFirst(t *testing.T) {
	t.Parallel()
	const node = 7
	now := time.Now()
	for name, change := range map[string]func(*store.Settle){
		"nothing":            func(*store.Settle) {},
		"no attempt":         func(s *store.Settle) { s.Attempt = nil },
		"still pending":      func(s *store.Settle) { s.Delivery.State = hook.Pending },
		"second attempt":     func(s *store.Settle) { s.Prev = 1 },
		"second run":         func(s *store.Settle) { s.Delivery.Progress.Run = 2 },
		"reason":             func(s *store.Settle) { s.Delivery.Reason = hook.DeadGone },
		"replay":             func(s *store.Settle) { s.Delivery.ReplayID = 1 },
		"restore":            func(s *store.Settle) { s.Delivery.Restore = &hook.Restore{} },
		"charged":            func(s *store.Settle) { s.Delivery.Progress.Charged = 1 },
		"failures":           func(s *store.Settle) { s.Delivery.Progress.BackoffSteps = 1 },
		"fails":              func(s *store.Settle) { s.Delivery.Progress.FailedAttempts = 1 },
		"throttles":          func(s *store.Settle) { s.Delivery.Progress.Throttles = 1 },
		"previous delay":     func(s *store.Settle) { s.Delivery.Progress.PrevDelay = 1 },
		"limited":            func(s *store.Settle) { s.Delivery.Progress.Limited = hook.Tally{hook.OK: 1} },
		"settled later":      func(s *store.Settle) { s.Delivery.SettledAt = now.Add(1) },
		"delivered earlier":  func(s *store.Settle) { s.Delivery.FirstDeliveredAt = now.Add(-1) },
		"last class":         func(s *store.Settle) { s.Delivery.Last.Class = hook.Down },
		"last reason":        func(s *store.Settle) { s.Delivery.Last.Reason = hook.ServerError },
		"last status":        func(s *store.Settle) { s.Delivery.Last.Status = 204 },
		"last latency":       func(s *store.Settle) { s.Delivery.Last.Latency = 1 },
		"another node":       func(s *store.Settle) { s.Attempt.NodeID = node + 1 },
		"number":             func(s *store.Settle) { s.Attempt.Number = 2 },
		"run of the attempt": func(s *store.Settle) { s.Attempt.Run = 2 },
		"class":              func(s *store.Settle) { s.Attempt.Class, s.Delivery.Last.Class = hook.Down, hook.Down },
		"result":             func(s *store.Settle) { s.Attempt.Reason, s.Delivery.Last.Reason = hook.ServerError, hook.ServerError },
		"retry":              func(s *store.Settle) { s.Attempt.RetryN = 1 },
		"ceiling":            func(s *store.Settle) { s.Attempt.Ceiling = 1 },
		"draw":               func(s *store.Settle) { s.Attempt.U = 0.25 },
		"delay":              func(s *store.Settle) { s.Attempt.Delay = 1 },
		"source":             func(s *store.Settle) { s.Attempt.DelaySource = hook.DelayBackoff },
		"next due":           func(s *store.Settle) { s.Attempt.NextDueAt = now },
		"error":              func(s *store.Settle) { s.Attempt.Error = "?" },
	} {
		s := &store.Settle{
			Delivery: hook.Delivery{
				State: hook.Delivered, SettledAt: now, FirstDeliveredAt: now, Progress: hook.Progress{Run: 1},
				Last: hook.LastResult{Class: hook.Success, Reason: hook.OK, Status: 200, At: now},
			},
			Attempt: &hook.Attempt{NodeID: node, Number: 1, Run: 1, Class: hook.Success, Reason: hook.OK, Status: 200},
		}
		change(s)
		if got, want := postgres.IsFirst(s, node), name == "nothing"; got != want {
			t.Errorf("%s changed: first is %t, want %t", name, got, want)
		}
	}
}

// TestLastResultNamesItsAttempt: whoever settles need not repeat the id.
func TestLastResultNamesItsAttempt(t *testing.T) {
	t.Parallel()
	n := join(t, pgtest.DSN(t), "n")
	n.own(false)
	ten := n.tenant()
	e := n.endpoint(ten)
	for name, settleOf := range map[string]func(hook.Delivery) *store.Settle{"success": n.success, "failure": n.failure} {
		s := settleOf(n.stored(ten, e))
		s.Delivery.Last.AttemptID = 0
		n.commit(&store.Batch{Settles: []*store.Settle{s}})
		if got := n.delivery(s.Delivery.ID).Last.AttemptID; got != s.Attempt.ID {
			t.Errorf("%s: the last attempt is %d, want %d", name, got, s.Attempt.ID)
		}
	}
}
