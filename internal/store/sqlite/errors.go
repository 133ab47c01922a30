package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"syscall"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// code returns SQLite's extended result code of err, 0 when it has none.
func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code()
	}
	return 0
}

// kind gives an error of the writer the meaning that the contract names; nil
// when it has none of those.
func kind(err error) error {
	c := code(err)
	switch {
	case c == codes.SQLITE_IOERR_SHMSIZE:
		// The index of the log could not grow: no room on the disk. No data was
		// written, so nothing can have been lost.
		return hook.ErrStoreFull
	case c&0xff == codes.SQLITE_FULL:
		return hook.ErrStoreFull
	case c&0xff == codes.SQLITE_IOERR, c&0xff == codes.SQLITE_CORRUPT, c&0xff == codes.SQLITE_NOTADB:
		return store.ErrFatal
	case c&0xff == codes.SQLITE_CONSTRAINT, c&0xff == codes.SQLITE_TOOBIG, c&0xff == codes.SQLITE_MISMATCH:
		return store.ErrRefused
	default:
		return nil
	}
}

// readKind is kind for a reader. It has written nothing, so nothing is in doubt
// but what it wanted to read.
func readKind(err error) error {
	switch meaning := kind(err); {
	case errors.Is(meaning, store.ErrFatal):
		return store.ErrDamaged
	case meaning == nil && code(err) != 0 && code(err)&0xff != codes.SQLITE_INTERRUPT:
		return hook.ErrStoreUnavailable // no memory, no descriptor, a lock held too long
	default:
		return meaning
	}
}

// usable fails once the store has failed for good.
func (d *DB) usable() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fail names what was being done with the writer's turn and gives the error its
// meaning. A fatal one is remembered: from then on every call fails with it.
func (d *DB) fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	meaning := kind(err)
	err = describe(doing, meaning, err)
	if errors.Is(meaning, store.ErrFatal) && d.failed.CompareAndSwap(nil, &err) {
		close(d.lost)
	}
	return err
}

func describe(doing string, meaning, err error) error {
	if meaning == nil || errors.Is(err, meaning) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, meaning, err)
}

// readErr is fail for reads: no row means that the thing is not there, and what
// cannot be read fails whoever wanted it and nobody else.
func (d *DB) readErr(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%s: %w", doing, hook.ErrNotFound)
	case errors.Is(err, store.ErrFatal): // known already
		return describe(doing, nil, err)
	}
	meaning := readKind(err)
	err = describe(doing, meaning, err)
	if d.trouble != nil && errors.Is(meaning, hook.ErrStoreUnavailable) {
		d.trouble(doing, err)
	}
	return err
}

// vitalErr is readErr for what the server cannot do without: a store that cannot
// be read there is lost, and a server that stayed would only look alive.
func (d *DB) vitalErr(doing string, err error) error {
	if errors.Is(readKind(err), store.ErrDamaged) {
		return d.fail(doing, err)
	}
	return d.readErr(doing, err)
}

// openError says what to do about a disk that is too full to begin: SQLite calls
// that an I/O error, as it would a disk that dies.
func openError(path string, err error) error {
	if errors.Is(kind(err), hook.ErrStoreFull) || errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("open store %s: %w: there is no room left on its disk; make room and start again: %w", path, hook.ErrStoreFull, err)
	}
	return fmt.Errorf("open store %s: %w", path, err)
}

// AwaitLoss implements store.Mortal.
func (d *DB) AwaitLoss(ctx context.Context) error {
	select {
	case <-d.lost:
		return d.usable()
	case <-ctx.Done():
		return nil
	}
}

// meaning gives an error inside a transaction the terms of the roles. Ids and
// hashes are drawn, never chosen, so the only unique value a person can give is a
// uid, or the name of a policy.
func meaning(err error) error {
	switch code(err) {
	case codes.SQLITE_CONSTRAINT_UNIQUE:
		return fmt.Errorf("%w: %w", hook.ErrUIDTaken, err)
	case codes.SQLITE_CONSTRAINT_FOREIGNKEY:
		return fmt.Errorf("%w: %w", hook.ErrNotFound, err)
	default:
		return err
	}
}
