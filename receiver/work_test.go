package receiver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/receiver"
)

// work runs Work until fn was called n times, and the end of each call is stored.
func work(t *testing.T, db *sql.DB, s *receiver.SQL, workers, n int, fn func(context.Context, receiver.Event) error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	before := tries(t, db)
	var mu sync.Mutex
	calls := 0
	done := make(chan error, 1)
	go func() {
		done <- s.Work(ctx, workers, func(ctx context.Context, _ *sql.Tx, e receiver.Event) error {
			mu.Lock()
			defer mu.Unlock()
			if calls == n { // due again before Work was told to end
				<-ctx.Done()
				return ctx.Err()
			}
			calls++
			return fn(ctx, e)
		})
	}()
	for tries(t, db) < before+n && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-done; err != nil || calls != n {
		t.Fatalf("Work = %v after %d calls, want nil after %d", err, calls, n)
	}
}

// tries counts the calls of all events whose end is stored.
func tries(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	unlocked(t, "sum of tries", func() error { return db.QueryRow("SELECT COALESCE(SUM(tries), 0) FROM webhook_seen_inbox").Scan(&n) })
	return n
}

// makeDue lets no event wait any longer.
func makeDue(t *testing.T, db *sql.DB) {
	execute(t, db, "UPDATE webhook_seen_inbox SET due_at = 0 WHERE state = 0")
}

// TestWorkOfSeveralNodes: two nodes with several workers each, work that fails now and then:
// every event is done once.
func TestWorkOfSeveralNodes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{OnError: ignore})
		nodes := []*receiver.SQL{s, d.on(t, d.open(t), receiver.SQLOptions{OnError: ignore})}
		const events = 40
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		var calls atomic.Int32
		var all sync.WaitGroup
		for _, node := range nodes {
			all.Go(func() {
				if err := node.Work(ctx, 4, func(ctx context.Context, tx *sql.Tx, e receiver.Event) error {
					if mine, ok := receiver.TxFrom(ctx); !ok || mine != tx {
						t.Error("TxFrom has another transaction")
					}
					if err := effect(ctx, e.ID); err != nil {
						return err
					}
					if calls.Add(1)%7 == 0 {
						panic("now and then")
					}
					return nil
				}); err != nil {
					t.Errorf("Work: %v", err)
				}
			})
		}
		together(events, func(i int) {
			if _, err := nodes[i%2].Accept(ctx, receiver.Event{ID: fmt.Sprint("evt_", i), Body: []byte(body)}); err != nil {
				t.Errorf("Accept: %v", err)
			}
		})
		for count(t, db, "webhook_seen_inbox WHERE state = 1") < events && ctx.Err() == nil {
			if d.dialect == receiver.Postgres { // with one writer this would only be in the way
				makeDue(t, db)
			}
			time.Sleep(20 * time.Millisecond)
		}
		stop()
		all.Wait()
		eachOnce(t, db, events)
	})
}

// TestFailingWork is undone, told, counted and put off.
func TestFailingWork(t *testing.T) {
	t.Parallel()
	onEachThatWaits(t, func(t *testing.T, d database) {
		var told []error
		db, s := d.prepare(t, receiver.SQLOptions{OnError: func(e receiver.Event, err error) {
			if told = append(told, err); e.ID != "evt_1" {
				t.Errorf("told of event %q", e.ID)
			}
			panic("OnError must not end a worker")
		}})
		accept(t, s, receiver.Event{ID: "evt_1", Body: []byte(body)}, true)
		failures := []func(context.Context) error{
			func(context.Context) error { return errWork },
			func(context.Context) error { panic("boom") },
			func(ctx context.Context) error {
				tx, _ := receiver.TxFrom(ctx)
				_, err := tx.Exec("SELEKT")
				return err
			},
			func(ctx context.Context) error { tx, _ := receiver.TxFrom(ctx); return tx.Rollback() }, // against the rules
		}
		for n, fail := range failures { // by one worker: another may take an event that its function gave up
			makeDue(t, db)
			before := time.Now()
			work(t, db, s, 1, 1, func(ctx context.Context, e receiver.Event) error {
				if err := effect(ctx, e.ID); err != nil {
					t.Errorf("effect: %v", err)
				}
				return fail(ctx)
			})
			var tries int
			var due int64
			var reason string
			if err := db.QueryRow("SELECT tries, due_at, reason FROM webhook_seen_inbox").Scan(&tries, &due, &reason); err != nil {
				t.Fatal(err)
			}
			if latest := time.Now().Add(receiver.Backoff(tries)).UnixMilli(); tries != n+1 || due < before.UnixMilli() || due > latest || reason == "" || len(told) != tries {
				t.Errorf("failure %d: %d tries, due at %d (from %d to %d), told %d times, reason %q", n+1, tries, due, before.UnixMilli(), latest, len(told), reason)
			}
			eachOnce(t, db, 0)
		}
		makeDue(t, db)
		work(t, db, s, 1, 1, func(ctx context.Context, e receiver.Event) error {
			if string(e.Body) != body {
				t.Errorf("body %q after failures", e.Body)
			}
			return effect(ctx, e.ID)
		})
		eachOnce(t, db, 1)
	})
}

func TestBackoffDoublesUpToAnHour(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{1: 2 * time.Second, 2: 4 * time.Second, 11: 2048 * time.Second, 12: time.Hour, 1 << 30: time.Hour} {
		if got := receiver.Backoff(failures); got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
	lower, upper := 0, 0
	for range 1000 {
		d := receiver.Jitter(time.Hour)
		if d < 0 || d >= time.Hour {
			t.Fatalf("jitter %v out of range", d)
		}
		if d < 6*time.Minute {
			lower++
		}
		if d > 54*time.Minute {
			upper++
		}
	}
	if lower < 30 || upper < 30 { // 100 of each are to be expected
		t.Errorf("%d in the lowest tenth, %d in the highest; want the whole range", lower, upper)
	}
}

// TestVerdictsOfWork: wait as long as named, or be set aside, seen and taken up again.
func TestVerdictsOfWork(t *testing.T) {
	t.Parallel()
	onEachThatWaits(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{OnError: ignore})
		verdicts := map[string]error{
			"evt_permanent": receiver.Permanent(errWork), "evt_gone": receiver.Gone(),
			"evt_later": receiver.Later(errWork, time.Hour), "evt_many": receiver.TooMany(time.Hour),
		}
		for id := range verdicts {
			accept(t, s, receiver.Event{ID: id, Type: "order.paid", Timestamp: sentAt, Body: []byte(body)}, true)
		}
		before := time.Now()
		work(t, db, s, 2, len(verdicts), func(_ context.Context, e receiver.Event) error { return verdicts[e.ID] })
		if n := count(t, db, fmt.Sprintf("webhook_seen_inbox WHERE state = 0 AND due_at >= %d AND due_at <= %d",
			before.Add(time.Hour).UnixMilli(), time.Now().Add(time.Hour).UnixMilli())); n != 2 {
			t.Errorf("%d events wait an hour, want 2", n)
		}
		aside, err := s.SetAside(t.Context(), 10)
		if err != nil || len(aside) != 2 {
			t.Fatalf("SetAside = %+v, %v; want 2", aside, err)
		}
		for _, a := range aside {
			if a.Tries != 1 || a.At.Before(before.Truncate(time.Millisecond)) || a.Reason != verdicts[a.Event.ID].Error() || string(a.Event.Body) != body ||
				a.Event.Type != "order.paid" || !a.Event.Timestamp.Equal(sentAt) {
				t.Errorf("set aside: %+v", a)
			}
		}
		if one, err := s.SetAside(t.Context(), 1); err != nil || len(one) != 1 {
			t.Errorf("SetAside(1) = %d, %v", len(one), err)
		}
		for id, want := range map[string]bool{"evt_permanent": true, "evt_later": false, "evt_none": false} {
			if found, err := s.Retry(t.Context(), id); found != want || err != nil {
				t.Errorf("Retry(%s) = %v, %v; want %v", id, found, err, want)
			}
		}
		work(t, db, s, 1, 1, func(ctx context.Context, e receiver.Event) error { return effect(ctx, e.ID) })
		if n := count(t, db, "effects WHERE id = 'evt_permanent'"); n != 1 {
			t.Errorf("%d effects after Retry, want 1", n)
		}
	})
}

// TestEndOfWork: what was finished is committed, what was broken off waits for the
// next one, and neither is a failure.
func TestEndOfWork(t *testing.T) {
	t.Parallel()
	onEachThatWaits(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{OnError: func(_ receiver.Event, err error) { t.Errorf("told %v", err) }})
		accept(t, s, receiver.Event{ID: "evt_1"}, true)
		end := func(result func(context.Context) error) {
			ctx, stop := context.WithCancel(t.Context())
			if err := s.Work(ctx, 3, func(ctx context.Context, _ *sql.Tx, e receiver.Event) error {
				if err := effect(ctx, e.ID); err != nil {
					return err
				}
				stop()
				return result(ctx)
			}); err != nil {
				t.Errorf("Work: %v", err)
			}
		}
		end(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		eachOnce(t, db, 0)
		if n := count(t, db, "webhook_seen_inbox WHERE state = 0 AND tries = 0 AND reason = ''"); n != 1 {
			t.Error("the event does not wait as before")
		}
		end(func(context.Context) error { return nil })
		eachOnce(t, db, 1)
		if n := count(t, db, "webhook_seen_inbox WHERE state = 1"); n != 1 {
			t.Error("the event is not done")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Work(ended, 1, func(context.Context, *sql.Tx, receiver.Event) error { return nil }); err != nil {
			t.Errorf("Work after the end = %v, want nil", err)
		}
	})
}

func TestWorkRefuses(t *testing.T) {
	t.Parallel()
	onEachThatWaits(t, func(t *testing.T, d database) {
		s := d.on(t, d.open(t), receiver.SQLOptions{})
		fn := func(context.Context, *sql.Tx, receiver.Event) error { return nil }
		for _, workers := range []int{-1, 0, 1001} {
			if err := s.Work(t.Context(), workers, fn); err == nil || !strings.Contains(err.Error(), "workers must be") {
				t.Errorf("%d workers: %v; want a refusal", workers, err)
			}
		}
		if err := s.Work(t.Context(), 1, nil); err == nil {
			t.Error("no function: no error")
		}
		if err := s.Work(t.Context(), 1, fn); err == nil || !strings.Contains(err.Error(), "webhook_seen_inbox") {
			t.Errorf("no table: %v; want an error that names it", err)
		}
	})
}

// TestWorkOutlivesTroubleWithTheDatabase, and tells of it.
func TestWorkOutlivesTroubleWithTheDatabase(t *testing.T) {
	t.Parallel()
	onEachThatWaits(t, func(t *testing.T, d database) {
		told := make(chan error, 100)
		db, s := d.prepare(t, receiver.SQLOptions{OnError: func(_ receiver.Event, err error) {
			select {
			case told <- err:
			default:
			}
		}})
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		accept(t, s, receiver.Event{ID: "evt_0"}, true)
		begun, done := make(chan struct{}), make(chan error, 1)
		go func() {
			done <- s.Work(ctx, 2, func(ctx context.Context, _ *sql.Tx, e receiver.Event) error {
				if e.ID == "evt_0" {
					close(begun)
				} else {
					defer stop()
				}
				return effect(context.WithoutCancel(ctx), e.ID)
			})
		}()
		<-begun
		for { // bare SQLite may find the worker in the way
			if _, err := db.ExecContext(ctx, "ALTER TABLE webhook_seen_inbox RENAME TO elsewhere"); err == nil || ctx.Err() != nil {
				break
			}
		}
		if err := <-told; !strings.Contains(err.Error(), "webhook_seen_inbox") {
			t.Errorf("told %v, want the missing table", err)
		}
		for {
			if _, err := db.ExecContext(ctx, "ALTER TABLE elsewhere RENAME TO webhook_seen_inbox"); err == nil || ctx.Err() != nil {
				break
			}
		}
		accept(t, s, receiver.Event{ID: "evt_1"}, true)
		if err := <-done; err != nil {
			t.Errorf("Work: %v", err)
		}
		eachOnce(t, db, 2)
	})
}

// TestAcceptDoesNotWaitForWork that has the same event in hand. SQLite has one
// writer, and so it does there.
func TestAcceptDoesNotWaitForWork(t *testing.T) {
	t.Parallel()
	onEachThatWaits(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{})
		accept(t, s, receiver.Event{ID: "evt_1"}, true)
		work(t, db, s, 1, 1, func(_ context.Context, _ receiver.Event) error {
			if d.dialect == receiver.SQLite {
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				if _, err := s.Accept(ctx, receiver.Event{ID: "evt_2"}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Accept = %v, want the end of its context", err)
				}
				return nil
			}
			for id, want := range map[string]bool{"evt_1": false, "evt_2": true} {
				if first, err := s.Accept(context.Background(), receiver.Event{ID: id}); first != want || err != nil {
					t.Errorf("Accept(%s) = %v, %v; want %v", id, first, err, want)
				}
			}
			return nil
		})
	})
}
