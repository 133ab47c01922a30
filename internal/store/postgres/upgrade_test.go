package postgres_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
)

// TestLaneOfAnOlderDatabaseKeepsWhatItKnew opens a database that was written
// before lanes learnt rates: its lane is as it was, and has learnt none.
func TestLaneOfAnOlderDatabaseKeepsWhatItKnew(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	upTo(t, dsn, "rates")
	at := time.Unix(1_700_000_000, 0).UTC()
	const tenant, endpoint = int64(1 << 40), int64(2 << 40)
	exec(t, dsn, `INSERT INTO tenants (id, name, created_at, updated_at) VALUES ($1, 'old', $2, $2)`, tenant, at)
	exec(t, dsn, `
INSERT INTO endpoints (id, tenant_id, shard, url, created_at, updated_at) VALUES ($1, $2, 7, 'https://old.example', $3, $3)`, endpoint, tenant, at)
	exec(t, dsn, `
INSERT INTO lanes (endpoint_id, tenant_id, epoch, state, open_reason, opened_at, lim, slow_start, base_us, base_weight, srtt_us,
  healthy_peak, pace, pace_slow_start, throttled_at, retry_after_us, updated_at)
VALUES ($1, $2, 3, 1, 1, $3, 4.5, true, 1500, 0.5, 2500, 9, 2.25, false, $3, 1000000, $3)`, endpoint, tenant, at)
	table := `SELECT pg_relation_filenode('lanes')::bigint`
	before := value[int64](t, dsn, table)

	got, err := open(t, dsn).Destinations(t.Context(), []hook.ID{hook.ID(endpoint)})
	if err != nil {
		t.Fatal(err)
	}
	want := lane.Checkpoint{
		SavedAt: at, Open: true, OpenReason: lane.OpenedByStreak, OpenedAt: at, Limit: 4.5, SlowStart: true,
		BaseLatency: 1500 * time.Microsecond, BaseWeight: 0.5, SRTT: 2500 * time.Microsecond, HealthyPeak: 9,
		Pace: 2.25, ThrottledAt: at, RetryAfter: time.Second,
	}
	if len(got) != 1 || got[0].Lane == nil || *got[0].Lane != want {
		t.Fatalf("lane after the upgrade = %+v, want %+v", got, want)
	}
	if value[int64](t, dsn, table) != before {
		t.Error("the upgrade has written the whole table anew")
	}
}

// upTo makes a database as a program without the named migration left it.
func upTo(t *testing.T, dsn, migration string) {
	t.Helper()
	known, err := postgres.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	n := slices.IndexFunc(known, func(m store.Migration) bool { return m.Name == migration })
	if n < 0 {
		t.Fatalf("no migration is called %q", migration)
	}
	schema, err := postgres.OpenSchema(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.MigrateUp(t.Context(), schema, known[:n], time.Now())
	if err := errors.Join(err, schema.Close()); err != nil {
		t.Fatal(err)
	}
}
