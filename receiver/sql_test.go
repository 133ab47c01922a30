package receiver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/receiver"
)

// TestOnceAmongMany: the same id from 50 goroutines over two pools, as of two processes.
func TestOnceAmongMany(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		db, first := d.prepare(t, receiver.SQLOptions{})
		nodes := []patient{{first}, {d.on(t, d.open(t), receiver.SQLOptions{})}}
		var ran, fails atomic.Int32
		together(50, func(i int) {
			did, err := nodes[i%2].Once(t.Context(), "evt_1", func(ctx context.Context) error {
				if err := effect(ctx, "evt_1"); err != nil {
					return err
				}
				if fails.Add(1) <= 2 { // the effect of a failure must not stay
					return errWork
				}
				return nil
			})
			switch {
			case err == nil && did:
				ran.Add(1)
			case err != nil && !errors.Is(err, errWork):
				t.Errorf("Once: %v", err)
			}
		})
		if ran.Load() != 1 {
			t.Errorf("ran %d times, want once", ran.Load())
		}
		eachOnce(t, db, 1)
	})
}

// TestOnceWithManyIDs: strangers do not disturb each other.
func TestOnceWithManyIDs(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		db, first := d.prepare(t, receiver.SQLOptions{})
		nodes := []patient{{first}, {d.on(t, d.open(t), receiver.SQLOptions{})}}
		const ids, copies = 20, 6
		together(ids*copies, func(i int) {
			id := fmt.Sprint("evt_", i%ids)
			if _, err := nodes[i/ids%2].Once(t.Context(), id, func(ctx context.Context) error { return effect(ctx, id) }); err != nil {
				t.Errorf("Once(%s): %v", id, err)
			}
		})
		eachOnce(t, db, ids)
	})
}

// TestFailedWorkLeavesNothing: neither a mark nor an effect, whatever way it fails.
func TestFailedWorkLeavesNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{})
		for name, tc := range map[string]struct {
			fail func(context.Context) error
			code int
		}{
			"error":         {func(context.Context) error { return errWork }, 500},
			"permanent":     {func(context.Context) error { return receiver.Permanent(errWork) }, 422},
			"panic":         {func(context.Context) error { panic("boom") }, 500},
			"time is up":    {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 503},
			"takes no heed": {func(ctx context.Context) error { <-ctx.Done(); return nil }, 503},
			"bad statement": {func(ctx context.Context) error {
				tx, _ := receiver.TxFrom(ctx)
				_, err := tx.Exec("SELEKT")
				return err
			}, 500},
			"bad, unnoticed": {func(ctx context.Context) error { tx, _ := receiver.TxFrom(ctx); return tx.Rollback() }, 500},
		} {
			timeout := time.Minute
			if tc.code == 503 {
				timeout = 50 * time.Millisecond
			}
			o := receiver.HandlerOptions{Dedupe: s, Timeout: timeout, OnError: ignore}
			answer := serve(o, func(ctx context.Context, e receiver.Event) error {
				if err := effect(ctx, e.ID); err != nil && ctx.Err() == nil {
					t.Errorf("%s: effect: %v", name, err)
				}
				return tc.fail(ctx)
			})
			if answer.Code != tc.code {
				t.Errorf("%s: answer %d, want %d", name, answer.Code, tc.code)
			}
		}
		// A database that is slow to let go keeps the next one waiting, not out.
		o := receiver.HandlerOptions{Dedupe: s, Timeout: 5 * time.Minute}
		work := func(ctx context.Context, e receiver.Event) error { return effect(ctx, e.ID) }
		for range 2 {
			if answer := serve(o, work); answer.Code != 204 {
				t.Fatalf("answer %d after the failures, want 204", answer.Code)
			}
		}
		eachOnce(t, db, 1)
		if n := count(t, db, "webhook_seen"); n != 1 {
			t.Errorf("%d marks, want 1", n)
		}
	})
}

// tardy is a context that has ended, of which its transactions have not heard yet.
type tardy struct {
	context.Context
	ended atomic.Bool
}

func (c *tardy) Err() error {
	if c.ended.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// TestLateWorkIsNotCommitted: the answer to work that took no heed of its end does not
// depend on how soon the transaction hears of it.
func TestLateWorkIsNotCommitted(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{})
		ctx := &tardy{Context: t.Context()}
		ran, err := s.Once(ctx, "evt_1", func(inner context.Context) error {
			defer ctx.ended.Store(true)
			return effect(inner, "evt_1")
		})
		if !ran || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Once = %t, %v, want true and the end of the time", ran, err)
		}
		eachOnce(t, db, 0)
		once(t, s, "evt_1", true)
	})
}

func TestMarksEndWithTheTTL(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{TTL: time.Hour})
		other := d.on(t, db, receiver.SQLOptions{Scope: "other"})
		once(t, s, "evt_old", true)
		once(t, s, "evt_young", true)
		once(t, other, "evt_old", true) // 7 days
		execute(t, db, fmt.Sprintf("UPDATE webhook_seen SET seen_at = seen_at - %d WHERE id = 'evt_old'", time.Hour.Milliseconds()))
		execute(t, db, fmt.Sprintf("UPDATE webhook_seen SET seen_at = seen_at - %d WHERE id = 'evt_young'", (59*time.Minute).Milliseconds()))
		once(t, s, "evt_young", false)
		once(t, other, "evt_old", false)

		// Of many that find a mark that has ended, one works.
		nodes := []patient{{s}, {d.on(t, d.open(t), receiver.SQLOptions{TTL: time.Hour})}}
		together(20, func(i int) {
			if _, err := nodes[i%2].Once(t.Context(), "evt_old", func(ctx context.Context) error { return effect(ctx, "evt_old") }); err != nil {
				t.Errorf("Once: %v", err)
			}
		})
		eachOnce(t, db, 1)
	})
}

func TestPurgeDeletesWhatHasEnded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{TTL: time.Hour})
		const old = 2100 // more than one step
		var rows []string
		for n := range old {
			rows = append(rows, fmt.Sprintf("('', 'evt_%d', %d)", n, n))
		}
		execute(t, db, "INSERT INTO webhook_seen (scope, id, seen_at) VALUES "+strings.Join(rows, ", "))
		execute(t, db, "INSERT INTO webhook_seen (scope, id, seen_at) VALUES ('other', 'evt_1', 1)")
		once(t, s, "evt_new", true)
		if n, err := s.Purge(t.Context()); n != old || err != nil {
			t.Errorf("Purge = %d, %v; want %d", n, err, old)
		}
		if n, err := s.Purge(t.Context()); n != 0 || err != nil {
			t.Errorf("second Purge = %d, %v; want none", n, err)
		}
		once(t, s, "evt_new", false)
		if n := count(t, db, "webhook_seen"); n != 2 {
			t.Errorf("%d marks left, want the new one and that of the other scope", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Purge(ctx); err == nil {
			t.Error("Purge after the end of the context succeeded")
		}
	})
}

// TestPurgeAmongOthers: purging while others renew loses no mark and repeats no work.
func TestPurgeAmongOthers(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{TTL: time.Hour})
		for n := range 10 {
			once(t, s, fmt.Sprint("evt_", n), true)
		}
		execute(t, db, fmt.Sprintf("UPDATE webhook_seen SET seen_at = seen_at - %d", time.Hour.Milliseconds()))
		together(40, func(i int) {
			if i%4 == 0 {
				if _, err := s.Purge(t.Context()); err != nil {
					t.Errorf("Purge: %v", err)
				}
				return
			}
			id := fmt.Sprint("evt_", i%10)
			if _, err := (patient{s}).Once(t.Context(), id, func(ctx context.Context) error { return effect(ctx, id) }); err != nil {
				t.Errorf("Once: %v", err)
			}
		})
		eachOnce(t, db, 10)
	})
}

func TestScopesAndTablesAreApart(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{})
		once(t, s, "evt_1", true)
		for _, o := range []receiver.SQLOptions{{Scope: "billing"}, {Scope: "Billing"}, {Table: "order"}, {Table: "select", Scope: "x"}, {Table: strings.Repeat("z", 40)}} {
			other := d.on(t, db, o)
			execute(t, db, other.Schema())
			once(t, other, "evt_1", true)
			once(t, other, "EVT_1", true) // ids are what they are
			once(t, other, "evt_1", false)
			if _, err := other.Accept(t.Context(), receiver.Event{ID: "evt_1"}); err != nil {
				t.Errorf("%+v: Accept: %v", o, err)
			}
		}
		if d.dialect == receiver.Postgres {
			execute(t, db, "CREATE SCHEMA hooks")
			qualified := d.on(t, db, receiver.SQLOptions{Table: "hooks.seen"})
			execute(t, db, qualified.Schema())
			once(t, qualified, "evt_1", true)
			if n := count(t, db, "hooks.seen"); n != 1 {
				t.Errorf("%d rows in hooks.seen, want 1", n)
			}
		}
		once(t, s, "evt_1", false)
	})
}

func TestNewSQLRefuses(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	const pg, lite = receiver.Postgres, receiver.SQLite
	for name, tc := range map[string]struct {
		db   *sql.DB
		o    receiver.SQLOptions
		want string
	}{
		"no database":       {nil, receiver.SQLOptions{Dialect: pg}, "database"},
		"no dialect":        {db, receiver.SQLOptions{}, "Dialect"},
		"unknown dialect":   {db, receiver.SQLOptions{Dialect: 4}, "Dialect"},
		"negative dialect":  {db, receiver.SQLOptions{Dialect: -1}, "Dialect"},
		"short TTL":         {db, receiver.SQLOptions{Dialect: pg, TTL: time.Millisecond}, "TTL"},
		"negative TTL":      {db, receiver.SQLOptions{Dialect: pg, TTL: -time.Hour}, "TTL"},
		"long scope":        {db, receiver.SQLOptions{Dialect: pg, Scope: strings.Repeat("x", 65)}, "Scope"},
		"scope with space":  {db, receiver.SQLOptions{Dialect: pg, Scope: "a b"}, "Scope"},
		"scope, zero byte":  {db, receiver.SQLOptions{Dialect: pg, Scope: "a\x00"}, "Scope"},
		"statement":         {db, receiver.SQLOptions{Dialect: pg, Table: "x; DROP TABLE y"}, "Table"},
		"closing quote":     {db, receiver.SQLOptions{Dialect: pg, Table: `x" (id) VALUES (1); --`}, "Table"},
		"only a quote":      {db, receiver.SQLOptions{Dialect: pg, Table: `"`}, "Table"},
		"backquote":         {db, receiver.SQLOptions{Dialect: receiver.MySQL, Table: "x`y"}, "Table"},
		"upper case":        {db, receiver.SQLOptions{Dialect: pg, Table: "Seen"}, "Table"},
		"digit first":       {db, receiver.SQLOptions{Dialect: pg, Table: "1seen"}, "Table"},
		"not ASCII":         {db, receiver.SQLOptions{Dialect: pg, Table: "vü"}, "Table"},
		"line break":        {db, receiver.SQLOptions{Dialect: pg, Table: "seen\n"}, "Table"},
		"long name":         {db, receiver.SQLOptions{Dialect: pg, Table: strings.Repeat("x", 41)}, "Table"},
		"two dots":          {db, receiver.SQLOptions{Dialect: pg, Table: "a.b.c"}, "Table"},
		"no schema":         {db, receiver.SQLOptions{Dialect: pg, Table: ".seen"}, "Table"},
		"no name":           {db, receiver.SQLOptions{Dialect: pg, Table: "hooks."}, "Table"},
		"placeholder":       {db, receiver.SQLOptions{Dialect: pg, Table: "x?"}, "Table"},
		"schema for SQLite": {db, receiver.SQLOptions{Dialect: lite, Table: "main.seen"}, "Table"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s, err := receiver.NewSQL(tc.db, tc.o); err == nil || s != nil || !strings.Contains(err.Error(), "receiver: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("NewSQL = %v, %v; want an error about %s", s, err, tc.want)
			}
		})
	}
}

// TestOnceTellsOfTrouble: none of it is a panic, a mark or a silent success.
func TestOnceTellsOfTrouble(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		db := d.open(t)
		s := d.on(t, db, receiver.SQLOptions{})
		if ran, err := s.Once(t.Context(), "evt_1", succeed); ran || err == nil {
			t.Errorf("without a table: Once = %v, %v; want an error", ran, err)
		}
		execute(t, db, s.Schema())
		for name, bad := range badIDs {
			ran, err := s.Once(t.Context(), bad, succeed)
			if code, _ := receiver.Status(err); ran || code != 422 {
				t.Errorf("id %s: Once = %v, %v; want 422", name, ran, err)
			}
		}
		var inner error
		if _, err := s.Once(t.Context(), "evt_1", func(ctx context.Context) error {
			_, inner = s.Once(ctx, "evt_2", succeed)
			return nil
		}); err != nil || inner == nil {
			t.Errorf("Once within Once = %v, outer %v; want a refusal", inner, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if ran, err := s.Once(ctx, "evt_3", succeed); ran || err == nil {
			t.Errorf("after the end of the context: Once = %v, %v; want an error", ran, err)
		}
		if _, ok := receiver.TxFrom(t.Context()); ok {
			t.Error("TxFrom has a transaction outside of Once")
		}
		_ = db.Close()
		if ran, err := s.Once(t.Context(), "evt_4", succeed); ran || err == nil {
			t.Errorf("closed: Once = %v, %v; want an error", ran, err)
		}
	})
}

// TestCopiesTakeNoConnections: while work is in hand, copies of its event wait outside
// of the pool.
func TestCopiesTakeNoConnections(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{})
		working, finish := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			_, err := s.Once(t.Context(), "evt_1", func(context.Context) error {
				close(working)
				<-finish
				return nil
			})
			done <- err
		}()
		<-working
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		together(30, func(int) {
			if ran, err := s.Once(ctx, "evt_1", succeed); ran || !errors.Is(err, receiver.ErrBusy) {
				t.Errorf("copy: Once = %v, %v; want ErrBusy", ran, err)
			}
		})
		if n := db.Stats().OpenConnections; n > 2 {
			t.Errorf("%d connections are open, want one in use", n)
		}
		close(finish)
		if err := <-done; err != nil {
			t.Errorf("Once: %v", err)
		}
	})
}
