package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
)

// fillBacklog gives endpoint 1 a backlog of 100,000 pending deliveries in a
// table of 200,000.
const fillBacklog = `
INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, due_at, run_due_at, state)
SELECT i, 1, i, CASE WHEN i <= 100000 THEN 1 ELSE 1 + i % 100 END, t, t, CASE WHEN i <= 100000 THEN 0 ELSE 1 END
FROM generate_series(1, 200000) AS i, LATERAL (SELECT '2026-03-01'::timestamptz + i * interval '1 s') AS x(t)`

// plan returns the generic plan of a statement, as the pool's connections get
// it once they have prepared it.
func plan(t *testing.T, conn *pgx.Conn, statement string, parameters int) string {
	t.Helper()
	nulls := strings.TrimSuffix(strings.Repeat("NULL, ", parameters), ", ")
	execute := "EXECUTE planned"
	if parameters > 0 {
		execute += "(" + nulls + ")"
	}
	for _, sql := range []string{"SET plan_cache_mode = force_generic_plan", "DEALLOCATE ALL", "PREPARE planned AS " + statement} {
		if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	rows, err := conn.Query(t.Context(), "EXPLAIN (COSTS off) "+execute, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatalf("explain: %v", err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("explain: %v", err)
	}
	return strings.Join(lines, "\n")
}

// connectAs opens a connection with the settings of one of the pools, but for
// the time a statement may take: tests fill tables on it.
func connectAs(t *testing.T, dsn string, settings map[string]string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(config.RuntimeParams, settings)
	config.RuntimeParams["statement_timeout"] = "0"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func TestPlansOfLaneReads(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	open(t, dsn)
	conn := connectAs(t, dsn, postgres.LaneSettings)
	// A plan that was made while the table was young may live on, so young
	// tables must get the same one.
	today := hook.IDFloor(time.Now())
	fill := fmt.Sprintf("; INSERT INTO events (id, tenant_id, created_at, type, content_type, payload) SELECT %d + i, 1, now(), 'a', 'a', '' FROM generate_series(1, 20000) AS i", today)
	for _, age := range []struct{ name, sql string }{
		{"empty", ""},
		{"filled, no statistics", fillBacklog + fill},
		{"filled, analyzed", "ANALYZE deliveries; ANALYZE events"},
	} {
		if _, err := conn.Exec(t.Context(), age.sql); err != nil {
			t.Fatal(err)
		}
		for sql, parameters := range postgres.EventReadsSQL(today) {
			if got := plan(t, conn, sql, parameters); !strings.Contains(got, "_pkey on events_") {
				t.Errorf("read of events, %s: does not look by the key:\n%s", age.name, got)
			}
		}
		if got := plan(t, conn, postgres.WithRowSQL, 1); !strings.Contains(got, "using deliveries_pkey on deliveries w") {
			t.Errorf("which have a row, %s: does not look by the key:\n%s", age.name, got)
		}
		for name, tc := range map[string]struct {
			sql        string
			parameters int
		}{
			"read ahead":        {postgres.ReadAheadSQL, 3},
			"newest due":        {postgres.NewestDueSQL, 3},
			"next due":          {postgres.NextDueSQL, 2},
			"read several":      {postgres.ReadDueSQL, 4},
			"pending endpoints": {postgres.PendingEndpointsSQL, 0},
		} {
			got := plan(t, conn, tc.sql, tc.parameters)
			if !strings.Contains(got, "using deliveries_due") {
				t.Errorf("%s, %s: does not use deliveries_due:\n%s", name, age.name, got)
			}
			for _, bad := range []string{"Sort", "Seq Scan", "Bitmap", "deliveries_log"} {
				if strings.Contains(got, bad) {
					t.Errorf("%s, %s: %s in the plan:\n%s", name, age.name, bad, got)
				}
			}
			if name == "read several" && !strings.Contains(got, "NOT (hashed SubPlan") {
				t.Errorf("%s, %s: what is known is compared one by one:\n%s", name, age.name, got)
			}
		}
	}
}

// TestReadAheadTouchesFewPages shows that the cost does not grow with the
// backlog, and that the walk over pending endpoints jumps.
func TestReadAheadTouchesFewPages(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	open(t, dsn)
	conn := connectAs(t, dsn, postgres.ReaderSettings)
	if _, err := conn.Exec(t.Context(), fillBacklog+"; ANALYZE deliveries"); err != nil {
		t.Fatal(err)
	}
	for name, sql := range map[string]string{
		"read ahead":        strings.NewReplacer("$1", "1", "$2", "'2026-04-01'", "$3", "256").Replace(postgres.ReadAheadSQL),
		"nothing due":       strings.NewReplacer("$1", "1", "$2", "'2026-02-01'", "$3", "256").Replace(postgres.ReadAheadSQL),
		"pending endpoints": postgres.PendingEndpointsSQL,
	} {
		if n := pagesOf(t, conn, sql); n > 64 {
			t.Errorf("%s touches %d pages", name, n)
		}
	}
}

// pagesOf returns how many pages a statement touches.
func pagesOf(t *testing.T, conn *pgx.Conn, sql string) int {
	t.Helper()
	var explained []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT json) "+sql).Scan(&explained); err != nil {
		t.Fatalf("explain: %v", err)
	}
	return explained[0].Plan.Hit + explained[0].Plan.Read
}

func TestPlansOfCommits(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	open(t, dsn)
	conn := connectAs(t, dsn, postgres.CommitterSettings)
	const oneRow = `INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, due_at, run_due_at) VALUES (1, 1, 1, 1, now(), now())`
	for _, age := range []string{oneRow, "DELETE FROM deliveries; " + fillBacklog, "ANALYZE deliveries"} {
		if _, err := conn.Exec(t.Context(), age); err != nil {
			t.Fatal(err)
		}
		settle := plan(t, conn, postgres.SettleSQL, 55)
		for _, want := range []string{"using deliveries_pkey", "Index Cond: (id = r.id)", "using shards_pkey", "hashed SubPlan"} {
			if !strings.Contains(settle, want) {
				t.Errorf("settle: no %q in the plan:\n%s", want, settle)
			}
		}
		counted := plan(t, conn, postgres.SettleReplaySQL, 55)
		if !strings.Contains(counted, "using replays_pkey") {
			t.Errorf("settle of a replay: does not use replays_pkey:\n%s", counted)
		}
		accept := plan(t, conn, postgres.AcceptSQL, 32)
		if n := strings.Count(accept, "hashed SubPlan"); n != 5 {
			t.Errorf("accept: %d hashed lookups, want 5:\n%s", n, accept)
		}
		inserted := plan(t, conn, postgres.InsertDeliveredSQL, 22)
		if n := strings.Count(inserted, "hashed SubPlan"); n != 1 || !strings.Contains(inserted, "Arbiter Indexes: deliveries_pkey") {
			t.Errorf("settle with row: %d hashed lookups, want 1:\n%s", n, inserted)
		}
		for name, p := range map[string]string{
			"settle": settle, "settle of a replay": counted, "accept": accept, "settle with row": inserted,
		} {
			for _, bad := range []string{"Seq Scan", "Hash Join", "Merge Join", "Bitmap", "deliveries_tenant"} {
				if strings.Contains(p, bad) {
					t.Errorf("%s: %s in the plan:\n%s", name, bad, p)
				}
			}
		}
	}
}

// filters are one for each walk, with the index that it goes by.
var filters = map[string]struct {
	filter store.DeliveryFilter
	index  string
}{
	"tenant":                {store.DeliveryFilter{Tenant: 7}, "deliveries_tenant"},
	"types of tenant":       {store.DeliveryFilter{Tenant: 7, Types: []string{"a.*", "b"}}, "deliveries_tenant"},
	"pending of tenant":     {store.DeliveryFilter{Tenant: 7, States: pendingOnly}, "deliveries_tenant"},
	"retrying of tenant":    {store.DeliveryFilter{Tenant: 7, Retrying: true}, "deliveries_tenant"},
	"pending of several":    {store.DeliveryFilter{Tenant: 7, Endpoints: []hook.ID{1008, 1009}, States: pendingOnly}, "deliveries_tenant"},
	"due of several":        {store.DeliveryFilter{Tenant: 7, Endpoints: []hook.ID{1008, 1009}, DueBy: time.Unix(1_800_000_000, 0)}, "deliveries_tenant"},
	"due of endpoint":       {store.DeliveryFilter{Tenant: 7, Endpoints: []hook.ID{1008}, DueBy: time.Unix(1_800_000_000, 0)}, "deliveries_log"},
	"delivered of tenant":   {store.DeliveryFilter{Tenant: 7, States: deliveredOnly}, "deliveries_tenant"},
	"dead of tenant":        {store.DeliveryFilter{Tenant: 7, States: deadOnly}, "deliveries_dead_tenant"},
	"dead of all":           {store.DeliveryFilter{States: deadOnly}, "deliveries_dead_all"},
	"endpoint":              {store.DeliveryFilter{Tenant: 7, Endpoints: []hook.ID{1008}}, "deliveries_log"},
	"pending of endpoint":   {store.DeliveryFilter{Tenant: 7, Endpoints: []hook.ID{1008}, States: pendingOnly}, "deliveries_log"},
	"delivered of endpoint": {store.DeliveryFilter{Tenant: 7, Endpoints: []hook.ID{1008}, States: deliveredOnly}, "deliveries_log"},
	"dead of endpoint":      {store.DeliveryFilter{Tenant: 7, Endpoints: []hook.ID{1008}, States: deadOnly}, "deliveries_dead"},
	"event":                 {store.DeliveryFilter{Tenant: 7, Event: 5}, "deliveries_event"},
	"ids":                   {store.DeliveryFilter{Tenant: 7, IDs: []hook.ID{5, 6}}, "deliveries_pkey"},
	"everything":            {store.DeliveryFilter{}, "deliveries_pkey"},
	"delivered":             {store.DeliveryFilter{States: deliveredOnly}, "deliveries_pkey"},
}

var (
	pendingOnly   = []hook.DeliveryState{hook.Pending}
	deliveredOnly = []hook.DeliveryState{hook.Delivered}
	deadOnly      = []hook.DeliveryState{hook.Dead}
)

// TestPlansOfLists shows which index each walk goes by, and that it need not
// sort unless it is short: while the tables are young, and when they are not.
func TestPlansOfLists(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	open(t, dsn)
	conn := connectAs(t, dsn, postgres.ReaderSettings)
	for _, age := range []struct{ name, sql string }{
		{"empty", ""},
		{"filled, no statistics", fillBacklog + "; UPDATE deliveries SET state = 2 WHERE id > 199000"},
		{"filled, analyzed", "ANALYZE deliveries"},
	} {
		if _, err := conn.Exec(t.Context(), age.sql); err != nil {
			t.Fatal(err)
		}
		for name, tc := range filters {
			if w := tc.filter.Walk(); w != store.WalkIDs || age.sql != "" { // of an empty table any index is as good
				wantWalk(t, conn, name+", "+age.name, w, &tc.filter, tc.index)
			}
		}
		few := store.DeliveryFilter{Tenant: 7, Endpoints: []hook.ID{1008, 1009}, States: pendingOnly}
		wantWalk(t, conn, "few pending, "+age.name, store.WalkDue, &few, "deliveries_due")
		few.DueBy = time.Now()
		wantWalk(t, conn, "few due, "+age.name, store.WalkDue, &few, "deliveries_due")
		if got := plan(t, conn, postgres.CountDueSQL, 3); !strings.Contains(got, "using deliveries_due on deliveries") || strings.Contains(got, "Sort") {
			t.Errorf("count of few pending, %s: %s", age.name, got)
		}
	}
}

func wantWalk(t *testing.T, conn *pgx.Conn, name string, w store.Walk, f *store.DeliveryFilter, index string) {
	t.Helper()
	for _, asc := range []bool{true, false} {
		stop, read := postgres.WalkSQL(w, f, asc)
		for _, s := range []*postgres.Statement{stop, read} {
			got := plan(t, conn, s.Text(), s.Parameters())
			if !strings.Contains(got, " using "+index+" on deliveries") {
				t.Errorf("%s: does not use %s:\n%s", name, index, got)
			}
			for _, bad := range []string{"Sort", "Seq Scan", "Bitmap", "Hash Join", "Merge Join"} {
				if strings.Contains(got, bad) && (bad != "Sort" || !w.Short()) {
					t.Errorf("%s: %s in the plan:\n%s", name, bad, got)
				}
			}
		}
	}
}

// TestListsTouchFewPages reads few deliveries of a tenant, or of an endpoint,
// among very many of others.
func TestListsTouchFewPages(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	open(t, dsn)
	exec(t, dsn, `
INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, due_at, run_due_at, state)
SELECT i, 1, i, 1 + i % 100, now(), now(), CASE i % 50 WHEN 0 THEN 2 WHEN 1 THEN 0 ELSE 1 END FROM generate_series(1, 100000) AS i;
UPDATE deliveries SET tenant_id = 7, endpoint_id = 1008 WHERE id % 10000 < 2; ANALYZE`)
	conn := connectAs(t, dsn, postgres.ReaderSettings)
	for name, tc := range filters {
		if tc.filter.Tenant == 0 {
			continue // not few
		}
		stop, read := postgres.WalkSQL(tc.filter.Walk(), &tc.filter, false)
		for _, s := range []*postgres.Statement{stop, read} {
			if pages := pagesOf(t, conn, s.Written()); pages > 200 {
				t.Errorf("list of %s touches %d pages:\n%s", name, pages, s.Written())
			}
		}
	}
}

// TestPlansOfMissingEvents: events are read by their tenant, and for each of them one
// row is looked for, whatever the statistics say.
func TestPlansOfMissingEvents(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	open(t, dsn)
	conn := connectAs(t, dsn, postgres.ReaderSettings)
	now := time.Now()
	today := hook.IDFloor(now)
	fill := fmt.Sprintf("; INSERT INTO events (id, tenant_id, created_at, type, content_type, payload) SELECT %d + i, i %% 7, now(), 'a', 'a', '' FROM generate_series(1, 20000) AS i", today)
	j := &hook.ReplayJob{TenantID: 1, EndpointID: 1, EndID: store.ReplayEnd(now), Filter: hook.ReplayFilter{
		Since: now.Add(-time.Hour), Types: []string{"a"}, Missing: &hook.MissingFilter{Types: []string{"a.*", "b"}},
	}}
	for _, age := range []struct{ name, sql string }{
		{"empty", ""},
		{"filled, no statistics", fillBacklog + fill},
		{"filled, analyzed", "ANALYZE deliveries; ANALYZE events"},
	} {
		if _, err := conn.Exec(t.Context(), age.sql); err != nil {
			t.Fatal(err)
		}
		stop, read := postgres.MissingSQL(j)
		for _, s := range []*postgres.Statement{stop, read} {
			rows, err := conn.Query(t.Context(), "EXPLAIN (COSTS off) "+s.Written())
			if err != nil {
				t.Fatal(err)
			}
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(lines, "\n")
			if !strings.Contains(got, "tenant_id_id_idx on events_") {
				t.Errorf("%s: does not go by the tenant:\n%s", age.name, got)
			}
			if s == read && !strings.Contains(got, "using deliveries_event on deliveries") {
				t.Errorf("%s: does not look for the row by its event:\n%s", age.name, got)
			}
			for _, bad := range []string{"Sort", "Seq Scan", "Bitmap", "Hash Join", "Merge Join"} {
				if strings.Contains(strings.ReplaceAll(got, "Sort Key", ""), bad) {
					t.Errorf("%s: %s in the plan:\n%s", age.name, bad, got)
				}
			}
		}
	}
}
