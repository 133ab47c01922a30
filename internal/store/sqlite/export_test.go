package sqlite

import (
	"context"
	"strconv"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Queries whose plans are tested.
const (
	ReadAheadQuery        = readAhead
	NewestDueQuery        = newestDue
	NextDueQuery          = nextDue
	PendingEndpointsQuery = pendingEndpoints
	PrunableQuery         = prunable
)

// Functions that are tested by themselves.
var (
	CheckDurable = checkDurable
)

// ListQuery returns the query of a list of deliveries.
func ListQuery(df store.DeliveryFilter, p store.Page) (query string, args []any) {
	f := deliveryFilter(df)
	f.page("d.id", p)
	return deliveryRows + f.text(), f.args
}

// WalkQuery returns the query of the next deliveries of a replay.
func WalkQuery(j *hook.ReplayJob) (query string, args []any) {
	f := deliveryFilter(store.MatchOf(j))
	f.page("d.id", store.Page{Limit: 50, After: j.Cursor, Asc: true})
	return candidates + f.text(), f.args
}

// LimitPages lets the file grow to at most n pages, or without bound for 0.
func (db *DB) LimitPages(ctx context.Context, n int) error {
	if n == 0 {
		n = 1 << 30
	}
	return db.exclusive(ctx, "limit pages", func(ctx context.Context) error {
		_, err := db.write.conn.ExecContext(ctx, "PRAGMA max_page_count = "+strconv.Itoa(n))
		return err
	})
}

// Pragma returns a setting of the writer, or of a reader.
func (db *DB) Pragma(ctx context.Context, name string, reader bool) (value string, err error) {
	if reader {
		err = db.read.QueryRowContext(ctx, "PRAGMA "+name).Scan(&value)
		return value, err
	}
	err = db.exclusive(ctx, "read pragma", func(ctx context.Context) error {
		return db.write.conn.QueryRowContext(ctx, "PRAGMA "+name).Scan(&value)
	})
	return value, err
}

// ExecReader runs a statement on a reading connection.
func (db *DB) ExecReader(ctx context.Context, query string) error {
	_, err := db.read.ExecContext(ctx, query)
	return err
}
