package postgres

import (
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

// RetryDepthsSQL counts the depths of queues.
const RetryDepthsSQL = string(retryDepths)

// QueuesSQL counts what waits, DeadLettersSQL what was given up.
const (
	QueuesSQL      = string(queuesOf)
	DeadLettersSQL = string(deadLetters)
)

// ActiveLaneWatchesSQL returns the watches that show something.
func ActiveLaneWatchesSQL() string { return written(sqlstore.ActiveLaneWatchesQuery(dialect{}, 1000)) }

// LanesSQL returns the list of lanes with its parameters written in.
func LanesSQL(f store.LaneFilter) string {
	return written(sqlstore.LanesQuery(dialect{}, f, store.Page{Limit: 20}))
}

// OperationalSQL returns the list of events with its parameters written in.
func OperationalSQL(f store.OperationalFilter) string {
	return written(sqlstore.OperationalQuery(dialect{}, f, store.Page{Limit: 20}))
}
