package postgres

import (
	"slices"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// matching builds the query for a filter. What drives it depends on what is
// given, so that every list is bounded by an index:
//
//   - an event: deliveries_event
//   - ids: the primary key
//   - endpoints, or a tenant's endpoints: the newest of each by deliveries_log
//     (or deliveries_dead), then the newest of all
//   - the dead letters of a tenant: deliveries_dead_tenant
//   - nothing of these: all deliveries by id
func matching(f store.DeliveryFilter, p store.Page, columns string) *query {
	switch {
	case f.Event != 0, len(f.IDs) > 0, len(f.Endpoints) == 0 && (f.Tenant == 0 || onlyDead(f)):
		return matchingDirectly(f, p, columns)
	default:
		return matchingByEndpoint(f, p, columns)
	}
}

func onlyDead(f store.DeliveryFilter) bool {
	return len(f.States) == 1 && f.States[0] == hook.Dead
}

func matchingDirectly(f store.DeliveryFilter, p store.Page, columns string) *query {
	q := &query{sql: "SELECT " + columns + " FROM deliveries d LEFT JOIN events e ON e.id = d.event_id WHERE true"}
	if len(f.Endpoints) > 0 {
		q.and("d.endpoint_id = ANY(?)", f.Endpoints)
	}
	q.conditions(f)
	q.page("d.id", p)
	return q
}

// matchingByEndpoint takes a page of each endpoint and a page of those pages.
func matchingByEndpoint(f store.DeliveryFilter, p store.Page, columns string) *query {
	q := &query{sql: "SELECT " + columns + " FROM "}
	if len(f.Endpoints) > 0 {
		q.sql += "(SELECT DISTINCT id FROM unnest(" + q.arg(f.Endpoints) + "::bigint[]) AS id) ep"
	} else {
		q.sql += "(SELECT id FROM endpoints WHERE tenant_id = " + q.arg(f.Tenant) + ") ep"
	}
	q.sql += `
CROSS JOIN LATERAL (
SELECT d.* FROM deliveries d`
	if filtersTypes(f.Types) {
		q.sql += " JOIN events e ON e.id = d.event_id"
	}
	q.sql += " WHERE d.endpoint_id = ep.id"
	q.conditions(f)
	q.page("d.id", p)
	q.sql += `) d
LEFT JOIN events e ON e.id = d.event_id
ORDER BY d.id` + direction(p) + ` LIMIT ` + q.arg(max(p.Limit, 1))
	return q
}

func filtersTypes(patterns []string) bool {
	return len(patterns) > 0 && !slices.Contains(patterns, "*")
}

// conditions adds everything but the endpoints. States are written out: the
// partial indexes need to see them.
func (q *query) conditions(f store.DeliveryFilter) {
	if f.Tenant != 0 {
		q.and("d.tenant_id = ?", f.Tenant)
	}
	if f.Event != 0 {
		q.and("d.event_id = ?", f.Event)
	}
	if len(f.States) > 0 {
		q.and("d.state IN (" + numbers(f.States) + ")")
	}
	if f.Retrying {
		q.and("d.state = 0 AND d.attempts > 0")
	}
	if len(f.Reasons) > 0 {
		q.and("d.reason IN (" + numbers(f.Reasons) + ")")
	}
	if len(f.IDs) > 0 {
		q.and("d.id = ANY(?)", f.IDs)
	}
	switch {
	case f.SettledBy.IsZero():
	case len(f.States) > 0 && !slices.Contains(f.States, hook.Pending):
		q.and("d.settled_at <= ?", at(f.SettledBy))
	default:
		q.and("(d.state = 0 OR d.settled_at <= ?)", at(f.SettledBy))
	}
	q.typed(f.Types)
	q.between("d.id", f.Since, f.Until)
}

// numbers lists enum members as literals.
func numbers[E ~uint8](members []E) string {
	texts := make([]string, len(members))
	for i, m := range members {
		texts[i] = strconv.Itoa(int(m))
	}
	return strings.Join(texts, ", ")
}
