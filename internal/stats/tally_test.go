package stats_test

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

// TestTallyIsTheSumOfItsLog: what a tally packs adds up to what the log of the same
// entries adds up to, whatever it was used for before.
func TestTallyIsTheSumOfItsLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var tally stats.Tally
		for range rapid.IntRange(1, 3).Draw(t, "commits") {
			var log stats.Log
			tally.Reset()
			for range rapid.IntRange(0, 20).Draw(t, "entries") {
				id := hook.ID(rapid.Int64().Draw(t, "id"))
				of := stats.Owner{Tenant: hook.ID(rapid.IntRange(1, 2).Draw(t, "tenant")), Endpoint: hook.ID(rapid.IntRange(0, 3).Draw(t, "endpoint"))}
				ends, n := rapid.Bool().Draw(t, "ends"), rapid.Uint64Range(0, 1<<40).Draw(t, "n")
				took := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "took"))
				for _, l := range []stats.Ledger{&tally, &log} {
					l.Begin(id, of)
					l.Count(stats.Attempts(hook.First), 1)
					l.Count(stats.AttemptTook(took), 1)
					l.Tell(stats.Limit, n)
					l.Tell(stats.LimitLow, n)
					if ends {
						l.IfEnded()
						l.Count(stats.TriesOfDelivered, n)
					}
					l.End()
				}
			}
			if got, want := rowsOf(t, tally.Packed()), rowsOf(t, log.Packed()); !reflect.DeepEqual(got, want) {
				t.Fatalf("the tally is %v, the log %v", got, want)
			}
			if len(tally.Packed()) > len(log.Packed()) {
				t.Fatalf("the tally takes %d bytes, the log %d", len(tally.Packed()), len(log.Packed()))
			}
		}
	})
}

func rowsOf(t *rapid.T, packed []byte) []stats.Row {
	sums := make(stats.Sums)
	if err := sums.Add(&stats.Record{At: noon, Packed: packed}); err != nil {
		t.Fatal(err)
	}
	rows := sums.Rows()
	slices.SortFunc(rows, func(a, b stats.Row) int {
		return cmp.Or(cmp.Compare(a.Subject.Level, b.Subject.Level), cmp.Compare(a.Subject.ID, b.Subject.ID))
	})
	return rows
}
