package sqlite_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// TestLaneOfAnOlderFileKeepsWhatItKnew opens a file that was written before
// lanes learnt rates: its lane is as it was, and has learnt none.
func TestLaneOfAnOlderFileKeepsWhatItKnew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	upTo(t, path, "rates")
	conn := inspect(t, path)
	at := time.Unix(1_700_000_000, 0).UTC()
	const tenant, endpoint = 1 << 40, 2 << 40
	for _, script := range []string{
		`INSERT INTO tenants (id, name, created_at, updated_at) VALUES (?1, 'old', ?3, ?3)`,
		`INSERT INTO endpoints (id, tenant_id, shard, url, created_at, updated_at) VALUES (?2, ?1, 7, 'https://old.example', ?3, ?3)`,
		`INSERT INTO lanes (endpoint_id, tenant_id, epoch, state, open_reason, opened_at, lim, slow_start, base_us, base_weight, srtt_us,
  healthy_peak, pace, pace_slow_start, throttled_at, retry_after_us, updated_at)
VALUES (?2, ?1, 3, 1, 1, ?3, 4.5, 1, 1500, 0.5, 2500, 9, 2.25, 0, ?3, 1000000, ?3)`,
	} {
		_, err := conn.ExecContext(t.Context(), script, int64(tenant), int64(endpoint), at.UnixMicro())
		check(t, err)
	}
	check(t, conn.Close())

	got, err := open(t, path).Destinations(t.Context(), []hook.ID{endpoint})
	check(t, err)
	want := lane.Checkpoint{
		SavedAt: at, Open: true, OpenReason: lane.OpenedByStreak, OpenedAt: at, Limit: 4.5, SlowStart: true,
		BaseLatency: 1500 * time.Microsecond, BaseWeight: 0.5, SRTT: 2500 * time.Microsecond, HealthyPeak: 9,
		Pace: 2.25, ThrottledAt: at, RetryAfter: time.Second,
	}
	if len(got) != 1 || got[0].Lane == nil || *got[0].Lane != want {
		t.Fatalf("lane after the upgrade = %+v, want %+v", got, want)
	}
}

// upTo makes a file as a program without the named migration left it.
func upTo(t *testing.T, path, migration string) {
	t.Helper()
	known, err := sqlite.Migrations()
	check(t, err)
	n := slices.IndexFunc(known, func(m store.Migration) bool { return m.Name == migration })
	if n < 0 {
		t.Fatalf("no migration is called %q", migration)
	}
	schema, err := sqlite.OpenSchema(t.Context(), path)
	check(t, err)
	_, err = store.MigrateUp(t.Context(), schema, known[:n], time.Now())
	check(t, err)
	check(t, schema.Close())
}
