package sqlite_test

import (
	"database/sql"
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

	for name, q := range map[string]struct {
		text  string
		args  []any
		index string
	}{
		"read ahead":        {sqlite.ReadAheadQuery, []any{1, 2500, 256}, "deliveries_due (endpoint_id=? AND due_at<?)"},
		"newest due":        {sqlite.NewestDueQuery, []any{1, 2500, 64}, "deliveries_due (endpoint_id=? AND due_at<?)"},
		"next due":          {sqlite.NextDueQuery, []any{1, 2500}, "deliveries_due (endpoint_id=? AND due_at>?)"},
		"pending endpoints": {sqlite.PendingEndpointsQuery, nil, "deliveries_due (endpoint_id>?)"},
		"old events":        {sqlite.PrunableQuery, []any{1, 1, 1}, "e USING INTEGER PRIMARY KEY (rowid<?)"},
	} {
		if plan := explain(t, conn, q.text, q.args); !strings.Contains(plan, q.index) || sorts(plan) {
			t.Errorf("%s: want %s and no sort, got plan\n%s", name, q.index, plan)
		}
	}
}

// TestPlansOfLists shows which index each walk goes by, and that it need not
// sort unless it is short.
func TestPlansOfLists(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	open(t, path)
	conn := inspect(t, path)
	_, err := conn.ExecContext(t.Context(), fillDeliveries)
	check(t, err)

	pending, dead := []hook.DeliveryState{hook.Pending}, []hook.DeliveryState{hook.Dead}
	delivered := []hook.DeliveryState{hook.Delivered}
	const byTenant, byEndpoint = " (tenant_id=? AND rowid>? AND rowid<?)", " (endpoint_id=? AND rowid>? AND rowid<?)"
	replay := store.MatchOf(&hook.ReplayJob{TenantID: 1, CreatedAt: time.Now(), Filter: hook.ReplayFilter{States: delivered}})
	for name, tc := range map[string]struct {
		filter store.DeliveryFilter
		index  string
	}{
		"tenant":                {store.DeliveryFilter{Tenant: 1}, "deliveries_tenant" + byTenant},
		"types of tenant":       {store.DeliveryFilter{Tenant: 1, Types: []string{"a.*"}}, "deliveries_tenant" + byTenant},
		"pending of tenant":     {store.DeliveryFilter{Tenant: 1, States: pending}, "deliveries_tenant" + byTenant},
		"retrying of tenant":    {store.DeliveryFilter{Tenant: 1, Retrying: true}, "deliveries_tenant" + byTenant},
		"pending of several":    {store.DeliveryFilter{Tenant: 1, Endpoints: []hook.ID{1, 2}, States: pending}, "deliveries_tenant" + byTenant},
		"due of several":        {store.DeliveryFilter{Tenant: 1, Endpoints: []hook.ID{1, 2}, DueBy: time.Now()}, "deliveries_tenant" + byTenant},
		"due of endpoint":       {store.DeliveryFilter{Tenant: 1, Endpoints: []hook.ID{1}, DueBy: time.Now()}, "deliveries_log" + byEndpoint},
		"delivered of tenant":   {store.DeliveryFilter{Tenant: 1, States: delivered}, "deliveries_tenant" + byTenant},
		"reason of tenant":      {store.DeliveryFilter{Tenant: 1, Reasons: []hook.EndReason{hook.DeadExpired}}, "deliveries_tenant" + byTenant},
		"dead of tenant":        {store.DeliveryFilter{Tenant: 1, States: dead, Types: []string{"a"}}, "deliveries_dead_tenant" + byTenant},
		"dead of all":           {store.DeliveryFilter{States: dead}, "deliveries_dead_all (state=? AND rowid>? AND rowid<?)"},
		"endpoint":              {store.DeliveryFilter{Tenant: 1, Endpoints: []hook.ID{1}}, "deliveries_log" + byEndpoint},
		"delivered of endpoint": {store.DeliveryFilter{Tenant: 1, Endpoints: []hook.ID{1}, States: delivered}, "deliveries_log" + byEndpoint},
		"dead of endpoint":      {store.DeliveryFilter{Tenant: 1, Endpoints: []hook.ID{1}, States: dead}, "deliveries_dead" + byEndpoint},
		"event":                 {store.DeliveryFilter{Tenant: 1, Event: 1}, "deliveries_event (event_id=?"},
		"ids":                   {store.DeliveryFilter{Tenant: 1, IDs: []hook.ID{1, 2}}, "d USING INTEGER PRIMARY KEY (rowid=?)"},
		"everything":            {store.DeliveryFilter{}, "d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		"replay of delivered":   {replay, "deliveries_tenant" + byTenant},
	} {
		wantWalk(t, conn, name, tc.filter.Walk(), &tc.filter, tc.index)
	}
	few := store.DeliveryFilter{Tenant: 1, Endpoints: []hook.ID{1, 2}, States: pending}
	wantWalk(t, conn, "few pending", store.WalkDue, &few, "deliveries_due (endpoint_id=?)")
	few.DueBy = time.Now()
	wantWalk(t, conn, "few due", store.WalkDue, &few, "deliveries_due (endpoint_id=? AND due_at<?)")
}

func wantWalk(t *testing.T, conn *sql.DB, name string, w store.Walk, f *store.DeliveryFilter, index string) {
	t.Helper()
	for _, asc := range []bool{true, false} {
		texts, args := sqlite.WalkQueries(w, f, asc)
		for i := range texts {
			plan := explain(t, conn, texts[i], args[i])
			if !strings.Contains(plan, index) || sorts(plan) && !w.Short() {
				t.Errorf("%s: want %s and no sort, got plan\n%s", name, index, plan)
			}
		}
		// The search for the place to stop touches nothing but its index.
		if stop := explain(t, conn, texts[0], args[0]); !w.Short() && w != store.WalkAll && !strings.Contains(stop, "COVERING INDEX "+index) {
			t.Errorf("%s: reads more than its index to find where to stop:\n%s", name, stop)
		}
	}
}

func sorts(plan string) bool { return strings.Contains(plan, "TEMP B-TREE") }

// explain returns a query's plan, one step a line.
func explain(t *testing.T, conn *sql.DB, text string, args []any) string {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, args...)
	check(t, err)
	defer func() { _ = rows.Close() }()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		check(t, rows.Scan(&id, &parent, &unused, &detail))
		plan = append(plan, detail)
	}
	check(t, rows.Err())
	return strings.Join(plan, "\n")
}
