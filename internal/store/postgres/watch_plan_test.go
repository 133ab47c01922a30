package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
)

// fillLanes makes 20,000 endpoints, each hundredth with an open lane, each
// thousandth with a storm, and 100,000 operational events.
const fillLanes = `
INSERT INTO tenants (id, name, created_at, updated_at) VALUES (1, 'a', now(), now()), (2, 'b', now(), now());
INSERT INTO endpoints (id, tenant_id, shard, url, created_at, updated_at) SELECT i, 1 + i % 2, 0, 'u', now(), now() FROM generate_series(1, 20000) AS i;
INSERT INTO lanes (endpoint_id, tenant_id, epoch, state, lim, base_weight, healthy_peak, pace, slow_start, pace_slow_start, updated_at)
SELECT i, 1 + i % 2, 1, CASE i % 100 WHEN 0 THEN 1 ELSE 0 END, 1, 0, 0, 0, false, false, now() FROM generate_series(1, 20000) AS i;
INSERT INTO lane_watch (endpoint_id, tenant_id, storm_since, firsts, retries, depth, drain_per_minute, updated_at, at_least)
SELECT i, 1 + i % 2, CASE i % 1000 WHEN 0 THEN now() END, 1, 1, 1, 0, now(), false FROM generate_series(1, 20000) AS i;
INSERT INTO operational_events (id, tenant_id, endpoint_id, at, type, detail)
SELECT i, 1 + i % 2, i % 20000, now(), 'breaker.opened', '{}' FROM generate_series(1, 100000) AS i;
ANALYZE;`

func TestPlansOfDepths(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	open(t, dsn)
	conn := connectAs(t, dsn, postgres.ReaderSettings)
	for _, age := range []struct{ name, sql string }{
		{"empty", ""},
		{"filled, no statistics", fillBacklog},
		{"filled, analyzed", "ANALYZE deliveries"},
	} {
		if _, err := conn.Exec(t.Context(), age.sql); err != nil {
			t.Fatal(err)
		}
		got := plan(t, conn, postgres.RetryDepthsSQL, 3)
		if strings.Count(got, "using deliveries_due") != 2 {
			t.Errorf("%s: depths do not walk deliveries_due twice:\n%s", age.name, got)
		}
		for _, bad := range []string{"Sort", "Seq Scan on deliveries", "Bitmap", "deliveries_log", "Hash"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s: %s in the plan:\n%s", age.name, bad, got)
			}
		}
	}
	if got := plan(t, conn, postgres.QueuesSQL, 4); strings.Count(got, "using deliveries_due") != 4 ||
		strings.Contains(got, "Sort") || strings.Contains(got, "Seq Scan on deliveries") {
		t.Errorf("queues do not walk deliveries_due four times:\n%s", got)
	}
	if got := plan(t, conn, postgres.DeadLettersSQL, 1); !strings.Contains(got, "using deliveries_dead") || strings.Contains(got, "Seq Scan") {
		t.Errorf("dead letters do not walk deliveries_dead:\n%s", got)
	}
	// A hundred thousand wait; a count that ends at 500 must not see them all.
	count := strings.NewReplacer("$1", "'{1}'", "$2::timestamptz", "'2026-04-01'::timestamptz", "$2", "'2026-04-01'::timestamptz", "$3", "500").
		Replace(postgres.RetryDepthsSQL)
	for _, block := range []string{"", `INSERT INTO lanes (endpoint_id, tenant_id, epoch, state, lim, base_weight, healthy_peak, pace, slow_start, pace_slow_start, updated_at)
VALUES (1, 1, 1, 1, 1, 0, 0, 0, false, false, now())`} {
		if _, err := conn.Exec(t.Context(), block); err != nil {
			t.Fatal(err)
		}
		if n := pagesOf(t, conn, count); n > 600 {
			t.Errorf("a count up to 500 touches %d pages", n)
		}
	}
}

func TestListsOfLanesAreBoundedByIndexes(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	open(t, dsn)
	conn := connectAs(t, dsn, postgres.ReaderSettings)
	if _, err := conn.Exec(t.Context(), fillLanes); err != nil {
		t.Fatal(err)
	}
	yes := new(bool)
	*yes = true
	for name, sql := range map[string]string{
		"storms":              postgres.LanesSQL(store.LaneFilter{Storm: yes}),
		"storms of a tenant":  postgres.LanesSQL(store.LaneFilter{Storm: yes, Tenant: 1}),
		"open lanes":          postgres.LanesSQL(store.LaneFilter{Open: yes}),
		"told to wait":        postgres.LanesSQL(store.LaneFilter{Hold: yes, Now: time.Unix(1, 0)}),
		"recovering":          postgres.LanesSQL(store.LaneFilter{Recovering: yes}),
		"all lanes":           postgres.LanesSQL(store.LaneFilter{}),
		"lanes of a tenant":   postgres.LanesSQL(store.LaneFilter{Tenant: 1}),
		"active watches":      postgres.ActiveLaneWatchesSQL(),
		"events":              postgres.OperationalSQL(store.OperationalFilter{}),
		"events of a tenant":  postgres.OperationalSQL(store.OperationalFilter{Tenant: 1}),
		"events of endpoints": postgres.OperationalSQL(store.OperationalFilter{Tenant: 1, Endpoints: []hook.ID{1, 2}}),
	} {
		if pages := pagesOf(t, conn, sql); pages > 300 {
			t.Errorf("%s: %d pages", name, pages)
		}
	}
}
