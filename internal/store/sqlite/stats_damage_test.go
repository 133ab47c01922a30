package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// TestDamagedFiguresStopNothing: what cannot be read is told once and left out, and
// everything else is added up and made coarser.
func TestDamagedFiguresStopNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, conn := open(t, path), inspect(t, path)
	now := time.Now()
	log := func() []byte {
		var l stats.Log
		l.Begin(1, stats.Owner{Tenant: 2, Endpoint: 3})
		l.Count(stats.Accepted, 1)
		l.End()
		return l.Packed()
	}
	exec := func(query string, args ...any) {
		t.Helper()
		_, err := conn.ExecContext(t.Context(), query, args...)
		check(t, err)
	}
	accepted := func() uint64 {
		points, err := db.Stats(t.Context(), stats.Subject{Level: stats.OfTenant, ID: 2}, now.Add(-24*time.Hour), now.Add(time.Hour))
		check(t, err)
		total := stats.Total(points)
		return total.Get(stats.Accepted)
	}
	fold := func(wrong bool) {
		t.Helper()
		if n, err := db.FoldStats(t.Context(), 1<<20); n == 0 || (err != nil) != wrong {
			t.Errorf("adding up took %d, error %v; want an error: %v", n, err, wrong)
		}
	}
	insert := `INSERT INTO stats_log (at, data, written) VALUES (?, ?, ?)`
	exec(insert, now.Unix(), log(), nil)
	exec(insert, now.Unix(), log(), "1,x")
	fold(true)
	exec(`UPDATE stats SET data = x'00' WHERE level = 2`)
	exec(insert, now.Unix(), log(), nil)
	fold(true)
	exec(insert, now.Unix(), log(), nil)
	fold(false)
	if n := accepted(); n != 3 {
		t.Errorf("%d are counted, want 3", n)
	}
	exec(`UPDATE stats SET data = x'00' WHERE level = 2`)
	later := now.Add(2 * time.Hour)
	if n, err := db.RollUp(t.Context(), stats.Minutes, later, 100); n != 3 || err == nil {
		t.Errorf("%d minutes became hours, error %v; want 3 and one", n, err)
	}
	if n, err := db.RollUp(t.Context(), stats.Minutes, later, 100); n != 0 || err != nil {
		t.Errorf("then %d, %v; want nothing left", n, err)
	}
	if n := accepted(); n != 3 {
		t.Errorf("%d are counted by the hour, want 3", n)
	}
}
