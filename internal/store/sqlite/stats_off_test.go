package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// TestWhatPeopleDoIsNotCountedEither: a store that keeps no figures keeps none of
// cancels, replays and sends by hand, which belong to no batch.
func TestWhatPeopleDoIsNotCountedEither(t *testing.T) {
	t.Parallel()
	for _, uncounted := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), sqlite.FileName)
		db, err := sqlite.Open(t.Context(), path, sqlite.Options{Figures: store.FigureOptions{Uncounted: uncounted}})
		check(t, err)
		conn := inspect(t, path)
		for _, query := range []string{
			`INSERT INTO tenants (id, name, created_at, updated_at) VALUES (2, 'a', 0, 0)`,
			`INSERT INTO endpoints (id, tenant_id, shard, url, created_at, updated_at) VALUES (3, 2, 0, 'u', 0, 0)`,
			`INSERT INTO events (id, tenant_id, type, content_type, payload, created_at) VALUES (4, 2, 'a', 'b', x'00', 0)`,
			`INSERT INTO deliveries (id, tenant_id, endpoint_id, event_id, due_at, run_due_at, size) VALUES (5, 2, 3, 4, 0, 0, 1)`,
		} {
			_, err := conn.ExecContext(t.Context(), query)
			check(t, err)
		}
		now := time.Now()
		audit := func(id hook.ID) hook.Audit {
			return hook.Audit{ID: id, TenantID: 2, Actor: "key_test", Action: "test", Subject: "dlv_test", At: now}
		}
		_, err = db.CancelDelivery(t.Context(), 2, 5, now, audit(6))
		check(t, err)
		_, err = db.RetryDelivery(t.Context(), 2, 5, now, audit(7))
		check(t, err)
		_, err = db.DeleteEndpoint(t.Context(), 2, 3, now, audit(8))
		check(t, err)
		_, err = db.FoldStats(t.Context(), 1<<20)
		check(t, err)
		points, err := db.Stats(t.Context(), stats.Subject{Level: stats.OfEndpoint, ID: 3}, now.Add(-time.Hour), now.Add(time.Hour))
		check(t, err)
		total := stats.Total(points)
		if cancelled, reopened := total.Get(stats.Cancelled), total.Get(stats.Reopened); uncounted != (cancelled == 0) || uncounted != (reopened == 0) {
			t.Errorf("uncounted %v: %d cancelled, %d reopened", uncounted, cancelled, reopened)
		}
		check(t, db.Close())
	}
}
