package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/dirlock"
)

// backupPages is how much of the file is copied in one turn of the writer: about
// a megabyte, some milliseconds.
const backupPages = 128

// copySettings are those of the copy while it is made. Nobody needs it when the
// process ends before it is complete, so it is flushed once, at the end.
var copySettings = url.Values{"_pragma": {"journal_mode(OFF)", "synchronous(OFF)"}}

// Backup writes a copy of the store to a new file at path and returns when it is
// durable. Commits go on meanwhile: a part is copied in each turn of the writer,
// and what the writer then changes in a part that was copied, SQLite changes in
// the copy too, because both use one connection. Another connection that copied
// would begin again after every commit.
func (d *DB) Backup(ctx context.Context, path string) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make backup: %w", err)
	}
	defer func() {
		if closeErr := file.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("make backup: %w", closeErr)
		}
		if err != nil {
			_ = os.Remove(path) // half a copy is none
		}
	}()
	if err := d.copyTo(ctx, path); err != nil {
		return fmt.Errorf("make backup: %w", err)
	}
	return markAlone(file)
}

// copyTo copies in turns. Errors of the copy say nothing about the store, so they
// do not end it.
func (d *DB) copyTo(ctx context.Context, path string) error {
	var running *driver.Backup
	turn := func(ctx context.Context, fn func() error) error {
		var copyErr error
		err := d.exclusive(ctx, "make backup", func(context.Context) error {
			copyErr = fn()
			return nil
		})
		return errors.Join(err, copyErr)
	}
	err := turn(ctx, func() error {
		return d.write.conn.Raw(func(raw any) (err error) {
			conn, ok := raw.(interface {
				NewBackup(uri string) (*driver.Backup, error)
			})
			if !ok {
				return fmt.Errorf("driver connection is a %T", raw)
			}
			running, err = conn.NewBackup(sourceName(path, copySettings))
			return err
		})
	})
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		err = turn(ctx, func() (err error) {
			more, err = running.Step(backupPages)
			if c := code(err) & 0xff; c == codes.SQLITE_BUSY || c == codes.SQLITE_LOCKED {
				more, err = true, nil // somebody else looks at the file
			}
			return err
		})
	}
	return errors.Join(err, turn(context.WithoutCancel(ctx), running.Finish))
}

// Restore puts a copy in place as the database file at path. It refuses a folder
// that holds any part of a database, and a copy that is damaged or too new.
func Restore(ctx context.Context, from, path string) error {
	lock, err := dirlock.Acquire(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	err = restore(ctx, from, path)
	return errors.Join(err, lock.Release())
}

// errLeftovers means that a database would be mixed with another one.
var errLeftovers = errors.New("the folder is not empty")

func restore(ctx context.Context, from, path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm", path + "-journal"} {
		if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("restore: %w: %s is there; move it away first, together with its -wal and -shm", errLeftovers, name)
		}
	}
	if size, err := fileSize(from + "-wal"); err != nil || size > 0 {
		return errors.Join(fmt.Errorf("restore: %w: %s-wal is there, so %s is no backup but the file of a server", errLeftovers, from, from), err)
	}
	part := path + ".restoring"
	defer func() { _ = os.Remove(part) }() // gone when all went well
	if err := copyFile(from, part); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := CheckFile(ctx, part); err != nil {
		return fmt.Errorf("restore %s: %w", from, err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// copyFile makes a durable copy that belongs to no log.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err // of an earlier try
	}
	out, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	n, err := io.Copy(out, in)
	if err != nil {
		return err
	}
	if n < fileHeader {
		return fmt.Errorf("%s is no database: it has %d bytes", from, n)
	}
	return markAlone(out)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("flush folder: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// CheckFile reads all of a database file that no process uses and reports the
// first thing that is wrong with it. It writes nothing.
func CheckFile(ctx context.Context, path string) error {
	pool, err := openPool(path, 1, url.Values{"mode": {"ro"}, "immutable": {"1"}})
	if err != nil {
		return err
	}
	err = checkFile(ctx, pool)
	return errors.Join(err, pool.Close())
}

func checkFile(ctx context.Context, q querier) error {
	var verdict string
	if err := q.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
		return fmt.Errorf("check integrity: %w", err)
	}
	if verdict != "ok" {
		return fmt.Errorf("check integrity: %w: %s", store.ErrDamaged, verdict)
	}
	known, err := Migrations()
	if err != nil {
		return err
	}
	switch err := store.CheckSchema(ctx, appliedBy{q}, known); {
	case errors.Is(err, store.ErrSchemaPending):
		if applied, readErr := (appliedBy{q}).AppliedMigrations(ctx); readErr != nil || len(applied) == 0 {
			return errors.Join(errors.New("this is no database of Breakwater"), readErr)
		}
		return nil // an older version's; the next start brings it up to date
	default:
		return err
	}
}
