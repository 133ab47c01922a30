package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/dirlock"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a dir?#%") // no character of a path may mean anything
	check(t, os.Mkdir(dir, 0o700))
	db := open(t, filepath.Join(dir, sqlite.FileName))
	if _, err := os.Stat(filepath.Join(dir, sqlite.FileName)); err != nil {
		t.Error(err)
	}
	for _, reader := range []bool{false, true} {
		for name, want := range map[string]string{
			"journal_mode": "wal", "synchronous": "2", "page_size": "8192", "foreign_keys": "1",
			"busy_timeout": "5000", "mmap_size": "0", "temp_store": "2",
		} {
			got, err := db.Pragma(t.Context(), name, reader)
			if err != nil || got != want {
				t.Errorf("pragma %s (reader: %v) = %q, %v; want %q", name, reader, got, err, want)
			}
		}
	}
	if err := db.ExecReader(t.Context(), "DELETE FROM tenants"); err == nil {
		t.Error("a reading connection can write")
	}
}

func TestRefusesWhatIsNotDurable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		settings string
		fine     bool
	}{
		"as it should be": {"_journal_mode=WAL&_synchronous=FULL&_foreign_keys=1", true},
		"another journal": {"_journal_mode=DELETE&_synchronous=FULL&_foreign_keys=1", false},
		"lazy commits":    {"_journal_mode=WAL&_synchronous=NORMAL&_foreign_keys=1", false},
		"no foreign keys": {"_journal_mode=WAL&_synchronous=FULL", false},
	} {
		pool, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), sqlite.FileName)+"?"+tc.settings)
		check(t, err)
		conn, err := pool.Conn(t.Context())
		check(t, err)
		if err := sqlite.CheckDurable(t.Context(), conn); (err == nil) != tc.fine {
			t.Errorf("%s: %v", name, err)
		}
		check(t, errors.Join(conn.Close(), pool.Close()))
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	open(t, path)
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); !errors.Is(err, dirlock.ErrLocked) {
		t.Errorf("second Open = %v, want ErrLocked", err)
	}
	// The list of migrations can be read beside a running server.
	schema, err := sqlite.OpenSchema(t.Context(), path)
	check(t, err)
	known, err := sqlite.Migrations()
	check(t, err)
	all, err := store.MigrationList(t.Context(), schema, known)
	check(t, err)
	if len(all) != len(known) || all[0].AppliedAt.IsZero() {
		t.Errorf("MigrationList = %+v, want all applied", all)
	}
	check(t, schema.Close())
}

func TestSkipMigrate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{SkipMigrate: true}); !errors.Is(err, store.ErrSchemaPending) {
		t.Fatalf("Open of an empty file = %v, want ErrSchemaPending", err)
	}
	first, err := sqlite.Open(t.Context(), path, sqlite.Options{}) // the lock was given up
	check(t, err)
	check(t, first.Close())
	second, err := sqlite.Open(t.Context(), path, sqlite.Options{SkipMigrate: true})
	check(t, err)
	check(t, second.Close())
}

func TestReopenKeepsEverything(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	check(t, err)
	w := newLoad(t, db, 3)
	batch := w.batch(100)
	check(t, db.Commit(t.Context(), batch))
	check(t, db.Close())

	db = open(t, path)
	leases, err := db.Shards(t.Context(), 0)
	check(t, err)
	for _, l := range leases {
		if l.Owner != w.node.ID || l.Epoch != w.epochs[l.Shard] {
			t.Fatalf("shard after reopening = %+v, want owner %d, epoch %d", l, w.node.ID, w.epochs[l.Shard])
		}
	}
	for _, a := range batch.Accepts {
		if _, err := db.Event(t.Context(), 0, a.Event.ID); err != nil {
			t.Fatal(err)
		}
	}
	if id, err := db.MaxID(t.Context()); err != nil || id != batch.Accepts[99].Deliveries[0].ID {
		t.Errorf("MaxID = %d, %v; want %d", id, err, batch.Accepts[99].Deliveries[0].ID)
	}
}

func TestFullStoreRefusesAndRecovers(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), sqlite.FileName))
	w := newLoad(t, db, 1)
	check(t, db.LimitPages(t.Context(), 60))
	var full *store.Batch
	var stored []*store.Accept
	for full == nil {
		batch := w.batch(10)
		switch err := db.Commit(t.Context(), batch); {
		case errors.Is(err, hook.ErrStoreFull) && !errors.Is(err, store.ErrFatal):
			full = batch
		case err != nil:
			t.Fatalf("Commit = %v, want ErrStoreFull", err)
		default:
			stored = append(stored, batch.Accepts...)
		}
	}
	usage, err := db.Usage(t.Context())
	check(t, err)
	if got := usage[w.tenant].Pending; got != int64(len(stored)) {
		t.Errorf("%d pending after a refused batch, want %d", got, len(stored))
	}
	if _, err := db.Event(t.Context(), 0, full.Accepts[0].Event.ID); !errors.Is(err, hook.ErrNotFound) {
		t.Errorf("first event of the refused batch: %v, want ErrNotFound", err)
	}

	check(t, db.LimitPages(t.Context(), 0))
	full.Rerun = true
	check(t, db.Commit(t.Context(), full))
	for _, a := range append(stored, full.Accepts...) {
		if _, err := db.Event(t.Context(), 0, a.Event.ID); err != nil {
			t.Fatalf("event of a confirmed batch: %v", err)
		}
	}
}

// TestLogIsMovedToTheFile writes more than the log may hold: it is begun again
// instead of growing, although SQLite's own checkpoints are off; later when
// nobody tidies.
func TestLogIsMovedToTheFile(t *testing.T) {
	t.Parallel()
	t.Run("tidied", func(t *testing.T) { testLog(t, (*sqlite.DB).Tidy, 16_000_000) })
	t.Run("left alone", func(t *testing.T) { testLog(t, func(*sqlite.DB, context.Context) error { return nil }, 40_000_000) })
}

func testLog(t *testing.T, tidy func(*sqlite.DB, context.Context) error, most int64) {
	t.Helper()
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path)
	if got, err := db.Pragma(t.Context(), "wal_autocheckpoint", false); err != nil || got != "0" {
		t.Errorf("wal_autocheckpoint = %q, %v; want 0", got, err)
	}
	w := newLoad(t, db, 1)
	w.payload = make([]byte, 200_000)
	const written = 80_000_000
	for range written / 4 / len(w.payload) {
		check(t, db.Commit(t.Context(), w.batch(4)))
		check(t, tidy(db, t.Context()))
	}
	log, err := os.Stat(path + "-wal")
	check(t, err)
	file, err := os.Stat(path)
	check(t, err)
	if log.Size() > most || file.Size() < written/2 {
		t.Errorf("log of %d bytes, file of %d bytes after %d bytes of payload", log.Size(), file.Size(), written)
	}
}

// TestBadRowIsRefused sends a row that no repetition can make fit.
func TestBadRowIsRefused(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), sqlite.FileName))
	w := newLoad(t, db, 1)
	batch := w.batch(3)
	batch.Accepts[1].Deliveries[0].ID = batch.Accepts[0].Deliveries[0].ID
	if err := db.Commit(t.Context(), batch); !errors.Is(err, store.ErrRefused) {
		t.Errorf("Commit = %v, want ErrRefused", err)
	}
	check(t, db.Commit(t.Context(), w.batch(1)))
}

func TestWaitingForTheWriterEndsWithTheContext(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), sqlite.FileName))
	w := newLoad(t, db, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	batch := w.batch(1)
	if err := db.Commit(ctx, batch); !errors.Is(err, context.Canceled) {
		t.Errorf("Commit = %v, want Canceled", err)
	}
	if _, err := db.Event(t.Context(), 0, batch.Accepts[0].Event.ID); !errors.Is(err, hook.ErrNotFound) {
		t.Errorf("event of the cancelled commit: %v, want ErrNotFound", err)
	}
}
