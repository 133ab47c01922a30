package lane_test

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// BenchmarkDecide measures what the law costs one delivery: arrive, may I
// send, and what the answer teaches, with sixteen requests in flight.
func BenchmarkDecide(b *testing.B) {
	for name, cfg := range map[string]lane.Config{
		"adaptive": {Initial: 10, Max: 100},
		"fixed":    {Fixed: true, Limit: 100},
	} {
		cfg.Breaker, cfg.Consecutive, cfg.WindowFailed, cfg.WindowOf = true, 5, 16, 20
		b.Run(name, func(b *testing.B) {
			now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
			l := lane.New(cfg, now)
			var flying []lane.Tag
			id := hook.ID(0)
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(100 * time.Microsecond)
				id++
				l.Arrive(lane.Ref{ID: id, FirstDue: now})
				if d := l.Next(now, 1000); d.Send {
					flying = append(flying, d.Tag)
				}
				if len(flying) >= 16 || l.InFlight() >= int(l.Limit()) {
					l.Result(now, 0.5, flying[0], lane.Outcome{Class: hook.Success, RTT: 2 * time.Millisecond})
					flying = append(flying[:0], flying[1:]...)
				}
			}
		})
	}
}
