package postgres

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
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

// AlertsSQL returns the list of alerts with its parameters written in.
func AlertsSQL(f store.AlertFilter) string {
	return written(sqlstore.AlertsQuery(dialect{}, f, store.Page{Limit: 20}))
}

// DueNoticesSQL returns the query of notices that are due with its parameters
// written in.
func DueNoticesSQL(f store.Fence, now time.Time, busy []hook.ID) string {
	return written(sqlstore.DueQuery(dialect{}, f, now, busy, 64))
}
