package egress

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// target is where connections lead. All of a client's TLS connections share one
// configuration, so two connections to the same target are interchangeable.
type target struct {
	secure  bool
	address string // host:port
}

// pool counts the connections to each target, keeps the idle ones, and makes
// those wait who want one more than there may be. It does no I/O but closing.
type pool struct {
	perTarget int
	idle      time.Duration

	mu     sync.Mutex
	places map[target]*place
	// All idle wires in the order in which they became idle. As they stay for
	// equally long, the order is also that of their end.
	oldest, newest *wire
	idling         int
	expiry         *time.Timer // set while there are idle wires
}

// place is what the pool knows about one target. There is one as long as it
// has connections.
type place struct {
	target  target
	open    int     // being opened, in use or idle
	idle    []*wire // the one used last is taken first: the others may expire
	waiting []chan *wire
}

func newPool(perTarget int, idle time.Duration) *pool {
	return &pool{perTarget: perTarget, idle: idle, places: map[target]*place{}}
}

// errNoConnection is when others of ours have all the connections to a host for
// too long.
var errNoConnection error = &reasonError{hook.LocalError, errors.New("no free connection to the host")}

// take returns a wire to t for the caller alone: an idle one, or one that is
// still to be opened. Either goes back with put or drop. When there are as many
// as there may be, take waits until the hop is over.
func (p *pool) take(h *hop, t target) (*wire, error) {
	p.mu.Lock()
	at := p.places[t]
	if at == nil {
		at = &place{target: t}
		p.places[t] = at
	}
	if n := len(at.idle); n > 0 {
		w := at.idle[n-1]
		p.unlink(w)
		p.mu.Unlock()
		return w, nil
	}
	if at.open < p.perTarget {
		at.open++
		p.mu.Unlock()
		return &wire{place: at}, nil
	}
	turn := make(chan *wire, 1)
	at.waiting = append(at.waiting, turn)
	p.mu.Unlock()
	return p.wait(h, at, turn)
}

func (p *pool) wait(h *hop, at *place, turn chan *wire) (*wire, error) {
	began := time.Now()
	defer func() { h.waited(time.Since(began)) }()
	enough := time.NewTimer(h.patience)
	defer enough.Stop()
	err := errNoConnection
	select {
	case w := <-turn:
		return w, nil
	case <-enough.C:
	case <-h.caller.Done():
		err = h.caller.Err()
	}
	p.mu.Lock()
	i := slices.Index(at.waiting, turn)
	if i >= 0 {
		at.waiting = slices.Delete(at.waiting, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 { // it came at the last moment
		if w := <-turn; w.opened() {
			p.put(w)
		} else {
			p.drop(w)
		}
	}
	return nil, err
}

// put gives a wire back that can be used again.
func (p *pool) put(w *wire) {
	var surplus *wire
	p.mu.Lock()
	if at := w.place; len(at.waiting) > 0 {
		at.next() <- w
	} else {
		p.link(w)
		if p.idling > maxIdle {
			surplus = p.oldest
			p.forget(surplus)
		}
	}
	p.mu.Unlock()
	if surplus != nil {
		surplus.goodbye()
	}
}

// drop closes a wire that cannot be used again, or was never opened, and lets
// the next in line open one.
func (p *pool) drop(w *wire) {
	w.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free(w.place)
}

// closeIdle closes all idle wires.
func (p *pool) closeIdle() { p.closeIdleSince(time.Now()) }

// expire is run by the timer.
func (p *pool) expire() { p.closeIdleSince(time.Now().Add(-p.idle)) }

// closeIdleSince closes the wires that have been idle since t or longer, and
// sets the timer for the oldest of the others.
func (p *pool) closeIdleSince(t time.Time) {
	var old []*wire
	p.mu.Lock()
	for w := p.oldest; w != nil && !w.since.After(t); w = p.oldest {
		p.forget(w)
		old = append(old, w)
	}
	if p.oldest != nil {
		p.expiry.Reset(time.Until(p.oldest.since.Add(p.idle)))
	} else if p.expiry != nil {
		p.expiry.Stop()
		p.expiry = nil
	}
	p.mu.Unlock()
	for _, w := range old {
		w.goodbye()
	}
}

// next takes the first of those who wait. It and all below are called with mu
// held.
func (at *place) next() chan<- *wire {
	turn := at.waiting[0]
	at.waiting = at.waiting[1:]
	return turn // it has room for the one wire it is sent
}

// free gives the right to a connection to the next in line.
func (p *pool) free(at *place) {
	if len(at.waiting) > 0 {
		at.next() <- &wire{place: at}
		return
	}
	at.open--
	if at.open == 0 {
		delete(p.places, at.target)
	}
}

// forget takes an idle wire out for good. The oldest of all is also the oldest
// of its place.
func (p *pool) forget(w *wire) {
	p.unlink(w)
	p.free(w.place)
}

func (p *pool) link(w *wire) {
	w.since = time.Now()
	w.place.idle = append(w.place.idle, w)
	w.older, w.newer = p.newest, nil
	if p.newest != nil {
		p.newest.newer = w
	} else {
		p.oldest = w
	}
	p.newest = w
	p.idling++
	if p.expiry == nil {
		p.expiry = time.AfterFunc(p.idle, p.expire)
	}
}

func (p *pool) unlink(w *wire) {
	at := w.place
	i := slices.Index(at.idle, w)
	at.idle = slices.Delete(at.idle, i, i+1)
	if w.older != nil {
		w.older.newer = w.newer
	} else {
		p.oldest = w.newer
	}
	if w.newer != nil {
		w.newer.older = w.older
	} else {
		p.newest = w.older
	}
	w.older, w.newer = nil, nil
	p.idling--
}
