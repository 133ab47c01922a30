package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// damagedStore returns a store of which one table or index cannot be read, and
// the id of one of its deliveries.
func damagedStore(t *testing.T, damaged string, trouble func(string, error)) (*sqlite.DB, *load, hook.ID) {
	t.Helper()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	check(t, err)
	w := newLoad(t, db, 1)
	batch := w.batch(50)
	check(t, db.Commit(t.Context(), batch))
	check(t, db.Close())
	damage(t, path, damaged)
	db, err = sqlite.Open(t.Context(), path, sqlite.Options{Trouble: trouble})
	check(t, err)
	w.db = db
	t.Cleanup(func() { _ = db.Close() }) // it may fail: the store may be lost
	return db, w, batch.Accepts[0].Deliveries[0].ID
}

// TestDamageFailsTheReadThatMeetsIt overwrites the root page of the index of
// attempts: reading some fails, and everything else goes on.
func TestDamageFailsTheReadThatMeetsIt(t *testing.T) {
	t.Parallel()
	var told []string
	db, w, id := damagedStore(t, "attempts_delivery", func(doing string, err error) {
		if !errors.Is(err, store.ErrDamaged) {
			t.Errorf("told of %v", err)
		}
		told = append(told, doing)
	})
	_, err := db.AttemptsOf(t.Context(), 0, id)
	if !errors.Is(err, store.ErrDamaged) || !errors.Is(err, hook.ErrStoreUnavailable) || errors.Is(err, store.ErrFatal) {
		t.Fatalf("AttemptsOf = %v, want ErrDamaged and ErrStoreUnavailable", err)
	}
	if len(told) != 1 || told[0] != "read attempts" {
		t.Errorf("told of %q, want of the read", told)
	}
	for name, call := range map[string]func() error{
		"Commit":   func() error { return db.Commit(t.Context(), w.batch(1)) },
		"Ping":     func() error { return db.Ping(t.Context()) },
		"Usage":    func() error { _, err := db.Usage(t.Context()); return err },
		"ListKeys": func() error { _, err := db.ListKeys(t.Context(), 0, store.Page{Limit: 1}); return err },
		"Snapshot": func() error { _, _, err := db.EndpointsOf(t.Context(), w.tenant); return err },
	} {
		if err := call(); err != nil {
			t.Errorf("%s beside the damage: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.AwaitLoss(ended); err != nil {
		t.Errorf("the store counts as lost: %v", err)
	}
}

// TestDamageThatStopsTheServerIsFatal meets the damage where nothing can go on:
// in a write, and in the read that every delivery depends on.
func TestDamageThatStopsTheServerIsFatal(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		damaged string
		meet    func(*sqlite.DB, *load, hook.ID) error
	}{
		"write": {"deliveries", func(db *sqlite.DB, w *load, id hook.ID) error {
			_, err := db.CancelDelivery(t.Context(), 0, id, w.now, hook.Audit{ID: 1, At: w.now})
			return err
		}},
		"search for work": {"deliveries_due", func(db *sqlite.DB, _ *load, _ hook.ID) error {
			_, err := db.PendingEndpoints(t.Context(), []int{0})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, w, id := damagedStore(t, tc.damaged, nil)
			if err := tc.meet(db, w, id); !errors.Is(err, store.ErrFatal) {
				t.Fatalf("meeting the damage = %v, want ErrFatal", err)
			}
			if err := db.AwaitLoss(t.Context()); !errors.Is(err, store.ErrFatal) {
				t.Errorf("AwaitLoss = %v, want ErrFatal", err)
			}
			for name, call := range map[string]func() error{
				"Commit":    func() error { return db.Commit(t.Context(), w.batch(1)) },
				"Ping":      func() error { return db.Ping(t.Context()) },
				"Usage":     func() error { _, err := db.Usage(t.Context()); return err },
				"Heartbeat": func() error { _, err := db.Heartbeat(t.Context(), w.node, 0); return err },
			} {
				if err := call(); !errors.Is(err, store.ErrFatal) {
					t.Errorf("%s after the failure = %v, want ErrFatal", name, err)
				}
			}
		})
	}
}

// TestDamageMetByThoseWhoOnlyLook: counting for metrics must not be what ends a
// server.
func TestDamageMetByThoseWhoOnlyLook(t *testing.T) {
	t.Parallel()
	db, w, _ := damagedStore(t, "deliveries_due", nil)
	bounds := store.QueueBounds{Count: 10, Look: 10}
	for name, call := range map[string]func() error{
		"WaitingEndpoints": func() error { _, err := db.WaitingEndpoints(t.Context(), []int{0}); return err },
		"Queues":           func() error { _, err := db.Queues(t.Context(), []hook.ID{1}, w.now, bounds); return err },
	} {
		if err := call(); !errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrFatal) {
			t.Errorf("%s = %v, want ErrDamaged and no more", name, err)
		}
	}
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("Ping = %v", err)
	}
}

// damage overwrites the root page of a table or an index.
func damage(t *testing.T, path, name string) {
	t.Helper()
	conn := inspect(t, path)
	var root, size int64
	check(t, conn.QueryRowContext(t.Context(), "SELECT rootpage FROM sqlite_schema WHERE name = ?", name).Scan(&root))
	check(t, conn.QueryRowContext(t.Context(), "PRAGMA page_size").Scan(&size))
	check(t, conn.Close())
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	_, err = file.WriteAt([]byte(strings.Repeat("\xff", int(size))), (root-1)*size)
	check(t, errors.Join(err, file.Close()))
}
