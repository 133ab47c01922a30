package store

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/stats"
)

// WriterHealth is how a writer does.
type WriterHealth struct {
	// CommitP99 is what one commit in a hundred of the last minute took. One that
	// runs counts with the time that it has taken so far: a store that hangs must
	// not look like one that has nothing to do.
	CommitP99 time.Duration
	// OldestResult is how long the oldest result has waited to be stored.
	OldestResult time.Duration
}

const (
	pulseSlot  = 15 * time.Second
	pulseSlots = 5 // the running one, and four that make a minute
)

// pulse times commits.
type pulse struct {
	slots   [pulseSlots]stats.Counts
	turn    int64     // number of the running slot
	began   time.Time // of the commit that runs; zero: none does
	results time.Time // when the oldest result of that commit came to be; zero: it has none
}

// times runs a commit under the clock.
func (w *Writer) times(b *Batch, commit func() error) error {
	now := time.Now()
	w.mu.Lock()
	w.pulse.began, w.pulse.results = now, time.Time{}
	if len(b.Settles) > 0 {
		w.pulse.results = b.Settles[0].cameAt()
	}
	w.mu.Unlock()
	err := commit()
	w.mu.Lock()
	defer w.mu.Unlock()
	took := time.Since(now)
	w.pulse.at(time.Now()).Add(stats.AttemptTook(took), 1)
	w.pulse.began, w.pulse.results = time.Time{}, time.Time{}
	return err
}

// cameAt is when the result came to be.
func (s *Settle) cameAt() time.Time {
	if s.Attempt != nil {
		return s.Attempt.StartedAt.Add(s.Attempt.Latency)
	}
	return s.Delivery.SettledAt
}

// at returns the slot of now. What is older than a minute is forgotten.
func (p *pulse) at(now time.Time) *stats.Counts {
	turn := now.UnixNano() / int64(pulseSlot)
	if turn < p.turn || turn-p.turn >= pulseSlots { // the clock was set, or nothing happened for long
		*p = pulse{turn: turn, began: p.began, results: p.results}
	}
	for ; p.turn < turn; p.turn++ {
		p.slots[(p.turn+1)%pulseSlots] = stats.Counts{}
	}
	return &p.slots[turn%pulseSlots]
}

// Health tells how the writer does.
func (w *Writer) Health() WriterHealth {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.pulse.at(now)
	var all stats.Counts
	for _, slot := range w.pulse.slots {
		all.Merge(slot)
	}
	h := WriterHealth{CommitP99: all.AttemptTimes().Quantile(0.99)}
	if !w.pulse.began.IsZero() {
		h.CommitP99 = max(h.CommitP99, now.Sub(w.pulse.began))
	}
	oldest := w.pulse.results
	if oldest.IsZero() && len(w.settles) > 0 {
		oldest = w.settles[0].cameAt()
	}
	if !oldest.IsZero() {
		h.OldestResult = max(now.Sub(oldest), 0)
	}
	return h
}
