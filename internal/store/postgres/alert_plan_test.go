package postgres_test

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
)

// fillAlerts makes 50,000 alerts that are over, 50 that fire, a notice of each that
// was sent, and 20 channels that are behind.
const fillAlerts = `
INSERT INTO alerts (id, rule, level, severity, status, tenant_id, endpoint_id, replay_id, node_id, summary, value, threshold, since, resolved_at, count, flapping, memory)
SELECT i, 'retry_storm', 1, 2, CASE i % 1000 WHEN 0 THEN 1 ELSE 2 END, 1 + i % 2, i, 0, 0, 's', 1, 1, now(), now() - i * interval '1 second', 1, false, '{}'
FROM generate_series(1, 50000) AS i;
INSERT INTO notices (about_id, channel_id, at, kind, result, due_at) SELECT i, 1, now(), 1, 2, now() FROM generate_series(1, 50000) AS i;
INSERT INTO notices (about_id, channel_id, at, kind, result, due_at)
SELECT 100000 + i, 2 + i % 20, now(), 0, 1, now() - i * interval '1 millisecond' FROM generate_series(1, 20000) AS i;
UPDATE shards SET owner_id = 7, epoch = 3 WHERE shard = 0;
ANALYZE;`

func TestListsOfAlertsAreBoundedByIndexes(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	open(t, dsn)
	conn := connectAs(t, dsn, postgres.ReaderSettings)
	if _, err := conn.Exec(t.Context(), fillAlerts); err != nil {
		t.Fatal(err)
	}
	fence := store.Fence{Node: 7, Held: store.Held{Epoch: 3}}
	for name, sql := range map[string]string{
		"all":            postgres.AlertsSQL(store.AlertFilter{}),
		"firing":         postgres.AlertsSQL(store.AlertFilter{Statuses: []hook.AlertStatus{hook.AlertFiring}}),
		"of a tenant":    postgres.AlertsSQL(store.AlertFilter{Tenant: 1}),
		"of an endpoint": postgres.AlertsSQL(store.AlertFilter{Tenant: 1, Endpoints: []hook.ID{400}}),
		"due notices":    postgres.DueNoticesSQL(fence, time.Now().UTC().Add(time.Hour), []hook.ID{2, 3}),
	} {
		if pages := pagesOf(t, conn, sql); pages > 600 {
			t.Errorf("%s: %d pages", name, pages)
		}
	}
}
