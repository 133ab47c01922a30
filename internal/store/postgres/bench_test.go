package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/pgtest"
)

// BenchmarkCommit accepts and settles events of 1 KiB to ten endpoints in
// batches, one transaction for each, as the writer does under load. An
// operation is one event through both.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) { benchmarkCommit(b, size) })
	}
}

func benchmarkCommit(b *testing.B, size int) {
	n := join(b, pgtest.DSN(b), "bench")
	n.own(false)
	ten := n.tenant()
	targets := make([]hook.Endpoint, 10)
	for i := range targets {
		targets[i] = n.endpoint(ten)
	}
	rev := n.configRev(ten.ID)
	payload := make([]byte, 1024)
	var settles []*store.Settle
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += size {
		accepts := make([]*store.Accept, size)
		for i := range accepts {
			accepts[i] = n.accept(ten.ID, rev, targets[i%10].ID)
			accepts[i].Event.Payload = payload
		}
		n.commit(&store.Batch{Accepts: accepts, Settles: settles})
		settles = settles[:0]
		for _, a := range accepts {
			settles = append(settles, n.success(a.Deliveries[0]))
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed())/float64(time.Microsecond)/float64(b.N), "wall-µs/event")
}
