package egress

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// poolKey is where connections lead, and whose they are. All of a client's TLS
// connections share one configuration, so two connections to the same one are
// interchangeable. Between tenants they are not: what a destination sends too late
// must never be taken for the answer to another tenant's request.
type poolKey struct {
	tenant  hook.ID
	secure  bool
	address string // host:port
}

// pool counts the connections to each host, keeps the idle ones, and makes
// those wait who want one more than they may have. It does no I/O but closing.
//
// A host is the address that was dialled, so that many names for one machine are
// no way to more connections.
type pool struct {
	perHost int
	maxIdle int // of all hosts together
	idle    time.Duration

	mu     sync.Mutex
	hosts  map[netip.AddrPort]*hostPool // that have connections, or are wanted
	idleAt map[poolKey][]*wire          // the one used last is taken first: the others may expire
	// All idle wires in the order in which they became idle. As they stay for
	// equally long, the order is also that of their end.
	oldest, newest *wire
	idling         int
	expiry         *time.Timer // set while there are idle wires
}

func newPool(perHost, maxIdle int, idle time.Duration) *pool {
	return &pool{
		perHost: perHost, maxIdle: maxIdle, idle: idle,
		hosts: map[netip.AddrPort]*hostPool{}, idleAt: map[poolKey][]*wire{},
	}
}

// idleShare is the part of the process's descriptors that idle connections may
// have. The rest is for requests, the store and whoever asks the API.
const idleShare = 4

// idleBound returns how many idle connections a process may have that may have
// so many descriptors; 0: it is not known.
func idleBound(descriptors uint64) int {
	if descriptors == 0 {
		return maxIdle
	}
	return int(min(max(descriptors/idleShare, 1), maxIdle))
}

// errNoConnection is when others of ours have all the connections to a host for
// too long.
var errNoConnection error = &reasonError{hook.LocalError, errors.New("no free connection to the host")}

// take returns an idle wire for the caller alone, which goes back with put or
// drop; nil when there is none and one has to be opened. When the tenant has its
// share of the host, take waits.
func (p *pool) take(h *hop, key poolKey) (*wire, error) {
	p.mu.Lock()
	wires := p.idleAt[key]
	for _, w := range slices.Backward(wires) {
		if w.host.allows(key.tenant, p.perHost) {
			p.unlink(w)
			w.host.use(key.tenant)
			p.mu.Unlock()
			return w, nil
		}
	}
	if len(wires) == 0 {
		p.mu.Unlock()
		return nil, nil
	}
	w, err := p.wait(h, wires[len(wires)-1].host, key)
	if err == nil && !w.opened() {
		// The idle ones ended while it waited, and this is leave to open one at a host
		// that the name may lead to no more: the caller finds out where, and asks there.
		p.drop(w)
		w = nil
	}
	return w, err
}

// enter returns a wire at an address: one that is still to be opened there,
// or an idle one that has come back meanwhile. When there are as many as the
// tenant may have, it waits.
func (p *pool) enter(h *hop, key poolKey, address netip.AddrPort) (*wire, error) {
	p.mu.Lock()
	at := p.hosts[address]
	if at == nil {
		at = &hostPool{address: address, tenants: map[hook.ID]share{}}
		p.hosts[address] = at
	}
	if !at.allows(key.tenant, p.perHost) {
		return p.wait(h, at, key)
	}
	w, surplus := p.grant(at, key)
	p.mu.Unlock()
	goodbye(surplus)
	return w, nil
}

// wait is called with mu held, and lets go of it.
func (p *pool) wait(h *hop, at *hostPool, key poolKey) (*wire, error) {
	mine := &waiter{key: key, turn: make(chan *wire, 1)}
	at.line(mine)
	p.mu.Unlock()

	began := time.Now()
	defer func() { h.waited(time.Since(began)) }()
	enough := time.NewTimer(h.patience)
	defer enough.Stop()
	err := errNoConnection
	select {
	case w := <-mine.turn:
		return w, nil
	case <-enough.C:
	case <-h.caller.Done():
		err = h.caller.Err()
	}
	p.mu.Lock()
	waited := at.leave(mine)
	surplus := p.serve(at) // another tenant may have more when this one does not wait
	p.tidy(at)
	p.mu.Unlock()
	goodbye(surplus...)
	if !waited { // it came at the last moment
		if w := <-mine.turn; w.opened() {
			p.put(w)
		} else {
			p.drop(w)
		}
	}
	return nil, err
}

// put gives a wire back that can be used again.
func (p *pool) put(w *wire) {
	p.mu.Lock()
	w.host.unuse(w.key.tenant)
	p.link(w)
	surplus := p.serve(w.host)
	if p.idling > p.maxIdle {
		old := p.oldest
		p.forget(old)
		surplus = append(surplus, old)
	}
	p.mu.Unlock()
	goodbye(surplus...)
}

// drop closes a wire that cannot be used again, or was never opened, and lets
// the next in line open one.
func (p *pool) drop(w *wire) {
	w.close()
	p.mu.Lock()
	w.host.unuse(w.key.tenant)
	w.host.open--
	surplus := p.serve(w.host)
	p.tidy(w.host)
	p.mu.Unlock()
	goodbye(surplus...)
}

// closeIdle closes all idle wires.
func (p *pool) closeIdle() { p.closeIdleSince(time.Now()) }

func (p *pool) anyIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idling > 0
}

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
	goodbye(old...)
}

func goodbye(wires ...*wire) {
	for _, w := range wires {
		if w != nil {
			w.goodbye()
		}
	}
}

// grant gives a tenant one more wire at a host: an idle one of its own, or the
// right to open one. If the host has as many as it may have, that takes the place
// of one that is idle, which the caller closes. It and all below are called with
// mu held.
func (p *pool) grant(at *hostPool, key poolKey) (w, surplus *wire) {
	at.use(key.tenant)
	for _, w := range slices.Backward(p.idleAt[key]) {
		if w.host == at {
			p.unlink(w)
			return w, nil
		}
	}
	if at.open >= p.perHost {
		surplus = at.idle[0] // allows says that not all of them are in use
		p.unlink(surplus)
		at.open--
	}
	at.open++
	return &wire{key: key, host: at}, surplus
}

// serve lets those go on who wait at a host and may, in the order in which they
// came.
func (p *pool) serve(at *hostPool) (surplus []*wire) {
	for i := 0; i < len(at.waiting); {
		next := at.waiting[i]
		if !at.allows(next.key.tenant, p.perHost) {
			i++
			continue
		}
		at.leave(next)
		w, old := p.grant(at, next.key)
		if old != nil {
			surplus = append(surplus, old)
		}
		next.turn <- w // it has room for the one wire it is sent
	}
	return surplus
}

// forget takes an idle wire out for good.
func (p *pool) forget(w *wire) {
	p.unlink(w)
	w.host.open--
	p.tidy(w.host)
}

// tidy forgets a host without connections.
func (p *pool) tidy(at *hostPool) {
	if at.open == 0 && len(at.waiting) == 0 {
		delete(p.hosts, at.address)
	}
}

func (p *pool) link(w *wire) {
	w.since = time.Now()
	p.idleAt[w.key] = append(p.idleAt[w.key], w)
	w.host.idle = append(w.host.idle, w)
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
	w.host.idle = without(w.host.idle, w)
	if left := without(p.idleAt[w.key], w); len(left) > 0 {
		p.idleAt[w.key] = left
	} else {
		delete(p.idleAt, w.key)
	}
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

func without(wires []*wire, w *wire) []*wire {
	i := slices.Index(wires, w)
	return slices.Delete(wires, i, i+1)
}
