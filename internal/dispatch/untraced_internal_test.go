package dispatch

import (
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestUntracedAttemptsPayNothing: without a tracer an attempt costs two
// comparisons, whatever trace its event belongs to.
func TestUntracedAttemptsPayNothing(t *testing.T) {
	d, f, a := &Dispatcher{}, &flight{}, &hook.Attempt{}
	e := &hook.Event{ContentType: hook.WithTrace("application/json", hook.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})}
	if n := testing.AllocsPerRun(1000, func() {
		d.trace(f, e)
		d.traced(f, a)
	}); n != 0 || f.trace != (hook.Trace{}) {
		t.Errorf("%v allocations, %+v noted", n, f.trace)
	}
}

func BenchmarkUntraced(b *testing.B) {
	d, f, a, e := &Dispatcher{}, &flight{}, &hook.Attempt{}, &hook.Event{ContentType: "application/json"}
	b.ReportAllocs()
	for b.Loop() {
		d.trace(f, e)
		d.traced(f, a)
	}
}
