package sqlite

import (
	"context"
	"strconv"

	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// Queries whose plans are tested.
const (
	ReadAheadQuery        = string(sqlstore.ReadAhead)
	NewestDueQuery        = string(sqlstore.NewestDue)
	NextDueQuery          = string(sqlstore.NextDue)
	PendingEndpointsQuery = pendingEndpoints
	PrunableQuery         = prunable
)

// Functions that are tested by themselves.
var (
	CheckDurable  = checkDurable
	ErrForeignLog = errForeignLog
	ErrLeftovers  = errLeftovers
)

// WalkQueries returns the two queries of a walk: the one that finds where to
// stop and the one that reads, which are parts of every list, count and replay.
func WalkQueries(w store.Walk, df *store.DeliveryFilter, asc bool) (texts [2]string, args [2][]any) {
	r, p := df.Range(store.Page{After: 1 << 60}), store.Page{Limit: 50, Asc: asc}
	stop := dialect{}.StopQuery(visible.Made(), w, df, r, asc, 100)
	read := dialect{}.WalkQuery(visible.Made(), w, df, r, p, sqlstore.DeliveryColumns+", "+sqlstore.TypeOfEvent)
	return [2]string{stop.SQL, read.SQL}, [2][]any{values(stop.Args), values(read.Args)}
}

// LimitPages lets the file grow to at most n pages, or without bound for 0.
func (d *DB) LimitPages(ctx context.Context, n int) error {
	if n == 0 {
		n = 1 << 30
	}
	return d.exclusive(ctx, "limit pages", func(ctx context.Context) error {
		_, err := d.write.conn.ExecContext(ctx, "PRAGMA max_page_count = "+strconv.Itoa(n))
		return err
	})
}

// Pragma returns a setting of the writer, or of a reader.
func (d *DB) Pragma(ctx context.Context, name string, reader bool) (value string, err error) {
	if reader {
		err = d.read.QueryRowContext(ctx, "PRAGMA "+name).Scan(&value)
		return value, err
	}
	err = d.exclusive(ctx, "read pragma", func(ctx context.Context) error {
		return d.write.conn.QueryRowContext(ctx, "PRAGMA "+name).Scan(&value)
	})
	return value, err
}

// ExecReader runs a statement on a reading connection.
func (d *DB) ExecReader(ctx context.Context, query string) error {
	_, err := d.read.ExecContext(ctx, query)
	return err
}
