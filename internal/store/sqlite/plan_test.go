package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// fillDeliveries makes deliveries over 10 endpoints, half of them pending, all
// of those at endpoint 1. Without statistics, which the store never gathers,
// the plan does not depend on how many rows there are.
const fillDeliveries = `
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, state, due_at, run_due_at)
SELECT i, 1, i, CASE WHEN i % 2 = 0 THEN 1 ELSE 1 + i % 10 END, CASE WHEN i % 2 = 0 THEN 0 ELSE 1 + i % 2 END, i, i FROM n`

// TestPlans guards the queries that must not slow down with a backlog: each
// walks its index, in its order, and sorts nothing.
func TestPlans(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	open(t, path)
	conn := inspect(t, path)
	_, err := conn.ExecContext(t.Context(), fillDeliveries)
	check(t, err)

	dead := []hook.DeliveryState{hook.Dead}
	list := func(f store.DeliveryFilter) (string, []any) {
		return sqlite.ListQuery(f, store.Page{Limit: 50, After: 1 << 60})
	}
	type query struct {
		text  string
		args  []any
		index string
	}
	made := func(index string, f store.DeliveryFilter) query {
		text, args := list(f)
		return query{text, args, index}
	}
	walk := func(index string, j hook.ReplayJob) query {
		j.TenantID, j.Cursor, j.CreatedAt = 1, 5, time.Now()
		text, args := sqlite.WalkQuery(&j)
		return query{text, args, index}
	}
	for name, q := range map[string]query{
		"read ahead":        {sqlite.ReadAheadQuery, []any{1, 2500, 256}, "deliveries_due (endpoint_id=? AND due_at<?)"},
		"newest due":        {sqlite.NewestDueQuery, []any{1, 2500, 64}, "deliveries_due (endpoint_id=? AND due_at<?)"},
		"next due":          {sqlite.NextDueQuery, []any{1, 2500}, "deliveries_due (endpoint_id=? AND due_at>?)"},
		"pending endpoints": {sqlite.PendingEndpointsQuery, nil, "deliveries_due (endpoint_id>?)"},
		"old events":        {sqlite.PrunableQuery, []any{1, 1, 1}, "e USING INTEGER PRIMARY KEY (rowid<?)"},
		"endpoint's log":    made("deliveries_log (endpoint_id=? AND rowid<?)", store.DeliveryFilter{Tenant: 1, Endpoints: []hook.ID{1}}),
		"dead of endpoint": made("deliveries_dead (endpoint_id=? AND rowid<?)",
			store.DeliveryFilter{Endpoints: []hook.ID{1}, States: dead}),
		"dead of tenant":  made("deliveries_dead_tenant (tenant_id=? AND rowid<?)", store.DeliveryFilter{Tenant: 1, States: dead}),
		"event's targets": made("deliveries_event (event_id=?", store.DeliveryFilter{Event: 1}),
		"replay of dead of endpoint": walk("deliveries_dead (endpoint_id=? AND rowid>? AND rowid<?)",
			hook.ReplayJob{EndpointID: 1, Filter: hook.ReplayFilter{States: dead}}),
		"replay of endpoint": walk("deliveries_log (endpoint_id=? AND rowid>? AND rowid<?)",
			hook.ReplayJob{EndpointID: 1, Filter: hook.ReplayFilter{States: []hook.DeliveryState{hook.Dead, hook.Delivered}}}),
		"replay of dead of tenant": walk("deliveries_dead_tenant (tenant_id=? AND rowid>? AND rowid<?)",
			hook.ReplayJob{Filter: hook.ReplayFilter{States: dead, Types: []string{"a.*"}}}),
		"replay of tenant": walk("d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
			hook.ReplayJob{Filter: hook.ReplayFilter{States: []hook.DeliveryState{hook.Delivered}}}),
	} {
		rows, err := conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+q.text, q.args...) //nolint:sqlclosecheck // closed below, in the loop
		check(t, err)
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			check(t, rows.Scan(&id, &parent, &unused, &detail))
			plan = append(plan, detail)
		}
		check(t, rows.Err())
		text := strings.Join(plan, "\n")
		sorts := strings.Contains(text, "TEMP B-TREE") && name != "event's targets"
		if !strings.Contains(text, q.index) || sorts || strings.Contains(text, "SCAN d\n") || strings.Contains(text, "SCAN deliveries\n") {
			t.Errorf("%s: want %s and no sort, got plan\n%s", name, q.index, text)
		}
	}
}
