package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// rowsOnDisk counts the deliveries that have a row, without asking the store,
// which would write the others first.
func rowsOnDisk(t *testing.T, path string) (n int) {
	t.Helper()
	check(t, inspect(t, path).QueryRowContext(t.Context(), "SELECT count(*) FROM deliveries").Scan(&n))
	return n
}

// crashed returns a store on what is on disk now, as a killed process leaves it.
func crashed(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	to := filepath.Join(t.TempDir(), sqlite.FileName)
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + end)
		check(t, err)
		check(t, os.WriteFile(to+end, b, 0o600))
	}
	return open(t, to)
}

// TestDeliveryIsWrittenOnce: the row of a delivery that succeeds at once comes
// with its result.
func TestDeliveryIsWrittenOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	w := newLoad(t, open(t, path), 3)
	batch := w.batch(3)
	check(t, w.db.Commit(t.Context(), batch))
	if n := rowsOnDisk(t, path); n != 0 {
		t.Errorf("%d deliveries have a row after the accept, want 0", n)
	}
	s := w.success(batch.Accepts[1].Deliveries[0])
	check(t, w.db.Commit(t.Context(), &store.Batch{Node: w.node.ID, Now: w.now, Settles: []*store.Settle{s}}))
	if n := rowsOnDisk(t, path); n != 1 || s.Outcome != store.SettleWritten {
		t.Errorf("%d rows after the settle, outcome %v; want 1, written", n, s.Outcome)
	}
	attempts, err := w.db.AttemptsOf(t.Context(), w.tenant, s.Delivery.ID)
	if diff := cmp.Diff([]hook.Attempt{*s.Attempt}, attempts); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if n := rowsOnDisk(t, path); n != 1 {
		t.Errorf("%d rows, want 1: reading attempts needs no other row", n)
	}
}

// TestSettleIsTheSameWithAndWithoutRow compares what is left of a delivery that
// had its row before it was settled with one that had not.
func TestSettleIsTheSameWithAndWithoutRow(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*load, *store.Settle){
		"success": func(*load, *store.Settle) {},
		"retry": func(w *load, s *store.Settle) {
			s.Delivery.State, s.Delivery.SettledAt, s.Delivery.FirstDeliveredAt = hook.Pending, time.Time{}, time.Time{}
			s.Delivery.DueAt, s.Delivery.Progress.Failures = w.now.Add(time.Minute), 1
			s.Attempt.Error, s.Attempt.Delay, s.Attempt.NextDueAt = "refused", time.Minute, s.Delivery.DueAt
		},
		"success with a delay": func(_ *load, s *store.Settle) { s.Attempt.DelaySource = 1 },
		"dead":                 func(_ *load, s *store.Settle) { s.Delivery.State, s.Delivery.Reason = hook.Dead, 1 },
		"held too long": func(_ *load, s *store.Settle) {
			s.Attempt, s.Delivery.Attempts, s.Delivery.State, s.Delivery.Reason = nil, 0, hook.Dead, 2
			s.Delivery.Last = hook.LastResult{}
		},
		"too late":  func(_ *load, s *store.Settle) { s.Prev = 3 },
		"other run": func(_ *load, s *store.Settle) { s.Delivery.Progress.Run = 2 },
		"fenced":    func(_ *load, s *store.Settle) { s.Epoch++ },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLoad(t, open(t, filepath.Join(t.TempDir(), sqlite.FileName)), 1)
			batch := w.batch(2)
			check(t, w.db.Commit(t.Context(), batch))
			with, without := batch.Accepts[0].Deliveries[0], batch.Accepts[1].Deliveries[0]
			settle := func(d hook.Delivery, id hook.ID) *store.Settle {
				s := w.success(d)
				s.Attempt.ID, s.Delivery.Last.AttemptID = id, id
				change(w, s)
				check(t, w.db.Commit(t.Context(), &store.Batch{Node: w.node.ID, Now: w.now, Settles: []*store.Settle{s}}))
				return s
			}
			second := settle(without, 1)
			_, err := w.db.DeliveryByID(t.Context(), w.tenant, with.ID) // makes its row
			check(t, err)
			first := settle(with, 2)
			if first.Outcome != second.Outcome {
				t.Errorf("outcome %v with its row, %v without", first.Outcome, second.Outcome)
			}
			state := func(id hook.ID) any {
				d, err := w.db.DeliveryByID(t.Context(), w.tenant, id)
				check(t, err)
				attempts, err := w.db.AttemptsOf(t.Context(), w.tenant, id)
				check(t, err)
				d.ID, d.EventID, d.Last.AttemptID = 0, 0, 0
				for i := range attempts {
					attempts[i].ID, attempts[i].DeliveryID, attempts[i].EventID = 0, 0, 0
				}
				return []any{d, attempts}
			}
			if diff := cmp.Diff(state(with.ID), state(without.ID)); diff != "" {
				t.Errorf("with its row (-), without (+): %s", diff)
			}
		})
	}
}

// TestCrashBetweenAcceptAndResult: deliveries that had no row when the process
// died are pending in the next one, whatever else happened around them.
func TestCrashBetweenAcceptAndResult(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	w := newLoad(t, open(t, path), 3)
	want := map[hook.ID]hook.DeliveryState{}
	accept := func(n int) []*store.Accept {
		batch := w.batch(n)
		check(t, w.db.Commit(t.Context(), batch))
		for _, a := range batch.Accepts {
			want[a.Deliveries[0].ID] = hook.Pending
		}
		return batch.Accepts
	}
	for i := range 40 { // four seconds: since moves on, and rows get overdue
		accepts := accept(5)
		if i > 25 {
			checkCrash(t, path, w, want)
		}
		w.now = w.now.Add(100 * time.Millisecond)
		b := &store.Batch{Node: w.node.ID, Now: w.now}
		for _, a := range accepts[:3] {
			b.Settles = append(b.Settles, w.success(a.Deliveries[0]))
			want[a.Deliveries[0].ID] = hook.Delivered
		}
		check(t, w.db.Commit(t.Context(), b))
	}
	if n := rowsOnDisk(t, path); n <= 120 || n >= 200 {
		t.Errorf("%d rows of 200 deliveries: want the 120 that were settled and those that are overdue, but not all", n)
	}
	checkCrash(t, path, w, want)
}

// checkCrash opens what a crash now would leave.
func checkCrash(t *testing.T, path string, w *load, want map[hook.ID]hook.DeliveryState) {
	t.Helper()
	db := crashed(t, path)
	for id, state := range want {
		d, err := db.DeliveryByID(t.Context(), w.tenant, id)
		if err != nil || d.State != state {
			t.Errorf("delivery %d is %v, %v; want %v", id, d.State, err, state)
		}
	}
	for _, of := range w.endpoints {
		due, err := db.ReadAhead(t.Context(), of, w.now, 100)
		if err != nil || len(due) == 0 {
			t.Errorf("endpoint %d has %d due deliveries, %v", of, len(due), err)
		}
	}
}

// TestLateEventHasItsRowsAtOnce: an event whose id was drawn long before its
// commit is not one that recovery would look at.
func TestLateEventHasItsRowsAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	w := newLoad(t, open(t, path), 1)
	late := w.batch(1)
	w.now = w.now.Add(time.Minute)
	batch := w.batch(3)
	check(t, w.db.Commit(t.Context(), batch)) // since moves to the first of them
	late.Now = w.now
	check(t, w.db.Commit(t.Context(), late))
	if n := rowsOnDisk(t, path); n != 1 {
		t.Errorf("%d rows, want that of the late event", n)
	}
	again := crashed(t, path)
	for _, a := range append(batch.Accepts, late.Accepts...) {
		d, err := again.DeliveryByID(t.Context(), 0, a.Deliveries[0].ID)
		if err != nil || d.State != hook.Pending {
			t.Errorf("delivery of event %d: %v, %v; want pending", a.Event.ID, d.State, err)
		}
	}
}

// TestRepetitionCountsDeliveriesWithoutRow: the answer to a repeated key tells
// how many deliveries the first event has.
func TestRepetitionCountsDeliveriesWithoutRow(t *testing.T) {
	t.Parallel()
	w := newLoad(t, open(t, filepath.Join(t.TempDir(), sqlite.FileName)), 1)
	w.keys = true
	first := w.batch(1)
	for range 2 { // in the same batch, and later
		repeated := *first.Accepts[0]
		repeated.Event.ID, repeated.Deliveries = w.id(), nil
		first.Accepts = append(first.Accepts, &repeated)
	}
	later := *first.Accepts[0]
	later.Event.ID, later.Deliveries = w.id(), nil
	check(t, w.db.Commit(t.Context(), first))
	check(t, w.db.Commit(t.Context(), &store.Batch{Node: w.node.ID, Now: w.now, Accepts: []*store.Accept{&later}}))
	for _, a := range []*store.Accept{first.Accepts[1], first.Accepts[2], &later} {
		if a.Outcome != store.AcceptReplayed || a.Count != 1 {
			t.Errorf("outcome %v, %d deliveries; want a repetition with 1", a.Outcome, a.Count)
		}
	}
}

// TestRefusedBatchLeavesNothing: what a failed commit was about to leave
// unwritten is not there, and can be committed again.
func TestRefusedBatchLeavesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	w := newLoad(t, open(t, path), 1)
	good := w.batch(2)
	bad := w.batch(1)
	bad.Accepts[0].Event.ID = good.Accepts[0].Event.ID
	both := &store.Batch{Node: w.node.ID, Now: w.now, Accepts: append(good.Accepts[:2:2], bad.Accepts...)}
	if err := w.db.Commit(t.Context(), both); err == nil {
		t.Fatal("two events with one id were accepted")
	}
	check(t, w.db.Commit(t.Context(), good))
	pending, err := w.db.ReadAhead(t.Context(), w.endpoints[0], w.now, 10)
	if err != nil || len(pending) != 2 {
		t.Errorf("%d deliveries, %v; want the 2 of the second commit", len(pending), err)
	}
}

// TestCloseLeavesNothingToRecover: after a clean stop the file alone tells all.
func TestCloseLeavesNothingToRecover(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	check(t, err)
	w := newLoad(t, db, 1)
	check(t, db.Commit(t.Context(), w.batch(5)))
	check(t, db.Close())
	if n := rowsOnDisk(t, path); n != 5 {
		t.Errorf("%d rows after Close, want 5", n)
	}
}

// TestReadsWriteWhatTheyShow: a read has the rows written that it may show, and
// leaves the others for later.
func TestReadsWriteWhatTheyShow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		read func(w *load, d hook.Delivery) (found int, err error)
		rows int
	}{
		"delivery": {func(w *load, d hook.Delivery) (int, error) {
			got, err := w.db.DeliveryByID(t.Context(), w.tenant, d.ID)
			return got.Progress.Run, err
		}, 1},
		"counts of an event": {func(w *load, d hook.Delivery) (int, error) {
			n, err := w.db.CountDeliveries(t.Context(), w.tenant, d.EventID)
			return n.Pending, err
		}, 1},
		"list of an event": {func(w *load, d hook.Delivery) (int, error) {
			rows, _, err := w.db.ListDeliveries(t.Context(), store.DeliveryFilter{Tenant: w.tenant, Event: d.EventID}, store.Page{Limit: 10})
			return len(rows), err
		}, 1},
		"lane": {func(w *load, d hook.Delivery) (int, error) {
			rows, err := w.db.ReadAhead(t.Context(), d.EndpointID, w.now, 10)
			return len(rows), err
		}, 1},
		"list of the tenant": {func(w *load, _ hook.Delivery) (int, error) {
			rows, _, err := w.db.ListDeliveries(t.Context(), store.DeliveryFilter{Tenant: w.tenant}, store.Page{Limit: 10})
			return len(rows) - 2, err
		}, 3},
		"dead letters": {func(w *load, _ hook.Delivery) (int, error) {
			dead := store.DeliveryFilter{Tenant: w.tenant, States: []hook.DeliveryState{hook.Dead}}
			rows, _, err := w.db.ListDeliveries(t.Context(), dead, store.Page{Limit: 10})
			return len(rows) + 1, err
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), sqlite.FileName)
			w := newLoad(t, open(t, path), 3)
			batch := w.batch(3)
			check(t, w.db.Commit(t.Context(), batch))
			if n, err := c.read(w, batch.Accepts[1].Deliveries[0]); err != nil || n != 1 {
				t.Errorf("found %d, %v", n, err)
			}
			if n := rowsOnDisk(t, path); n != c.rows {
				t.Errorf("%d rows on disk, want %d", n, c.rows)
			}
		})
	}
}
