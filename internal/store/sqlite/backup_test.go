package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	driver "modernc.org/sqlite"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// fill commits events of 200 kB each, tidies, and returns the ids of the events.
func fill(t testing.TB, db *sqlite.DB, w *load, events int) (ids []hook.ID) {
	t.Helper()
	w.payload = make([]byte, 200_000)
	for range events {
		batch := w.batch(1)
		check(t, db.Commit(t.Context(), batch))
		check(t, db.Tidy(t.Context()))
		ids = append(ids, batch.Accepts[0].Event.ID)
	}
	return ids
}

// has fails unless the store at path has the events and is whole.
func has(t *testing.T, path string, ids []hook.ID) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	check(t, err)
	for _, id := range ids {
		if _, err := db.Event(t.Context(), 0, id); err != nil {
			t.Errorf("event %d: %v", id, err)
		}
	}
	check(t, db.Close())
	check(t, sqlite.CheckFile(t.Context(), path))
}

// put writes files of a store into a new folder and returns the path.
func put(t *testing.T, file, log []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	check(t, os.WriteFile(path, file, 0o600))
	if log != nil {
		check(t, os.WriteFile(path+"-wal", log, 0o600))
	}
	return path
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	check(t, err)
	return b
}

// TestOldLogBesideACopyIsRefused puts a copy in place and leaves the log of the
// store there: applied, it would destroy the copy.
func TestOldLogBesideACopyIsRefused(t *testing.T) {
	t.Parallel()
	for name, backup := range map[string]func(*sqlite.DB, string, string) error{
		"backup": func(db *sqlite.DB, _, to string) error { return db.Backup(t.Context(), to) },
		"another program's": func(_ *sqlite.DB, from, to string) error {
			conn, err := inspect(t, from).Conn(t.Context())
			check(t, err)
			defer func() { _ = conn.Close() }()
			return conn.Raw(func(raw any) error {
				b, err := raw.(interface {
					NewBackup(uri string) (*driver.Backup, error)
				}).NewBackup(to)
				check(t, err)
				_, err = b.Step(-1)
				return errors.Join(err, b.Finish())
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), sqlite.FileName)
			db := open(t, path)
			w := newLoad(t, db, 1)
			ids := fill(t, db, w, 10)
			copied := filepath.Join(t.TempDir(), "copy.db")
			check(t, backup(db, path, copied))
			fill(t, db, w, 130) // the log begins again, more than once
			log := read(t, path+"-wal")

			mixed := put(t, read(t, copied), log)
			if _, err := sqlite.Open(t.Context(), mixed, sqlite.Options{}); !errors.Is(err, sqlite.ErrForeignLog) {
				t.Errorf("Open = %v, want a refusal", err)
			}
			if !bytes.Equal(read(t, mixed), read(t, copied)) || !bytes.Equal(read(t, mixed+"-wal"), log) {
				t.Error("a file was changed")
			}
			has(t, put(t, read(t, copied), nil), ids)
		})
	}
}

// TestOwnLogIsApplied takes the files of a running store after every commit, as
// a crash would leave them, while its log begins again several times.
func TestOwnLogIsApplied(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path)
	w := newLoad(t, db, 1)
	var ids []hook.ID
	var file, log []byte
	begun := 0
	for range 20 {
		ids = append(ids, fill(t, db, w, 8)...)
		before := log
		file, log = read(t, path), read(t, path+"-wal")
		if len(before) > 32 && !bytes.Equal(before[:32], log[:32]) {
			begun++
		}
		copied := put(t, file, log)
		again, err := sqlite.Open(t.Context(), copied, sqlite.Options{})
		if err != nil {
			t.Fatalf("after %d events: %v", len(ids), err)
		}
		if _, err := again.Event(t.Context(), 0, ids[len(ids)-1]); err != nil {
			t.Errorf("the last event: %v", err)
		}
		check(t, again.Close())
		check(t, os.Remove(copied))
	}
	if begun < 2 {
		t.Errorf("the log began again %d times: nothing was tested", begun)
	}
	has(t, put(t, file, log), ids)
}

// TestBackupUnderLoad commits without a pause while the copy is made: it has all
// that was there when it began, and is whole.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), sqlite.FileName))
	w := newLoad(t, db, 1)
	ids := fill(t, db, w, 60)
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	commits := 0
	load.Go(func() {
		for ; ctx.Err() == nil; commits++ {
			check(t, db.Commit(t.Context(), w.batch(1)))
			check(t, db.Tidy(t.Context()))
		}
	})
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	err := db.Backup(t.Context(), path)
	stop()
	load.Wait()
	check(t, err)
	if commits == 0 {
		t.Error("nothing was committed meanwhile")
	}
	info, err := os.Stat(path)
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	check(t, sqlite.CheckFile(t.Context(), path))
	has(t, path, ids)
	if err := db.Backup(t.Context(), path); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second backup to the same file = %v, want ErrExist", err)
	}
}

func TestCancelledBackupLeavesNothing(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), sqlite.FileName))
	w := newLoad(t, db, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if err := db.Backup(ctx, filepath.Join(dir, "copy.db")); !errors.Is(err, context.Canceled) {
		t.Errorf("Backup = %v, want Canceled", err)
	}
	if err := db.Backup(t.Context(), filepath.Join(dir, "none", "copy.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Backup into a missing folder = %v, want ErrNotExist", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	check(t, db.Commit(t.Context(), w.batch(1))) // the store does not mind
}

func TestRestore(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), sqlite.FileName))
	w := newLoad(t, db, 1)
	ids := fill(t, db, w, 10)
	good := filepath.Join(t.TempDir(), "copy.db")
	check(t, db.Backup(t.Context(), good))

	to := filepath.Join(t.TempDir(), sqlite.FileName)
	check(t, sqlite.Restore(t.Context(), good, to))
	has(t, to, ids)

	for _, leftover := range []string{"", "-wal", "-shm", "-journal"} {
		to := filepath.Join(t.TempDir(), sqlite.FileName)
		check(t, os.WriteFile(to+leftover, []byte("x"), 0o600))
		if err := sqlite.Restore(t.Context(), good, to); !errors.Is(err, sqlite.ErrLeftovers) {
			t.Errorf("beside %q: %v, want a refusal", leftover, err)
		}
		if got := read(t, to+leftover); string(got) != "x" {
			t.Errorf("%q was changed", leftover)
		}
	}

	bad := put(t, read(t, good), nil)
	damage(t, bad, "events")
	short := put(t, read(t, good)[:50], nil)
	other := put(t, nil, nil)
	_, err := inspect(t, other).ExecContext(t.Context(), "CREATE TABLE x (y)")
	check(t, err)
	running := put(t, read(t, good), []byte("a log"))
	for name, from := range map[string]string{
		"damaged": bad, "cut short": short, "another program's": other, "missing": bad + "?", "with a log": running,
	} {
		dir := t.TempDir()
		if err := sqlite.Restore(t.Context(), from, filepath.Join(dir, sqlite.FileName)); err == nil {
			t.Errorf("%s copy was restored", name)
		} else if name == "damaged" && !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged", name, err)
		}
		left, err := os.ReadDir(dir)
		check(t, err)
		if len(left) > 1 { // the lock stays
			t.Errorf("%s: left behind: %v", name, left)
		}
	}
}
