package bench

import (
	"math/bits"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/bench/histogram"
)

const (
	pageSize = 1 << 16
	maxPages = 1 << 12

	acceptedBit = 1 << 31 // the lower bits are the endpoints that have the event
)

// ledger knows of every event whether it was accepted and where it has arrived.
// It is written by publishers and receiver at the same time.
type ledger struct {
	fanout int
	now    func() time.Duration
	pages  [maxPages]atomic.Pointer[[pageSize]atomic.Uint32]
	next   atomic.Int64 // number of the next event
	last   int64        // numbers end here; 0: they do not

	// tokens bound the events on their way; nil: they are not bounded.
	tokens chan struct{}

	accepted, arrived, again, refused atomic.Int64

	// Latencies are kept of events that were sent in the window: from, to.
	from, to         atomic.Int64
	acceptIn, wholly histogram.Histogram
}

// newLedger lets at most limit events be on their way; 0: any number.
func newLedger(fanout, limit int, now func() time.Duration) *ledger {
	l := &ledger{fanout: fanout, now: now}
	if limit > 0 {
		l.tokens = make(chan struct{}, limit)
	}
	l.to.Store(-1)
	return l
}

// window sets whose latencies are kept.
func (l *ledger) window(from, to time.Duration) {
	l.to.Store(int64(to))
	l.from.Store(int64(from))
}

func (l *ledger) inWindow(sent time.Duration) bool {
	return int64(sent) >= l.from.Load() && int64(sent) < l.to.Load()
}

// word returns the entry of an event, or nil for a number that was never given.
func (l *ledger) word(n int64) *atomic.Uint32 {
	if n < 0 || n >= pageSize*maxPages {
		return nil
	}
	slot := &l.pages[n/pageSize]
	page := slot.Load()
	if page == nil {
		slot.CompareAndSwap(nil, new([pageSize]atomic.Uint32))
		page = slot.Load()
	}
	return &page[n%pageSize]
}

// reserve returns the first of count new numbers. It waits while too many
// events are on their way, and gives up when stop is closed or numbers have
// ended.
func (l *ledger) reserve(count int, stop <-chan struct{}) (first int64, ok bool) {
	if l.tokens != nil {
		for range count {
			select {
			case l.tokens <- struct{}{}:
			case <-stop:
				return 0, false
			}
		}
	}
	first = l.next.Add(int64(count)) - int64(count)
	if l.last > 0 && first+int64(count) > l.last {
		l.next.Store(l.last)
		return 0, false
	}
	return first, true
}

// release takes count events off the way. It never waits: an event that was
// refused and arrived all the same comes here twice.
func (l *ledger) release(count int) {
	if l.tokens == nil {
		return
	}
	for range count {
		select {
		case <-l.tokens:
		default:
		}
	}
}

// accept notes that an event was acknowledged. It may have arrived already.
func (l *ledger) accept(n int64) {
	l.word(n).Or(acceptedBit)
	l.accepted.Add(1)
}

// refuse notes that count events were not taken.
func (l *ledger) refuse(count int) {
	l.refused.Add(int64(count))
	l.release(count)
}

// answered keeps the latency of a request.
func (l *ledger) answered(sent, at time.Duration) {
	if l.inWindow(sent) {
		l.acceptIn.Record(at - sent)
	}
}

// arrive notes that an event, sent at a given time, is at one of its endpoints.
func (l *ledger) arrive(n int64, endpoint int, sent time.Duration) {
	w := l.word(n)
	if w == nil || endpoint >= l.fanout {
		return
	}
	bit := uint32(1) << endpoint
	before := w.Or(bit)
	if before&bit != 0 {
		l.again.Add(1)
		return
	}
	l.arrived.Add(1)
	if l.inWindow(sent) {
		l.wholly.Record(l.now() - sent)
	}
	if (before|bit)&l.everywhere() == l.everywhere() {
		l.release(1)
	}
}

func (l *ledger) everywhere() uint32 { return 1<<l.fanout - 1 }

// missing counts the deliveries of accepted events that have not arrived.
func (l *ledger) missing() int64 {
	var sum int64
	for n, end := int64(0), l.next.Load(); n < end; n++ {
		if w := l.word(n).Load(); w&acceptedBit != 0 {
			sum += int64(bits.OnesCount32(l.everywhere() &^ w))
		}
	}
	return sum
}

// arrived handles what the receiver gets.
func (b *Bench) arrived(path, body []byte) int {
	if len(path) > 1 && path[1] == deadPath {
		return http.StatusServiceUnavailable
	}
	l := b.ledger.Load()
	n, sent, ok := readStamp(body)
	if l == nil || !ok {
		return http.StatusOK
	}
	l.arrive(n, endpointOf(path), sent)
	return http.StatusOK
}

// deadPath is the first letter of the path of endpoints that are down.
const deadPath = 'd'

// endpointOf reads the last number of a path such as /3/7.
func endpointOf(path []byte) int {
	n, unit := 0, 1
	for i := len(path) - 1; i >= 0 && path[i] >= '0' && path[i] <= '9'; i-- {
		n += int(path[i]-'0') * unit
		unit *= 10
	}
	return n
}
