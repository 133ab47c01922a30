package headroom_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/headroom"
)

// TestFewerCycles counts the cycles that the same garbage causes without and
// with room.
func TestFewerCycles(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	without := cycles()
	giveBack := headroom.Take()
	with := cycles()
	giveBack()
	if with*3 > without {
		t.Errorf("%d cycles with headroom, %d without; want a third or less", with, without)
	}
}

var garbage []byte

// cycles turns 512 MiB over and counts the collector's cycles.
func cycles() uint32 {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 512 << 10 {
		garbage = make([]byte, 1024)
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}
