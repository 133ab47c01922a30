package dispatch

import (
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// hosts are the addresses that lanes of this node send to. Lanes of one address
// meet here when they open together; as long as they do not, nobody takes a lock.
type hosts struct {
	mu  sync.Mutex
	all map[string]*host
}

// host is one address: scheme, host and port. The address itself never changes.
type host struct {
	// knows is set while the control state has anything to say.
	knows atomic.Bool

	mu    sync.Mutex
	state lane.Host
	seats map[*lane.Seat]*runner
}

// hostsKept bounds the addresses that are remembered without a lane in memory,
// for what was learnt of them.
const hostsKept = 4096

// seat is the place of a lane at its host.
type seat struct {
	host *host
	seat lane.Seat
}

// addressOf returns scheme, host and port of a URL as one text.
func addressOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text // cannot be sent to either
	}
	port := u.Port()
	if port == "" && u.Scheme == "https" {
		port = "443"
	} else if port == "" {
		port = "80"
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// sit gives a lane its place at the host of its endpoint.
func (hs *hosts) sit(r *runner, address string) *seat {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.all[address]
	if h == nil {
		h = &host{state: lane.Host{Address: address}, seats: make(map[*lane.Seat]*runner)}
		hs.all[address] = h
	}
	s := &seat{host: h}
	h.mu.Lock()
	h.seats[&s.seat] = r
	h.mu.Unlock()
	return s
}

// leave gives it up. A host without lanes is forgotten unless something was
// learnt of it.
func (hs *hosts) leave(now time.Time, s *seat) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := s.host
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.seats, &s.seat)
	h.state.Left(&s.seat)
	knows := h.state.Knows(now)
	h.knows.Store(knows)
	if len(h.seats) == 0 && (!knows || len(hs.all) > hostsKept) {
		delete(hs.all, h.state.Address)
	}
}

// takeSeat puts a lane at the host of its endpoint, which may be a new one.
func (l *loop) takeSeat(now time.Time, r *runner) {
	address := addressOf(r.dest.url)
	if r.seat != nil && r.seat.host.state.Address == address {
		return
	}
	l.leaveSeat(now, r)
	r.seat = l.d.hosts.sit(r, address)
}

func (l *loop) leaveSeat(now time.Time, r *runner) {
	if r.seat != nil {
		l.d.hosts.leave(now, r.seat)
		r.seat = nil
	}
}

// joinHost tells the host of a lane that was restored.
func (r *runner) joinHost(now time.Time, newOwner bool) {
	h := r.seat.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Joined(now, &r.seat.seat, r.lane, newOwner)
	h.knows.Store(h.state.Knows(now))
}

// hostAllows reports whether the lane's host lets it start a request, or a probe,
// now; else when to ask again.
func (r *runner) hostAllows(now time.Time) (bool, time.Time) {
	if r.seat == nil || !r.lane.Wants(now) {
		return true, now
	}
	if !r.seat.host.knows.Load() {
		r.lane.Unheed(now)
		return true, now
	}
	h := r.seat.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.state.Knows(now) {
		h.knows.Store(false)
		r.lane.Unheed(now)
		return true, now
	}
	if r.lane.State() != lane.Closed {
		ok, at := h.state.MayProbe(now, &r.seat.seat)
		return ok || r.probeAsked || r.lane.HasManual(), at
	}
	r.lane.Heed(now, &h.state)
	return h.state.Ask(now, &r.seat.seat)
}

// hostOffered tells the host what has arrived at the lane.
func (r *runner) hostOffered(ref lane.Ref) {
	if r.seat == nil || !r.seat.host.knows.Load() {
		return
	}
	h := r.seat.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Arrived(ref)
}

// hostTurnPassed lets another lane of the host probe: this one may and cannot.
func (r *runner) hostTurnPassed(now time.Time) {
	if r.seat == nil || !r.seat.host.knows.Load() || r.lane.State() == lane.Closed {
		return
	}
	h := r.seat.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.ProbeFailed(now)
}

// hostStarted tells the host of a request and returns the load on it.
func (r *runner) hostStarted(now time.Time) float64 {
	if r.seat == nil || !r.seat.host.knows.Load() {
		return 0
	}
	h := r.seat.host
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state.Started(now, &r.seat.seat)
}

// hostSilent reports whether the host lets the requests of all its lanes wait in vain.
func (r *runner) hostSilent(now time.Time, f *flight, class hook.Class) bool {
	if r.seat == nil || f.hostLoad == 0 {
		return false
	}
	h := r.seat.host
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state.Silent(now, &r.seat.seat, f.started, class)
}

// hostHeard tells the host what became of a request.
func (l *loop) hostHeard(now time.Time, r *runner, f *flight, class hook.Class, c lane.Change) {
	if r.seat == nil || !c.Opened && f.hostLoad == 0 && !r.seat.host.knows.Load() {
		return
	}
	h, s := r.seat.host, &r.seat.seat
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Result(now, s, f.started, f.hostLoad, class)
	switch {
	case c.Opened:
		if pardoned := h.state.Opened(now, s, r.lane); len(pardoned) > 0 {
			h.each(pardoned, func(r *runner) { r.lane.Pardon() })
			r.lane.Note(now, &h.state)
		}
	case c.Closed:
		h.each(h.state.Closed(now, s), func(r *runner) { r.lane.ProbeNow(time.Now()) })
	case f.tag.Probe:
		h.state.ProbeFailed(r.lane.Wake(now))
	}
	h.knows.Store(h.state.Knows(now))
}

// each does something with lanes of a host, each in its own loop.
func (h *host) each(seats []*lane.Seat, do func(*runner)) {
	for _, s := range seats {
		r := h.seats[s]
		if r == nil {
			continue
		}
		l := r.loop
		l.post(func() {
			if !r.dropped {
				do(r)
				l.touch(r)
			}
		})
	}
}

// forgetHost lets a host start anew, because a person has reset a lane of it.
func (r *runner) forgetHost(now time.Time) {
	if r.seat == nil {
		return
	}
	h := r.seat.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Forget()
	r.lane.Unheed(now)
	r.lane.Note(now, &h.state)
	h.knows.Store(h.state.Knows(now))
}
