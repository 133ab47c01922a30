package sqlite

import (
	"context"
	"math"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// MakeVisible implements sqlstore.Dialect: every delivery has its row.
func (d dialect) MakeVisible(context.Context, *store.DeliveryFilter) (visible.Rows, error) {
	return visible.Made(), d.usable()
}

// MakeLaneVisible implements sqlstore.Dialect.
func (d dialect) MakeLaneVisible(ctx context.Context, _ hook.ID) (visible.Rows, error) {
	return d.MakeVisible(ctx, nil)
}

// ReadLane implements sqlstore.Dialect.
func (d dialect) ReadLane(ctx context.Context, doing string, q *sqlstore.Query, scan func(sqlstore.Row) error) error {
	return d.Read(ctx, doing, q, scan)
}

// walkOf adds the source of a walk, the index it goes by and the conditions that
// lead into it. The states are written out: they must match those of the partial
// indexes. Without statistics, which the store never gathers, the planner would
// have to guess; INDEXED BY leaves it nothing to choose.
func walkOf(q *sqlstore.Query, w store.Walk, f *store.DeliveryFilter, r store.IDs) {
	along := func(index, condition string, values ...any) {
		q.SQL += "deliveries d " + index + " WHERE true"
		if condition != "" {
			q.And(condition, values...)
		}
	}
	switch w {
	case store.WalkTenant:
		along("INDEXED BY deliveries_tenant", "d.tenant_id = ?", f.Tenant)
	case store.WalkDead:
		along("INDEXED BY deliveries_dead_tenant", "d.tenant_id = ? AND d.state = 2", f.Tenant)
	case store.WalkEndpoint:
		along("INDEXED BY deliveries_log", "d.endpoint_id = ?", f.Endpoints[0])
	case store.WalkEndpointDead:
		along("INDEXED BY deliveries_dead", "d.endpoint_id = ? AND d.state = 2", f.Endpoints[0])
	case store.WalkDue:
		along("INDEXED BY deliveries_due", "d.state = 0 AND "+dialect{}.Among("d.endpoint_id", "?"), f.Endpoints)
		if !f.DueBy.IsZero() {
			q.And("d.due_at <= ?", f.DueBy)
		}
	case store.WalkEvent:
		along("INDEXED BY deliveries_event", "d.event_id = ?", f.Event)
	case store.WalkIDs:
		along("NOT INDEXED", dialect{}.Among("d.id", "?"), f.IDs) // the primary key counts as none
	case store.WalkAllDead:
		along("INDEXED BY deliveries_dead_all", "d.state = 2")
	default: // store.WalkAll
		along("NOT INDEXED", "")
	}
	q.And("d.id >= ? AND d.id < ?", r.From, r.To)
}

// WalkQuery implements sqlstore.Dialect.
func (d dialect) WalkQuery(_ visible.Rows, w store.Walk, f *store.DeliveryFilter, r store.IDs, p store.Page, columns string) *sqlstore.Query {
	q := &sqlstore.Query{SQL: "SELECT " + columns + " FROM "}
	walkOf(q, w, f, r)
	if !f.Covers(w) {
		q.Match(d, f)
	}
	q.SQL += " ORDER BY d.id" + sqlstore.Direction(p.Asc) + " LIMIT " + q.Arg(p.Limit)
	return q
}

// StopQuery implements sqlstore.Dialect, in the index of the walk alone.
func (dialect) StopQuery(_ visible.Rows, w store.Walk, f *store.DeliveryFilter, r store.IDs, asc bool, n int) *sqlstore.Query {
	q := &sqlstore.Query{SQL: "SELECT d.id FROM "}
	walkOf(q, w, f, r)
	q.SQL += " ORDER BY d.id" + sqlstore.Direction(asc) + " LIMIT 1 OFFSET " + q.Arg(n)
	return q
}

// EventsOf implements sqlstore.Dialect.
func (dialect) EventsOf(q *sqlstore.Query, tenant hook.ID, r store.IDs) string {
	q.SQL += "events e INDEXED BY events_tenant WHERE e.tenant_id = " + q.Arg(tenant)
	q.And("e.id >= ? AND e.id < ?", r.From, r.To)
	return " ORDER BY e.id"
}

// WithoutDelivery implements sqlstore.Dialect: every delivery has its row.
func (dialect) WithoutDelivery(q *sqlstore.Query, endpoint hook.ID) {
	q.And("NOT EXISTS (SELECT 1 FROM deliveries d INDEXED BY deliveries_event WHERE d.event_id = e.id AND d.endpoint_id = ?)", endpoint)
}

// Pairs implements sqlstore.Dialect.
func (dialect) Pairs() string {
	return "(SELECT a.value AS id, b.value AS event_id FROM json_each($1) a JOIN json_each($2) b ON b.key = a.key) p"
}

const countDue = `
SELECT count(*) FROM (
  SELECT 1 FROM deliveries INDEXED BY deliveries_due WHERE endpoint_id IN (SELECT value FROM json_each($1)) AND state = 0 AND due_at <= $2 LIMIT $3)`

// CountDue implements sqlstore.Dialect.
func (dialect) CountDue(_ visible.Rows, endpoints []hook.ID, by time.Time, limit int) *sqlstore.Query {
	latest := int64(math.MaxInt64)
	if !by.IsZero() {
		latest = by.UnixMicro()
	}
	return &sqlstore.Query{SQL: countDue, Args: []any{endpoints, latest, limit}}
}
