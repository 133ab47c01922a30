package sqlite

import (
	"context"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"

	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// checkpointPages is how many pages may be written to the log before they
	// are moved to the database file: 8 MB, SQLite's own measure in pages.
	checkpointPages = 1000
	// checkpointLate is when a commit does it, because nobody has tidied.
	checkpointLate = 4 * checkpointPages
)

// checkpoint moves pages from the log to the file when so many have gathered.
//
// SQLite would do that by itself, but it drops the result: an fsync of the file
// that failed would be tried again later, succeed because the kernel has
// dropped the pages, and the log, their only copy, would be overwritten. Done
// here, such a failure ends the store while the log is whole.
func (w *writer) checkpoint(ctx context.Context, pages int) error {
	written, err := w.pagesWritten()
	if err != nil {
		return err
	}
	if w.logged += written; w.logged < pages {
		return nil
	}
	w.logged = 0
	_, err = w.conn.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	return err
}

// pagesWritten returns how many pages went to the log since it was last asked.
func (w *writer) pagesWritten() (pages int, err error) {
	err = w.conn.Raw(func(raw any) error {
		status, ok := raw.(driver.DBStatus)
		if !ok {
			return fmt.Errorf("driver connection is a %T", raw)
		}
		pages, _, err = status.Status(driver.DBStatusCacheWrite, true)
		return err
	})
	return pages, err
}

// Tidy implements store.Tidier. A checkpoint takes longer than a commit; here
// nobody waits for it.
func (db *DB) Tidy(ctx context.Context) error {
	return db.exclusive(ctx, "tidy", func(ctx context.Context) error { return db.checkpointAt(ctx, checkpointPages) })
}

// checkpointAt runs a checkpoint behind a commit, which is durable already,
// when so many pages have gathered. Only a failure that ends the store counts;
// otherwise, as when there is no room for the file to grow, the log keeps the
// pages and the next one tries again.
func (db *DB) checkpointAt(ctx context.Context, pages int) error {
	if err := db.fail("checkpoint", db.write.checkpoint(ctx, pages)); errors.Is(err, store.ErrFatal) {
		return err
	}
	return nil
}
