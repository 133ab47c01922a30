package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
	"github.com/breakwaterhq/breakwater/internal/store/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	const parts = 4
	for part := range parts {
		t.Run(fmt.Sprint("part ", part+1), func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.DSN(t)
			storetest.RunWith(t, storetest.Features{
				Audits: func(t testing.TB, _ store.DB) []hook.Audit { return audits(t, dsn) },
				Part:   part, Parts: parts,
			}, func(t *testing.T) store.DB {
				db := open(t, dsn)
				empty(t, dsn)
				return db
			})
		})
	}
}

// empty makes the database as it was after migrating. A part of the suite runs its
// tests one by one, and this is much faster than a database for each.
func empty(t testing.TB, dsn string) {
	t.Helper()
	if _, err := connect(t, dsn).Exec(t.Context(), `
DO $$ DECLARE name text; BEGIN
  FOR name IN SELECT unnest(ARRAY['attempts', 'deliveries', 'events', 'idempotency_keys', 'tenant_usage', 'lanes', 'nodes',
    'policies', 'settings', 'replays', 'lane_watch', 'node_watch', 'system_watch', 'operational_events', 'audit', 'api_keys', 'secrets', 'endpoints', 'tenants', 'stats', 'stats_log', 'alerts', 'notices', 'alert_channels', 'logouts', 'named_policies', 'kept_answers', 'event_types'])
  LOOP EXECUTE 'DELETE FROM ' || name; END LOOP;
  UPDATE shards SET owner_id = NULL, epoch = 0, expires_at = '-infinity';
END $$`); err != nil {
		t.Fatalf("empty the database: %v", err)
	}
}

// open opens a store that is closed when the test ends.
func open(t testing.TB, dsn string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return db
}

// connect opens a plain connection that is closed when the test ends.
func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// audits reads all audit records, oldest first.
func audits(t testing.TB, dsn string) []hook.Audit {
	t.Helper()
	rows, err := connect(t, dsn).Query(t.Context(), `
SELECT id, coalesce(tenant_id, 0), actor, action, subject, diff, coalesce(request_id, ''), coalesce(remote_ip, ''), at FROM audit ORDER BY id`)
	if err != nil {
		t.Fatalf("read audit records: %v", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a hook.Audit, err error) {
		err = row.Scan(&a.ID, &a.TenantID, &a.Actor, &a.Action, &a.Subject, &a.Diff, &a.RequestID, &a.RemoteIP, &a.At)
		return a, err
	})
	if err != nil {
		t.Fatalf("read audit records: %v", err)
	}
	return all
}
