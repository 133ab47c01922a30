package sqlite

// Queries of the watch whose plans are tested.
const (
	RetryDepthQuery        = retryDepth
	ActiveLaneWatchesQuery = activeLaneWatches
)

// Functions that write such queries.
var (
	LaneQuery        = laneQuery
	OperationalQuery = operationalQuery
)
