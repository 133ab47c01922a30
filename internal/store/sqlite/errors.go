package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

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

// kind gives an error of SQLite the meaning that the contract names; nil when
// it has none of those.
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

// usable fails once the store has failed for good.
func (db *DB) usable() error {
	if err := db.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fail names what was being done and gives the error its meaning. A fatal one
// is remembered: from then on every call fails with it.
func (db *DB) fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	meaning := kind(err)
	switch {
	case meaning == nil || errors.Is(err, meaning):
		err = fmt.Errorf("%s: %w", doing, err)
	default:
		err = fmt.Errorf("%s: %w: %w", doing, meaning, err)
	}
	if errors.Is(meaning, store.ErrFatal) {
		db.failed.CompareAndSwap(nil, &err)
	}
	return err
}

// readErr is fail for reads: no row means that the thing is not there.
func (db *DB) readErr(doing string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", doing, hook.ErrNotFound)
	}
	return db.fail(doing, err)
}

// uidTaken turns the violation of a unique index into hook.ErrUIDTaken. Ids are
// drawn, never chosen, so the only unique value a person can give is a uid.
func uidTaken(err error) error {
	if code(err) == codes.SQLITE_CONSTRAINT_UNIQUE {
		return fmt.Errorf("%w: %w", hook.ErrUIDTaken, err)
	}
	return err
}

// parentMissing turns the violation of a foreign key into hook.ErrNotFound.
func parentMissing(err error) error {
	if code(err) == codes.SQLITE_CONSTRAINT_FOREIGNKEY {
		return fmt.Errorf("%w: %w", hook.ErrNotFound, err)
	}
	return err
}

// notFound turns "no row" inside a transaction into hook.ErrNotFound.
func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return hook.ErrNotFound
	}
	return err
}
