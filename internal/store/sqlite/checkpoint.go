package sqlite

import (
	"context"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// checkpointPages is how many pages may be written to the log before they
	// are moved to the database file: 8 MB, SQLite's own measure in pages.
	checkpointPages = 1000
	// checkpointLate is when a commit does it, because nobody has tidied.
	checkpointLate = 4 * checkpointPages
	// logKeep is what remains of a long log when it begins again.
	logKeep = 64 << 20
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
	w.written.Add(int64(written) * w.frame)
	if w.logged += written; w.logged < pages {
		return nil
	}
	w.logged = 0
	_, err = w.moveLog(ctx, "PASSIVE")
	return err
}

// moveLog moves what it can of the log to the file and reports whether that was
// all. It draws the marks that tie the two together.
func (w *writer) moveLog(ctx context.Context, mode string) (all bool, err error) {
	if err := w.renewMark(ctx); err != nil && !errors.Is(kind(err), hook.ErrStoreFull) {
		return false, err // with a full disk, moving the log is what makes room
	}
	var busy, logged, moved int
	if err := w.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &logged, &moved); err != nil {
		return false, err
	}
	if busy != 0 || moved < logged {
		return false, nil // the log goes on
	}
	w.unmarked = true
	return true, w.markLog(ctx)
}

// markLog sees to it that the first transaction of a log draws a mark. The one
// that could not do so, for lack of room, leaves that to the next.
func (w *writer) markLog(ctx context.Context) error {
	if !w.unmarked {
		return nil
	}
	if err := w.renewMark(ctx); err != nil {
		return err
	}
	w.unmarked = false
	return nil
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
func (d *DB) Tidy(ctx context.Context) error {
	return d.exclusive(ctx, "tidy", func(ctx context.Context) error { return d.checkpointAt(ctx, checkpointPages) })
}

// TrimLog implements store.Logged. Commits do the same; this is for a store that
// nobody writes to any more because its log is too long.
func (d *DB) TrimLog(ctx context.Context) (int64, error) {
	bytes, err := fileSize(d.path + "-wal")
	if err != nil || bytes <= logKeep {
		return bytes, err
	}
	err = d.exclusive(ctx, "shorten the log", func(ctx context.Context) error { return d.checkpointAt(ctx, 0) })
	if err != nil {
		return bytes, err
	}
	return fileSize(d.path + "-wal")
}

// LogWritten implements store.Logged.
func (d *DB) LogWritten() int64 { return d.write.written.Load() }

// checkpointAt runs a checkpoint behind a commit, which is durable already,
// when so many pages have gathered. Only a failure that ends the store counts;
// otherwise, as when there is no room for the file to grow, the log keeps the
// pages and the next one tries again.
func (d *DB) checkpointAt(ctx context.Context, pages int) error {
	if err := d.fail("checkpoint", d.write.checkpoint(ctx, pages)); errors.Is(err, store.ErrFatal) {
		return err
	}
	return nil
}
