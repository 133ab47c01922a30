package sqlite

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

// Queries of the watch whose plans are tested.
const (
	RetryDepthQuery  = retryDepth
	QueueQuery       = queueOf
	QueuesQuery      = queuesOf
	DeadLettersQuery = deadLetters
)

// ActiveLaneWatchesQuery, LaneQuery and OperationalQuery are made by sqlstore.
func ActiveLaneWatchesQuery() string { return sqlstore.ActiveLaneWatchesQuery(dialect{}, 1).SQL }

// HaltedEndpointsQuery is made by sqlstore, too.
func HaltedEndpointsQuery() string { return sqlstore.HaltedEndpointsQuery(dialect{}, 1).SQL }

func LaneQuery(f store.LaneFilter, p store.Page) (string, []any) {
	q := sqlstore.LanesQuery(dialect{}, f, p)
	return q.SQL, values(q.Args)
}

func OperationalQuery(f store.OperationalFilter, p store.Page) (string, []any) {
	q := sqlstore.OperationalQuery(dialect{}, f, p)
	return q.SQL, values(q.Args)
}

// AlertsQuery and DueNoticesQuery are made by sqlstore.
func AlertsQuery(f store.AlertFilter, p store.Page) (string, []any) {
	q := sqlstore.AlertsQuery(dialect{}, f, p)
	return q.SQL, values(q.Args)
}

func DueNoticesQuery(f store.Fence, now time.Time, busy []hook.ID, limit int) (string, []any) {
	q := sqlstore.DueQuery(dialect{}, f, now, busy, limit)
	return q.SQL, values(q.Args)
}

// TroubledQuery is made by sqlstore.
func TroubledQuery(since time.Time) (string, []any) {
	q := sqlstore.TroubledQuery(dialect{}, since)
	return q.SQL, values(q.Args)
}
