package store

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// AuditFilter selects audit records. Empty fields do not filter; values of one
// field are alternatives, fields must all match.
type AuditFilter struct {
	Tenant   hook.ID
	Actors   []string
	Actions  []string // patterns: endpoint.pause or endpoint.*
	Subjects []string
	Since    time.Time
	Until    time.Time
}

// AuditLog reads audit records.
type AuditLog interface {
	// ListAudit looks at p.ScanLimit records at most. It returns those that match and
	// the After of the next page, 0 at the end, as ListDeliveries does.
	ListAudit(ctx context.Context, f AuditFilter, p Page) (records []hook.Audit, next hook.ID, err error)
}

// NodeLog tells of the processes that work on the store.
type NodeLog interface {
	// Nodes returns all nodes that the store knows, gone ones included, by name.
	Nodes(ctx context.Context) ([]NodeRow, error)
	// Shards is that of Leases.
	Shards(ctx context.Context, ttl time.Duration) ([]ShardLease, error)
	// NodeWatches is that of Watch.
	NodeWatches(ctx context.Context, since time.Time) ([]hook.NodeWatch, error)
}

// NodeRow is a node with what is left of its lease, by the clock of the store.
type NodeRow struct {
	hook.Node
	// Left is negative for a node that is gone. It means nothing in a store that is
	// not shared, where leases do not end.
	Left time.Duration
}
