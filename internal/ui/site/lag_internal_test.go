package site

import (
	"testing"
	"time"
)

// TestOpenPagesTakeAHundredthOfAProcessorAtMost: however long a page takes to look at, it
// is left alone for so much longer that its share is small, but never for long.
func TestOpenPagesTakeAHundredthOfAProcessorAtMost(t *testing.T) {
	t.Parallel()
	for _, took := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 70 * time.Millisecond, 100 * time.Millisecond} { // no page takes longer
		l := looks{took, took}
		wait := l.pause(took)
		if wait < streamEvery || wait > streamMost || float64(took)/float64(took+wait) > 0.01 {
			t.Errorf("after %v it waits for %v", took, wait)
		}
	}
	for _, took := range []time.Duration{time.Second, 1 << 62, -1 << 62} { // a clock that was set
		l := looks{took, took}
		if wait := l.pause(took); wait != streamMost && (took > 0 || wait != streamEvery) {
			t.Errorf("after %v it waits for %v", took, wait)
		}
	}
}

// TestPagesStayLiveOnABusyMachine: one look that had to wait for others says nothing about
// what a page costs.
func TestPagesStayLiveOnABusyMachine(t *testing.T) {
	t.Parallel()
	const cost = 5 * time.Millisecond
	var l looks
	for i, took := range []time.Duration{time.Second, 2 * time.Second, cost, 3 * time.Second, time.Minute, cost, cost, cost, time.Second} {
		if wait := l.pause(took); wait != streamEvery {
			t.Errorf("after look %d, of %v, it waits for %v", i+1, took, wait)
		}
	}
	if len(l) != looksKept {
		t.Errorf("%d looks are kept", len(l))
	}
}
