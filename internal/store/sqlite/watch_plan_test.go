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

// planOf returns the plan of a query, a line for each step.
func planOf(t *testing.T, conn *sql.DB, query string, args ...any) string {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	check(t, err)
	defer rows.Close()
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

// TestPlansOfWatch guards what runs every few seconds: no depth may cost more
// because of a backlog, and no list may walk over all lanes for a few of them.
func TestPlansOfWatch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	open(t, path)
	conn := inspect(t, path)
	_, err := conn.ExecContext(t.Context(), fillDeliveries)
	check(t, err)

	yes := new(bool)
	*yes = true
	page := store.Page{Limit: 50, After: 1 << 60}
	lanes := func(f store.LaneFilter) (string, []any) { return sqlite.LaneQuery(f, page) }
	events := func(f store.OperationalFilter) (string, []any) { return sqlite.OperationalQuery(f, page) }
	type query struct {
		text string
		args []any
		want []string
	}
	made := func(want ...string) func(string, []any) query {
		return func(text string, args []any) query { return query{text, args, want} }
	}
	for name, q := range map[string]query{
		"depth": {sqlite.RetryDepthQuery, []any{1, 2500, 10_000}, []string{
			"SEARCH deliveries USING COVERING INDEX deliveries_due (endpoint_id=? AND due_at<?)",
			"SEARCH deliveries USING INDEX deliveries_due (endpoint_id=? AND due_at>?)",
		}},
		"queue": {sqlite.QueueQuery, []any{1, 2500, 100, 10}, []string{
			"SEARCH deliveries USING COVERING INDEX deliveries_due (endpoint_id=? AND due_at<?)",
			"SEARCH deliveries USING COVERING INDEX deliveries_due (endpoint_id=? AND due_at>?)",
			"SEARCH deliveries USING INDEX deliveries_due (endpoint_id=? AND due_at<?)",
			"SEARCH deliveries USING INDEX deliveries_due (endpoint_id=? AND due_at>?)",
		}},
		"queues": {sqlite.QueuesQuery, []any{1, 50, 2500, 100}, []string{
			"SEARCH deliveries USING INDEX deliveries_due (endpoint_id>? AND endpoint_id<?)",
			"SEARCH e USING INTEGER PRIMARY KEY", "SEARCH l USING INTEGER PRIMARY KEY",
		}},
		"dead letters":     {sqlite.DeadLettersQuery, []any{100}, []string{"SCAN deliveries USING INDEX deliveries_dead"}},
		"active":           {sqlite.ActiveLaneWatchesQuery(), []any{1000}, []string{"USING INDEX lane_watch_active"}},
		"halted":           {sqlite.HaltedEndpointsQuery(), []any{1000}, []string{"SCAN endpoints USING INDEX endpoints_halted"}},
		"storms":           made("SCAN w USING INDEX lane_watch_active", "SEARCH e USING INTEGER PRIMARY KEY")(lanes(store.LaneFilter{Storm: yes})),
		"storms of tenant": made("SCAN w USING INDEX lane_watch_active", "SEARCH e USING INTEGER PRIMARY KEY")(lanes(store.LaneFilter{Storm: yes, Tenant: 1})),
		"open lanes":       made("SCAN l USING", "INDEX lanes_open", "SEARCH e USING INTEGER PRIMARY KEY")(lanes(store.LaneFilter{Open: yes})),
		"told to wait":     made("INDEX lanes_hold (hold_until>?)", "SEARCH e USING INTEGER PRIMARY KEY")(lanes(store.LaneFilter{Hold: yes, Now: time.Unix(1, 0)})),
		"recovering":       made("SCAN l USING INDEX lanes_recovering", "SEARCH e USING INTEGER PRIMARY KEY")(lanes(store.LaneFilter{Recovering: yes, Tenant: 1})),
		"all lanes":        made("SEARCH e USING INTEGER PRIMARY KEY (rowid<?)")(lanes(store.LaneFilter{})),
		"lanes of tenant":  made("SEARCH e USING INDEX endpoints_tenant (tenant_id=? AND rowid<?)")(lanes(store.LaneFilter{Tenant: 1})),
		"events":           made("SEARCH operational_events USING INTEGER PRIMARY KEY (rowid<?)")(events(store.OperationalFilter{})),
		"events of tenant": made("INDEX operational_events_tenant (tenant_id=? AND rowid<?)")(events(store.OperationalFilter{Tenant: 1})),
		"events of endpoint": made("INDEX operational_events_endpoint (endpoint_id=? AND rowid<?)")(
			events(store.OperationalFilter{Tenant: 1, Endpoints: []hook.ID{1}})),
	} {
		plan := planOf(t, conn, q.text, q.args...)
		for _, want := range q.want {
			if !strings.Contains(plan, want) {
				t.Errorf("%s: no %q in the plan\n%s", name, want, plan)
			}
		}
		if strings.Contains(plan, "TEMP B-TREE") && strings.HasPrefix(name, "queue") {
			t.Errorf("%s: sorts\n%s", name, plan)
		}
		if strings.Contains(strings.ReplaceAll(plan, "SCAN deliveries USING INDEX deliveries_dead", ""), "SCAN deliveries") || strings.Contains(plan, "SCAN endpoints\n") || strings.Contains(plan, "SCAN e\n") {
			t.Errorf("%s: scans a table\n%s", name, plan)
		}
	}
}
