package sqlite

import (
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

func LaneQuery(f store.LaneFilter, p store.Page) (string, []any) {
	q := sqlstore.LanesQuery(dialect{}, f, p)
	return q.SQL, values(q.Args)
}

func OperationalQuery(f store.OperationalFilter, p store.Page) (string, []any) {
	q := sqlstore.OperationalQuery(dialect{}, f, p)
	return q.SQL, values(q.Args)
}
