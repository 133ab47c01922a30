package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store/storetest"
)

// fillOverview makes what the benchmark of the same name on SQLite makes.
const fillOverview = `
INSERT INTO tenants (id, name, created_at, updated_at) SELECT i, 't', now(), now() FROM generate_series(1, 10) AS i;
INSERT INTO endpoints (id, tenant_id, shard, url, created_at, updated_at)
SELECT i, 1 + i / 7 %% 10, 0, 'https://example.com/' || i, now(), now() FROM generate_series(1, %[1]d) AS i;
INSERT INTO lanes (endpoint_id, tenant_id, epoch, state, lim, base_weight, healthy_peak, pace, slow_start, pace_slow_start, updated_at, next_probe_at)
SELECT i, 1 + i / 7 %% 10, 1, CASE i %% 100 WHEN 0 THEN 1 ELSE 0 END, 1, 0, 0, 0, false, false, now(), now() FROM generate_series(1, %[1]d) AS i;
INSERT INTO lane_watch (endpoint_id, tenant_id, storm_since, firsts, retries, depth, drain_per_minute, updated_at, at_least)
SELECT i, 1 + i / 7 %% 10, CASE i %% 500 WHEN 0 THEN now() END, 1, 1, i %% 977, 0, now(), false FROM generate_series(1, %[1]d) AS i WHERE i %% 30 = 0 OR i %% 100 = 0;
INSERT INTO deliveries (id, tenant_id, endpoint_id, event_id, state, due_at, run_due_at)
SELECT i, 1 + i %% %[1]d / 7 %% 10, i %% %[1]d, i, CASE i %% 20 WHEN 0 THEN 2 WHEN 1 THEN 0 ELSE 1 END, now(), now() FROM generate_series(1, 1000000) AS i;
INSERT INTO stats (level, subject, step, at, trouble, data) SELECT 0, 0, 0, %[3]d - 60 * i, 0, %[2]s FROM generate_series(1, 1440) AS i;
INSERT INTO stats (level, subject, step, at, trouble, data) SELECT 0, 0, 1, %[3]d - 3600 * i, 0, %[2]s FROM generate_series(48, 720) AS i;
INSERT INTO stats (level, subject, step, at, trouble, data) SELECT 2, e, 0, %[3]d - 60 * m, 0, %[2]s FROM generate_series(1, 50) AS e, generate_series(1, 1440) AS m;
INSERT INTO stats (level, subject, step, at, trouble, data) SELECT 2, e, 0, %[3]d - 60 * m, 0, %[2]s FROM generate_series(51, 10000) AS e, generate_series(1, 60) AS m;`

// BenchmarkOverview asks what the dashboard asks.
func BenchmarkOverview(b *testing.B) {
	for _, endpoints := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint("endpoints=", endpoints), func(b *testing.B) {
			dsn := pgtest.DSN(b)
			db := open(b, dsn)
			now := time.Now()
			fill := fmt.Sprintf(fillOverview, endpoints, `'\x`+fmt.Sprintf("%x", storetest.BusyMinute())+"'", now.Truncate(time.Minute).Unix())
			for _, query := range []string{fill, "VACUUM ANALYZE"} {
				if _, err := connect(b, dsn).Exec(b.Context(), query); err != nil {
					b.Fatal(err)
				}
			}
			storetest.MeasureOverview(b, db, now)
		})
	}
}
