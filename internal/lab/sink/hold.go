package sink

import "time"

// holdGrace is for requests that were on their way when the answer that asked
// for silence was sent.
const holdGrace = 250 * time.Millisecond

// hold is the silence that a path has asked for with Retry-After. Whoever comes
// before it has passed has not listened.
type hold struct {
	from  time.Time // answer that began it
	until time.Time
}

// ask begins a hold, or makes it longer.
func (h *hold) ask(now time.Time, seconds int) {
	if seconds <= 0 {
		return
	}
	if !now.Before(h.until) {
		h.from = now
	}
	if until := now.Add(time.Duration(seconds) * time.Second); until.After(h.until) {
		h.until = until
	}
}

// broken reports whether a request that arrives now should not have.
func (h *hold) broken(now time.Time) bool {
	return now.Before(h.until) && now.Sub(h.from) > holdGrace
}
