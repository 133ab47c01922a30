// Package door is what clients of the API pass first: it bounds their
// connections, in all and per address, and how long one may take to read what
// it is sent.
//
// It knows no requests and no keys: a client that may come in may still be
// refused by the API. Files and sockets that the store and the deliveries need
// are kept out of its reach by bounding what it takes (see Room).
package door

import (
	"cmp"
	"container/list"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Config is what New needs.
type Config struct {
	Max        int            // connections in all, at least 1
	PerAddress int            // connections of one address (IPv6: of one /64), at least 1
	Proxies    []netip.Prefix // speak for many: bounded in all only
	Patience   time.Duration  // for each piece of an answer; 0: 15 s
	Silent     bool           // turn away without a word: with TLS nobody could read it
	Log        *slog.Logger   // nil: discarded
}

const (
	defaultPatience = 15 * time.Second
	// piece is what must be taken within the patience: a client that reads has
	// all the time it needs, one that pretends to does not.
	piece = 256 << 10
	// maxLeaving and leavingPart bound those that are told why they have to leave:
	// they are more than may be inside.
	maxLeaving  = 32
	leavingPart = 8
	leaveTime   = 500 * time.Millisecond
)

// Door is a listener whose connections are bounded. Make one with New and have
// the server tell it with State what its connections do.
type Door struct {
	net.Listener
	cfg Config

	mu      sync.Mutex
	inside  int
	from    map[netip.Addr]*address
	idle    list.List // of *conn, the longest idle first
	turned  uint64    // in all
	told    time.Time
	leaving map[net.Conn]struct{} // those who are told why
}

// address is what one address has inside.
type address struct {
	count int
	idle  list.List // of *conn, the longest idle first
}

// New guards a listener.
func New(l net.Listener, cfg Config) (*Door, error) {
	if l == nil || cfg.Max < 1 || cfg.PerAddress < 1 {
		return nil, errors.New("door: a listener and bounds of at least 1 are required")
	}
	cfg.Patience = cmp.Or(cfg.Patience, defaultPatience)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Door{Listener: l, cfg: cfg, from: map[netip.Addr]*address{}, leaving: map[net.Conn]struct{}{}}, nil
}

// Accept returns the next connection that is within the bounds. For one too
// many the longest idle one is closed; when all are busy, the new one is.
func (d *Door) Accept() (net.Conn, error) {
	for {
		raw, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, door: d, addr: addrOf(raw)}
		idlest, ok := d.enter(c)
		if idlest != nil {
			_ = idlest.Close()
		}
		if ok {
			return c, nil
		}
		d.turnAway(raw)
	}
}

// Close closes the listener and the connections of those who are being turned
// away.
func (d *Door) Close() error {
	err := d.Listener.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for raw := range d.leaving {
		_ = raw.Close()
	}
	return err
}

// State notes what a connection does; it is meant for http.Server.ConnState.
func (d *Door) State(nc net.Conn, s http.ConnState) {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn() // of TLS
	}
	c, ok := nc.(*conn)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !c.inside {
		return
	}
	d.busy(c)
	if s == http.StateNew || s == http.StateIdle {
		d.rest(c)
	}
}

// Turned counts the connections that were turned away.
func (d *Door) Turned() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.turned
}

// enter counts a connection in if there is room, or if an idle one, which the
// caller closes, can make it.
func (d *Door) enter(c *conn) (idlest *conn, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	from := d.from[c.addr]
	crowded := from != nil && from.count >= d.cfg.PerAddress && !d.proxy(c.addr)
	if crowded || d.inside >= d.cfg.Max {
		idle := &d.idle
		if crowded {
			idle = &from.idle
		}
		if idle.Len() == 0 {
			d.tell(c.addr, crowded)
			return nil, false
		}
		idlest, _ = idle.Front().Value.(*conn)
		d.leave(idlest)
	}
	if from = d.from[c.addr]; from == nil {
		from = &address{}
		d.from[c.addr] = from
	}
	from.count++
	d.inside++
	c.inside = true
	d.rest(c) // as idle as one between two requests, until it says something
	return idlest, true
}

func (d *Door) proxy(a netip.Addr) bool {
	return slices.ContainsFunc(d.cfg.Proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// rest puts a busy connection at the end of the idle ones.
func (d *Door) rest(c *conn) {
	c.ofAll, c.ofAddress = d.idle.PushBack(c), d.from[c.addr].idle.PushBack(c)
}

func (d *Door) busy(c *conn) {
	if c.ofAll != nil {
		d.idle.Remove(c.ofAll)
		d.from[c.addr].idle.Remove(c.ofAddress)
		c.ofAll, c.ofAddress = nil, nil
	}
}

// leave counts a connection out, once.
func (d *Door) leave(c *conn) {
	if !c.inside {
		return
	}
	d.busy(c)
	c.inside = false
	d.inside--
	from := d.from[c.addr]
	from.count--
	if from.count == 0 {
		delete(d.from, c.addr)
	}
}

// tell says in the log, once a minute at most, that somebody was turned away.
func (d *Door) tell(addr netip.Addr, crowded bool) {
	d.turned++
	now := time.Now()
	if !d.told.IsZero() && now.Sub(d.told) < time.Minute {
		return
	}
	d.told = now
	setting, limit := "listen.max_connections", d.cfg.Max
	if crowded {
		setting, limit = "listen.max_connections_per_address", d.cfg.PerAddress
	}
	d.cfg.Log.Warn("connection turned away", "address", addr.String(), "setting", setting, "limit", limit, "turned_away", d.turned)
}

const tooManyBody = `{"type":"urn:breakwater:problem:overloaded","title":"Service Unavailable","status":503,` +
	`"detail":"too many connections","code":"overloaded","request_id":""}` + "\n"

var tooMany = fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"+
	"Retry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(tooManyBody), tooManyBody)

// turnAway closes a connection, and tells why if that is possible. Closing at
// once would make the kernel take back what was written when the request has
// arrived already, so those who are told get a moment; there are few of them
// at a time.
func (d *Door) turnAway(raw net.Conn) {
	d.mu.Lock()
	tell := !d.cfg.Silent && len(d.leaving) < max(1, min(maxLeaving, d.cfg.Max/leavingPart))
	if tell {
		d.leaving[raw] = struct{}{}
	}
	d.mu.Unlock()
	if !tell {
		_ = raw.Close()
		return
	}
	go func() {
		sayWhy(raw)
		_ = raw.Close()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.leaving, raw)
	}()
}

func sayWhy(raw net.Conn) {
	_ = raw.SetDeadline(time.Now().Add(leaveTime))
	if _, err := raw.Write(tooMany); err != nil {
		return
	}
	if half, ok := raw.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	var rest [4 << 10]byte
	for range 16 { // of a request that nobody will read
		if _, err := raw.Read(rest[:]); err != nil {
			return
		}
	}
}

// conn is a connection inside.
type conn struct {
	net.Conn
	door *Door
	addr netip.Addr

	inside           bool          // with the places among the idle: under door.mu
	ofAll, ofAddress *list.Element // nil while busy

	armed time.Time // when the deadline was set last; by the writer alone
}

// Write gives the client the patience for each piece. What fits into the
// buffers of the kernel does not wait for anybody.
func (c *conn) Write(b []byte) (n int, err error) {
	for {
		part := b[n:min(len(b), n+piece)]
		if now := time.Now(); now.Sub(c.armed) > c.door.cfg.Patience/16 {
			if err := c.SetWriteDeadline(now.Add(c.door.cfg.Patience)); err != nil {
				return n, err
			}
			c.armed = now
		}
		m, err := c.Conn.Write(part)
		if n += m; err != nil || n == len(b) {
			return n, err
		}
	}
}

// CloseWrite lets the server end an answer before it stops reading.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close gives the place back.
func (c *conn) Close() error {
	c.door.mu.Lock()
	c.door.leave(c)
	c.door.mu.Unlock()
	return c.Conn.Close()
}

// addrOf returns what connections are counted by: one client commonly has a
// whole /64 of IPv6.
func addrOf(c net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	a := ap.Addr().Unmap().WithZone("")
	if p, err := a.Prefix(64); a.Is6() && err == nil {
		return p.Addr()
	}
	return a
}
