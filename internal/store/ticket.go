package store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ticket is handed in with one or more accepts and ends once: when all of them
// have been answered, or when whoever holds it has waited long enough.
type ticket struct {
	since time.Time
	ended atomic.Bool
	err   error         // set before done is closed
	done  chan struct{} // closed when the ticket ends

	// How many accepts have no answer yet, and the error of one that has. They
	// belong to Run's goroutine.
	left   int
	failed error
}

// answer counts one accept of the ticket as answered. Only Run's goroutine
// calls it.
func (t *ticket) answer(err error) {
	if err != nil {
		t.failed = err
	}
	t.left--
	if t.left == 0 {
		t.end(t.failed)
	}
}

func (t *ticket) end(err error) {
	if t.ended.CompareAndSwap(false, true) {
		t.err = err
		close(t.done)
	}
}

// errNoAnswer is what a publisher hears whose commit takes too long.
var errNoAnswer = unavailable(errors.New("no answer of the store in time"))

// watch ends the tickets of those who have waited long enough: Run's goroutine
// may be busy with a commit that does not return. One look now and then costs
// less than a timer for every publisher.
func (w *Writer) watch(ctx context.Context) {
	look := time.NewTicker(w.cfg.Patience / 20)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			w.endOverdue(time.Now().Add(-w.cfg.Patience))
		case <-ctx.Done():
			return
		}
	}
}

// endOverdue ends the tickets that were handed in before the given time.
func (w *Writer) endOverdue(before time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.waiting {
		if t.since.After(before) {
			break // the rest is younger
		}
		t.end(errNoAnswer)
	}
	w.forgetEnded()
}

// forgetEnded drops the oldest tickets as far as they have ended. The caller
// holds mu.
func (w *Writer) forgetEnded() {
	n := 0
	for n < len(w.waiting) && w.waiting[n].ended.Load() {
		n++
	}
	w.waiting = shift(w.waiting, n)
}
