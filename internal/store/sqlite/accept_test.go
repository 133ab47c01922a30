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

// TestDeliveryHasItsRowWithTheAccept: whoever reads the file beside the server
// sees every delivery that was acknowledged, and its end once it was settled.
func TestDeliveryHasItsRowWithTheAccept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	w := newLoad(t, open(t, path), 3)
	count := func() (pending, delivered int) {
		t.Helper()
		check(t, inspect(t, path).QueryRowContext(t.Context(),
			"SELECT count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 1) FROM deliveries").Scan(&pending, &delivered))
		return pending, delivered
	}
	batch := w.batch(3)
	check(t, w.db.Commit(t.Context(), batch))
	if pending, delivered := count(); pending != 3 || delivered != 0 {
		t.Errorf("%d pending and %d delivered after the accept, want 3 and 0", pending, delivered)
	}
	s := w.success(batch.Accepts[1].Deliveries[0])
	check(t, w.db.Commit(t.Context(), &store.Batch{Node: w.node.ID, Now: w.now, Settles: []*store.Settle{s}}))
	if pending, delivered := count(); pending != 2 || delivered != 1 || s.Outcome != store.SettleWritten {
		t.Errorf("%d pending and %d delivered after the settle, outcome %v; want 2, 1, written", pending, delivered, s.Outcome)
	}
	attempts, err := w.db.AttemptsOf(t.Context(), w.tenant, s.Delivery.ID)
	if diff := cmp.Diff([]hook.Attempt{*s.Attempt}, attempts); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// TestReadsWriteNothing: no read of deliveries adds to the log.
func TestReadsWriteNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w := newLoad(t, open(t, filepath.Join(t.TempDir(), sqlite.FileName)), 3)
	batch := w.batch(3)
	check(t, w.db.Commit(ctx, batch))
	d := batch.Accepts[1].Deliveries[0]
	of := store.DeliveryFilter{Tenant: w.tenant}
	before := w.db.LogWritten()
	for name, read := range map[string]func() (found int, err error){
		"delivery":           func() (int, error) { got, err := w.db.DeliveryByID(ctx, w.tenant, d.ID); return got.Progress.Run, err },
		"counts of an event": func() (int, error) { n, err := w.db.CountDeliveries(ctx, w.tenant, d.EventID); return n.Pending, err },
		"list": func() (int, error) {
			rows, _, err := w.db.ListDeliveries(ctx, of, store.Page{Limit: 1})
			return len(rows), err
		},
		"count": func() (int, error) {
			n, err := w.db.CountMatching(ctx, of, store.Page{Limit: 10})
			return n.N - 2, err
		},
		"count by endpoint": func() (int, error) { n, err := w.db.CountByEndpoint(ctx, of, 10); return int(n[d.EndpointID]), err },
		"due":               func() (int, error) { rows, err := w.db.ReadAhead(ctx, d.EndpointID, w.now, 10); return len(rows), err },
		"newest due":        func() (int, error) { rows, err := w.db.NewestDue(ctx, d.EndpointID, w.now, 10); return len(rows), err },
		"next due":          func() (int, error) { _, err := w.db.NextDue(ctx, d.EndpointID, w.now); return 1, err },
		"retry depth": func() (int, error) {
			n, err := w.db.RetryDepths(ctx, []hook.ID{d.EndpointID}, w.now, 10)
			return len(n), err
		},
		"accepted since": func() (int, error) { ids, err := w.db.AcceptedSince(ctx, d.ID); return len(ids) - 1, err },
		"endpoints with work": func() (int, error) {
			all, err := w.db.PendingEndpoints(ctx, []int{hook.ShardOf(d.EndpointID)})
			return len(all), err
		},
		"greatest id":           func() (int, error) { _, err := w.db.MaxID(ctx); return 1, err },
		"attempts of a pending": func() (int, error) { all, err := w.db.AttemptsOf(ctx, w.tenant, d.ID); return len(all) + 1, err },
	} {
		if n, err := read(); err != nil || n != 1 {
			t.Errorf("%s: found %d, %v; want 1", name, n, err)
		}
		if after := w.db.LogWritten(); after != before {
			t.Errorf("%s wrote %d bytes to the log", name, after-before)
			before = after
		}
	}
}

// TestCrashBetweenAcceptAndResult: deliveries that had no result when the
// process died are pending in the next one, whatever else happened around them.
func TestCrashBetweenAcceptAndResult(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	w := newLoad(t, open(t, path), 3)
	want := map[hook.ID]hook.DeliveryState{}
	for range 5 {
		batch := w.batch(5)
		check(t, w.db.Commit(t.Context(), batch))
		for _, a := range batch.Accepts {
			want[a.Deliveries[0].ID] = hook.Pending
		}
		checkCrash(t, path, w, want)
		w.now = w.now.Add(100 * time.Millisecond)
		b := &store.Batch{Node: w.node.ID, Now: w.now}
		for _, a := range batch.Accepts[:3] {
			b.Settles = append(b.Settles, w.success(a.Deliveries[0]))
			want[a.Deliveries[0].ID] = hook.Delivered
		}
		check(t, w.db.Commit(t.Context(), b))
		checkCrash(t, path, w, want)
	}
}

// checkCrash opens what a crash now would leave.
func checkCrash(t *testing.T, path string, w *load, want map[hook.ID]hook.DeliveryState) {
	t.Helper()
	db := crashed(t, path)
	pending := 0
	for id, state := range want {
		d, err := db.DeliveryByID(t.Context(), w.tenant, id)
		if err != nil || d.State != state {
			t.Errorf("delivery %d is %v, %v; want %v", id, d.State, err, state)
		}
		if state == hook.Pending {
			pending++
		}
	}
	for _, of := range w.endpoints {
		due, err := db.ReadAhead(t.Context(), of, w.now, 100)
		check(t, err)
		pending -= len(due)
	}
	if pending != 0 {
		t.Errorf("%d pending deliveries are not due for any endpoint", pending)
	}
}

// TestRepetitionCountsTheDeliveriesOfItsFirst: the answer to a repeated key tells
// how many deliveries the first event has.
func TestRepetitionCountsTheDeliveriesOfItsFirst(t *testing.T) {
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

// TestRefusedBatchLeavesNothing: what a failed commit was about to store is not
// there, and can be committed again.
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
