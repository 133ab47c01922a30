package sqlite_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// before brings a new file to the schema before the named migration and runs
// the script on it.
func before(t *testing.T, migration, script string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), sqlite.FileName)
	known, err := sqlite.Migrations()
	check(t, err)
	n := slices.IndexFunc(known, func(m store.Migration) bool { return m.Name == migration })
	schema, err := sqlite.OpenSchema(t.Context(), path)
	check(t, err)
	_, err = store.MigrateUp(t.Context(), schema, known[:n], time.Now())
	check(t, err)
	tx, err := schema.BeginMigration(t.Context())
	check(t, err)
	check(t, tx.ExecScript(t.Context(), script))
	check(t, tx.Commit(t.Context()))
	check(t, schema.Close())
	return path
}

// TestUpgradeCountsWhatIsStored: a tenant's quota counts what was stored before
// there was one, and what of it leaves.
func TestUpgradeCountsWhatIsStored(t *testing.T) {
	t.Parallel()
	path := before(t, "stored", `
INSERT INTO tenants (id, name, created_at, updated_at) VALUES (1, 'one', 0, 0), (2, 'two', 0, 0);
INSERT INTO events (id, tenant_id, type, created_at, content_type, payload) VALUES
  (10, 1, 'a', 0, '', zeroblob(9000)), (11, 1, 'a', 0, '', x'00'), (12, 2, 'a', 0, '', x''), (13, 3, 'of nobody', 0, '', x'');
INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, state, due_at, run_due_at, attempts, first_attempt_id) VALUES
  (20, 1, 10, 5, 1, 0, 0, 1, 30), (21, 1, 10, 6, 1, 0, 0, 2, NULL);
INSERT INTO first_attempts (id, document, excerpt) VALUES (30, '{"é":1}', zeroblob(500));
INSERT INTO attempts (id, tenant_id, delivery_id, endpoint_id, event_id, n, run, kind, class, reason, charged, status, latency_us, policy_hash,
  retry_n, ceiling_ms, u, delay_ms, delay_source, node_id, started_at, error, detail, excerpt) VALUES
  (31, 1, 21, 6, 10, 1, 1, 1, 1, 1, 1, 200, 0, x'', 0, 0, 0, 0, 0, 1, 0, 'né', '{}', zeroblob(700)),
  (32, 1, 21, 6, 10, 2, 1, 1, 1, 1, 1, 200, 0, x'', 0, 0, 0, 0, 0, 1, 0, NULL, NULL, NULL);
INSERT INTO tenant_usage (tenant_id, node_id, pending, bytes) VALUES (1, 0, 3, 4), (1, 7, 1, 1);`)
	db := open(t, path)
	first := store.StoredBy(2, 9000) + store.StoredByAttempt(8+500) + store.StoredByAttempt(3+2+700) + store.StoredByAttempt(0)
	want := map[hook.ID]store.Usage{1: {Pending: 4, Bytes: 5, Stored: first + store.StoredBy(0, 1)}, 2: {Stored: store.StoredBy(0, 0)}}
	got, err := db.Usage(t.Context())
	check(t, err)
	if len(got) != 2 || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("usage after the upgrade = %+v, want %+v", got, want)
	}
	_, err = db.Prune(t.Context(), store.PruneStep{Now: time.Now(), Before: time.Now(), DeadAfter: time.Now(), Limit: 100})
	check(t, err)
	got, err = db.Usage(t.Context())
	check(t, err)
	if len(got) != 1 || got[1] != (store.Usage{Pending: 4, Bytes: 5}) {
		t.Errorf("usage after everything has left = %+v", got)
	}
}
