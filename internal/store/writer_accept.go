package store

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// queuedAccept is an accept and the ticket of whoever waits for it.
type queuedAccept struct {
	*Accept
	ticket *ticket
}

// Accept queues the accepts of one tenant and returns when all of them have
// been committed or refused; each carries its own outcome. build makes them, one
// or more, once there is room for their load in the queue: what finds none costs
// no memory. An error means that nothing was promised: the commit may still
// happen, and the publisher may send again under the same keys. The accepts
// belong to the writer from then on.
func (w *Writer) Accept(tenant hook.ID, l Load, build func() []*Accept) error {
	if l.Rows == 0 {
		return nil
	}
	if err := w.reserve(tenant, l); err != nil {
		return err
	}
	accepts := build()
	t := &ticket{left: len(accepts), done: make(chan struct{})}
	w.enqueue(tenant, l, t, accepts)
	<-t.done
	return t.err
}

// refusal says why nothing is taken any more; nil while everything is.
func (w *Writer) refusal() error {
	if w.failed == nil && w.closed {
		return hook.ErrDraining
	}
	return w.failed
}

// reserve keeps room in the queue.
func (w *Writer) reserve(tenant hook.ID, l Load) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refusal(); err != nil {
		return err
	}
	if !w.accepts.reserve(tenant, l) {
		return hook.ErrOverloaded
	}
	return nil
}

func (w *Writer) enqueue(tenant hook.ID, l Load, t *ticket, accepts []*Accept) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refusal(); err != nil || len(accepts) == 0 {
		w.accepts.release(tenant, l)
		t.end(err)
		return
	}
	t.since = time.Now()
	w.accepts.add(tenant, l, accepts, t)
	w.waiting = append(w.waiting, t)
	w.signal()
}
