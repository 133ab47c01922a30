package postgres

import "github.com/breakwaterhq/breakwater/internal/store"

// Statements of the watch whose plans are tested.
const (
	RetryDepthsSQL       = string(retryDepths)
	ActiveLaneWatchesSQL = activeLaneWatches
)

// LanesSQL returns the list of lanes with its parameters written in.
func LanesSQL(f store.LaneFilter) string { return written(lanesMatching(f, store.Page{Limit: 20})) }

// OperationalSQL returns the list of events with its parameters written in.
func OperationalSQL(f store.OperationalFilter) string {
	return written(operationalMatching(f, store.Page{Limit: 20}))
}
