package store

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Watch keeps what the owners of lanes notice about them. No delivery depends
// on it: it is what people are shown, and what the next owner of a lane goes on
// from.
type Watch interface {
	DepthReader
	// SaveWatch stores what a node has seen, in one transaction. A row that
	// somebody has saved later stays.
	SaveWatch(ctx context.Context, s WatchSave) error
	// ActiveLaneWatches returns up to limit rows with a storm or a warning, of
	// any node, those that were not saved for longest first.
	ActiveLaneWatches(ctx context.Context, limit int) ([]hook.LaneWatch, error)
	// NodeWatches returns what nodes have saved at since or later.
	NodeWatches(ctx context.Context, since time.Time) ([]hook.NodeWatch, error)
	// SystemWatches returns the signals that are raised.
	SystemWatches(ctx context.Context) ([]hook.SystemWatch, error)
	// SetSystemWatch stores a raised signal, or removes it when Since is zero.
	SetSystemWatch(ctx context.Context, w hook.SystemWatch) error
}

// WatchSave is what a node has seen in one round.
type WatchSave struct {
	Node  *hook.NodeWatch // nil: nothing new
	Lanes []hook.LaneWatch
	Gone  []hook.ID // endpoints with nothing left to show
}

// WatchLostAfter is when a row that nobody has saved any more may be removed.
const WatchLostAfter = 24 * time.Hour

// DepthReader measures retry queues.
type DepthReader interface {
	// RetryDepths counts what waits for another attempt at each endpoint:
	// pending deliveries that have had one and, while the endpoint is paused
	// or disabled or its lane is open or told to wait, everything that is due.
	// It looks at no more than limit deliveries of either kind, so that its
	// cost does not grow with a backlog.
	RetryDepths(ctx context.Context, endpoints []hook.ID, now time.Time, limit int) ([]RetryDepth, error)
}

// RetryDepth is the retry queue of one endpoint.
type RetryDepth struct {
	EndpointID hook.ID
	Depth      int64
	AtLeast    bool // counting stopped at the limit
}

// NewRetryDepth returns the depth of a queue of which up to limit were counted
// because they are held, and as many were seen, some of them retrying.
func NewRetryDepth(endpoint hook.ID, held, retrying, seen, limit int64) RetryDepth {
	n := held + retrying
	return RetryDepth{EndpointID: endpoint, Depth: min(n, limit), AtLeast: held == limit || seen == limit || n > limit}
}

// LaneFilter selects lanes. Empty fields do not filter.
type LaneFilter struct {
	Tenant  hook.ID
	Storm   *bool // with or without a storm
	Growing *bool // with or without the early warning
	Open    *bool // the breaker
	Paused  *bool // the endpoint is paused or disabled
	// Hold is whether the destination asked for silence that has not ended at Now.
	Hold *bool
	Now  time.Time
	// Recovering is whether the lane is on its way back after an outage.
	Recovering *bool
	States     []hook.EndpointState
	Type       string // an event type that the endpoint gets
	Endpoint   hook.ID
	// Text is a part of the endpoint's URL, uid or description, in any case.
	Text string
}

// Stormy tells that only lanes with a storm, or with the early warning, match.
func (f *LaneFilter) Stormy() bool {
	return f.Storm != nil && *f.Storm || f.Growing != nil && *f.Growing
}

// LaneLog reads lanes for people.
type LaneLog interface {
	DepthReader
	// ListLanes returns the endpoints whose lanes match, deleted ones left out.
	ListLanes(ctx context.Context, f LaneFilter, p Page) ([]hook.Endpoint, error)
	// CountLanesLike counts the lanes that match, and no more than limit of them.
	CountLanesLike(ctx context.Context, f LaneFilter, limit int) (int64, error)
	// LaneWatches returns what was saved of the given endpoints; those that
	// nothing is known of are left out.
	LaneWatches(ctx context.Context, endpoints []hook.ID) ([]hook.LaneWatch, error)
	// HaltedEndpoints returns up to limit endpoints that are paused or disabled.
	HaltedEndpoints(ctx context.Context, limit int) ([]HaltedEndpoint, error)
}

// HaltedEndpoint is an endpoint that nothing is sent to.
type HaltedEndpoint struct {
	EndpointID hook.ID
	TenantID   hook.ID
	State      hook.EndpointState
	Reason     string // see hook.Endpoint
}

// OperationalFilter selects operational events. Empty fields do not filter;
// values of one field are alternatives.
type OperationalFilter struct {
	Tenant    hook.ID
	Endpoints []hook.ID
	Types     []hook.OperationalType
	Since     time.Time
	Until     time.Time
}

// OperationalLog keeps operational events until retention removes them.
type OperationalLog interface {
	// WriteOperational stores events in one transaction. Those that are stored
	// already stay as they are, so that it may be run again.
	WriteOperational(ctx context.Context, events []hook.OperationalEvent) error
	ListOperational(ctx context.Context, f OperationalFilter, p Page) ([]hook.OperationalEvent, error)
}
