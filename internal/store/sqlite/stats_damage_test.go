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

// TestDamagedFiguresStopNothing: what cannot be read is told once and left out, and
// everything else is added up and made coarser.
func TestDamagedFiguresStopNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	var told []stats.Subject
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{Figures: store.FigureOptions{
		Damaged: func(of stats.Subject, _ time.Time) { told = append(told, of) },
	}})
	check(t, err)
	defer func() { check(t, db.Close()) }()
	conn := inspect(t, path)
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
	if _, err := db.Stats(t.Context(), stats.Subject{Level: stats.OfEndpoint, ID: 3}, now.Add(-time.Hour), now.Add(time.Hour)); err != nil {
		t.Error(err)
	}
	exec(`UPDATE stats SET data = x'00' WHERE level = 2`)
	exec(`INSERT INTO stats (level, subject, step, at, trouble, data) SELECT level, subject, step, at - 3600, trouble, x'1001' FROM stats WHERE level = 2`)
	if points, err := db.Stats(t.Context(), stats.Subject{Level: stats.OfEndpoint, ID: 3}, now.Add(-2*time.Hour), now.Add(time.Hour)); err != nil || len(points) != 1 {
		t.Errorf("beside what is damaged %d pieces are read (%v), want 1", len(points), err)
	}
	if some, err := db.EndpointStats(t.Context(), []hook.ID{3}, now.Add(-2*time.Hour), now.Add(time.Hour)); err != nil || len(some[3]) != 1 {
		t.Errorf("beside what is damaged %d pieces of several are read (%v), want 1", len(some[3]), err)
	}
	if len(told) != 2 || told[0] != (stats.Subject{Level: stats.OfEndpoint, ID: 3}) {
		t.Errorf("told of %v, want the endpoint twice", told)
	}
	exec(`DELETE FROM stats WHERE data = x'1001'`)
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
