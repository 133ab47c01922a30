package postgres_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
)

// TestUpgradeCountsWhatIsStored: a tenant's quota counts what was stored before
// there was one, and what of it leaves.
func TestUpgradeCountsWhatIsStored(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	known, err := postgres.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	n := slices.IndexFunc(known, func(m store.Migration) bool { return m.Name == "stored" })
	schema, err := postgres.OpenSchema(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.MigrateUp(t.Context(), schema, known[:n], time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := schema.Close(); err != nil {
		t.Fatal(err)
	}
	exec(t, dsn, `
CREATE TABLE events_20240101 PARTITION OF events FOR VALUES FROM (0) TO (`+strconv.FormatInt(int64(hook.DayOfIDs), 10)+`)`)
	exec(t, dsn, `
CREATE TABLE attempts_20240101 PARTITION OF attempts FOR VALUES FROM (0) TO (`+strconv.FormatInt(int64(hook.DayOfIDs), 10)+`)`)
	for _, insert := range []string{
		`INSERT INTO tenants (id, name, created_at, updated_at) VALUES (1, 'one', now(), now()), (2, 'two', now(), now())`,
		`INSERT INTO events (id, tenant_id, created_at, type, content_type, payload) VALUES
  (10, 1, now(), 'a', '', decode(repeat('00', 9000), 'hex')), (11, 1, now(), 'a', '', '\x00'), (12, 2, now(), 'a', '', ''), (13, 3, now(), 'a', '', '')`,
		`INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, state, due_at, run_due_at, attempts, first_attempt, first_excerpt) VALUES
  (20, 1, 10, 5, 1, now(), now(), 1, '{"é":1}', decode(repeat('00', 500), 'hex')), (21, 1, 10, 6, 1, now(), now(), 2, NULL, NULL)`,
		`INSERT INTO attempts (id, tenant_id, delivery_id, endpoint_id, event_id, node_id, started_at, n, run, latency_us, kind, class, reason, charged,
  policy_hash, error, detail, excerpt) VALUES
  (31, 1, 21, 6, 10, 1, now(), 1, 1, 0, 1, 1, 1, true, '', 'né', '{}', decode(repeat('00', 700), 'hex')),
  (32, 1, 21, 6, 10, 1, now(), 2, 1, 0, 1, 1, 1, true, '', NULL, NULL, NULL)`,
		`INSERT INTO tenant_usage (tenant_id, node_id, pending, bytes) VALUES (1, 0, 3, 4), (1, 7, 1, 1)`,
	} {
		exec(t, dsn, insert)
	}
	db := open(t, dsn)
	usage := func() map[hook.ID]store.Usage {
		t.Helper()
		all, err := db.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	first := store.StoredBy(2, 9000) + store.StoredByAttempt(8+500) + store.StoredByAttempt(3+2+700) + store.StoredByAttempt(0)
	want := map[hook.ID]store.Usage{1: {Pending: 4, Bytes: 5, Stored: first + store.StoredBy(0, 1)}, 2: {Stored: store.StoredBy(0, 0)}}
	if got := usage(); len(got) != 2 || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("usage after the upgrade = %+v, want %+v", got, want)
	}
	for done := false; !done; {
		got, err := db.Prune(t.Context(), store.PruneStep{Now: time.Now(), Before: time.Now(), DeadAfter: time.Now(), Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		done = got.Done
	}
	if got := usage(); len(got) != 1 || got[1] != (store.Usage{Pending: 4, Bytes: 5}) {
		t.Errorf("usage after everything has left = %+v", got)
	}
}
