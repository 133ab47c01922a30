package evaluate_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // opens the file beside the store

	"github.com/breakwaterhq/breakwater/internal/evaluate"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// fill makes 100,000 endpoints, the first so many of them with an hour of figures
// that show trouble.
const fill = `
INSERT INTO tenants (id, uid, name, created_at, updated_at) VALUES (1, 'acme', 'Acme', 0, 0);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
INSERT INTO endpoints (id, tenant_id, shard, url, created_at, updated_at) SELECT 1000 + i, 1, i %% 256, 'https://example.com/' || i, 0, 0 FROM n;
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 70 * %[1]d - 1)
INSERT INTO stats (level, subject, step, at, trouble, data) SELECT 2, 1001 + i / 70, 0, ?1 - 60 * (i %% 70), 1, ?2 FROM n`

// BenchmarkRound is what a round costs: of the lists alone, and with endpoints in
// trouble.
func BenchmarkRound(b *testing.B) {
	for _, troubled := range []int{0, 100, 2000} {
		b.Run(fmt.Sprintf("%d of 100000 in trouble", troubled), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), sqlite.FileName)
			db, err := sqlite.Open(b.Context(), path, sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			now := time.Now()
			conn, err := sql.Open("sqlite", path)
			if err != nil {
				b.Fatal(err)
			}
			var c stats.Counts
			c.Add(stats.Attempts(hook.First), 50)
			c.Add(stats.Delivered(1), 49)
			c.Add(stats.Failed(hook.ServerError), 1)
			c.Add(stats.AttemptTook(20*time.Millisecond), 50)
			if _, err := conn.ExecContext(b.Context(), fmt.Sprintf(fill, max(troubled, 1)), now.Truncate(time.Minute).Unix(), c.Append(nil)); err != nil {
				b.Fatal(err)
			}
			if troubled == 0 {
				_, err = conn.ExecContext(b.Context(), `UPDATE stats SET trouble = 0`)
			}
			if err = firstError(err, conn.Close()); err != nil {
				b.Fatal(err)
			}
			ids, err := hook.NewIDSource(1, 0)
			if err != nil {
				b.Fatal(err)
			}
			v, err := evaluate.New(evaluate.Config{
				Store: db, IDs: ids, Node: 1, Log: slog.New(slog.DiscardHandler), LeaseTTL: time.Minute, Retention: retention,
				Holds: func(int) (int64, bool) { return 1, true }, Health: func(context.Context) hook.NodeHealth { return hook.NodeHealth{} },
				Decided: func() {}, Interval: time.Minute,
			})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := v.Round(b.Context(), now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
