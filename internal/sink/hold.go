package sink

import (
	"sync"
	"time"
)

// holdGrace is for requests that were on their way when the answer that asked
// for silence was sent.
const holdGrace = 250 * time.Millisecond

// hold is the silence that a path has asked for with Retry-After. Whoever comes
// before it has passed has not listened.
type hold struct {
	mu    sync.Mutex
	from  time.Time // answer that began it
	until time.Time
}

// ask begins a hold, or makes it longer.
func (h *hold) ask(now time.Time, seconds int) {
	if seconds <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !now.Before(h.until) {
		h.from = now
	}
	if until := now.Add(time.Duration(seconds) * time.Second); until.After(h.until) {
		h.until = until
	}
}

// broken reports whether a request that arrives now should not have.
func (h *hold) broken(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Before(h.until) && now.Sub(h.from) > holdGrace
}

// bucket lets a rate through, and a burst at once.
type bucket struct {
	tokens float64
	at     time.Time // when tokens was right; zero: full
}

func (b *bucket) take(now time.Time, rate, burst float64) bool {
	if b.at.IsZero() {
		b.tokens = burst
	} else {
		b.tokens = min(burst, b.tokens+rate*now.Sub(b.at).Seconds())
	}
	b.at = now
	const rounding = 1e-9
	if b.tokens < 1-rounding {
		return false
	}
	b.tokens--
	return true
}
