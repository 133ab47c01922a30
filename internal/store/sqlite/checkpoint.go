package sqlite

import (
	"context"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"

	"github.com/breakwaterhq/breakwater/internal/store"
)

// checkpointPages is how many pages may be written to the log before they are
// moved to the database file: 8 MB, SQLite's own measure in pages.
const checkpointPages = 1000

// checkpoint moves pages from the log to the file when enough have gathered.
//
// SQLite would do that by itself, but it drops the result: an fsync of the file
// that failed would be tried again later, succeed because the kernel has
// dropped the pages, and the log, their only copy, would be overwritten. Done
// here, such a failure ends the store while the log is whole.
func (w *writer) checkpoint(ctx context.Context) error {
	pages, err := w.pagesWritten()
	if err != nil {
		return err
	}
	if w.logged += pages; w.logged < checkpointPages {
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

// checkpointAfter runs a checkpoint behind a commit, which is durable already.
// Only a failure that ends the store counts; otherwise, as when there is no
// room for the file to grow, the log keeps the pages and the next one tries
// again.
func (db *DB) checkpointAfter(ctx context.Context) error {
	if err := db.fail("checkpoint", db.write.checkpoint(ctx)); errors.Is(err, store.ErrFatal) {
		return err
	}
	return nil
}
