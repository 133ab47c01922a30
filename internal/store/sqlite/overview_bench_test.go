package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
	"github.com/breakwaterhq/breakwater/internal/store/storetest"
)

// fillOverview makes endpoints of 10 tenants, one in a hundred with an open lane, one
// in five hundred in a storm, one in thirty with a retry queue, and a million
// deliveries, one in twenty dead. The system has figures of 30 days, fifty endpoints
// of every minute of a day, the others of an hour.
const fillOverview = `
CREATE TEMP TABLE n AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 1000000) SELECT i FROM c;
CREATE INDEX temp.n_i ON n (i);
INSERT INTO tenants (id, name, created_at, updated_at) SELECT i, 't', 0, 0 FROM n WHERE i <= 10;
INSERT INTO endpoints (id, tenant_id, shard, url, created_at, updated_at)
SELECT i, 1 + i / 7 %% 10, 0, 'https://example.com/' || i, 0, 0 FROM n WHERE i <= %[1]d;
INSERT INTO lanes (endpoint_id, tenant_id, epoch, state, open_reason, opened_at, next_probe_at, lim, slow_start, base_us, base_weight, srtt_us,
  healthy_peak, pace, pace_slow_start, retry_after_us, updated_at)
SELECT i, 1 + i / 7 %% 10, 1, i %% 100 = 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM n WHERE i <= %[1]d;
INSERT INTO lane_watch (endpoint_id, tenant_id, storm_since, firsts, retries, depth, at_least, drain_per_minute, updated_at)
SELECT i, 1 + i / 7 %% 10, CASE i %% 500 WHEN 0 THEN 1 END, 1, 1, i %% 977, 0, 0, 1 FROM n WHERE i <= %[1]d AND (i %% 30 = 0 OR i %% 100 = 0);
INSERT INTO deliveries (id, tenant_id, endpoint_id, event_id, state, due_at, run_due_at)
SELECT i, 1 + i %% %[1]d / 7 %% 10, i %% %[1]d, i, CASE i %% 20 WHEN 0 THEN 2 WHEN 1 THEN 0 ELSE 1 END, 0, 0 FROM n;
INSERT INTO stats (level, subject, step, at, trouble, data) SELECT 0, 0, 0, %[3]d - 60 * i, 0, %[2]s FROM n WHERE i <= 1440;
INSERT INTO stats (level, subject, step, at, trouble, data) SELECT 0, 0, 1, %[3]d - 3600 * i, 0, %[2]s FROM n WHERE i BETWEEN 48 AND 720;
INSERT INTO stats (level, subject, step, at, trouble, data) SELECT 2, e.i, 0, %[3]d - 60 * m.i, 0, %[2]s FROM n e, n m WHERE e.i <= 50 AND m.i <= 1440;
INSERT INTO stats (level, subject, step, at, trouble, data) SELECT 2, e.i, 0, %[3]d - 60 * m.i, 0, %[2]s FROM n e, n m
WHERE e.i BETWEEN 51 AND 10000 AND m.i <= 60;`

// BenchmarkOverview asks what the dashboard asks.
func BenchmarkOverview(b *testing.B) {
	for _, endpoints := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint("endpoints=", endpoints), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), sqlite.FileName)
			db := open(b, path)
			now := time.Now()
			fill := fmt.Sprintf(fillOverview, endpoints, "x'"+fmt.Sprintf("%x", storetest.BusyMinute())+"'", now.Truncate(time.Minute).Unix())
			if _, err := inspect(b, path).ExecContext(b.Context(), fill); err != nil {
				b.Fatal(err)
			}
			storetest.MeasureOverview(b, db, now)
		})
	}
}
