package egress

import (
	"bufio"
	"context"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Conn is the connection with a deadline per holder.
type Conn = conn

// NewConn wraps c.
func NewConn(c net.Conn) *Conn { return newConn(c) }

// Arm gives the connection to a new holder.
func (c *conn) Arm(limit time.Time, holder <-chan struct{}) { c.arm(limit, holder) }

// Rearm moves the limit of a holder.
func (c *conn) Rearm(limit time.Time, holder <-chan struct{}) { c.rearm(limit, holder) }

// ConnOf finds the wrapper below TLS.
func ConnOf(c net.Conn) *Conn { return connOf(c) }

// ReplaceTransport sends with the standard carrier over a scripted transport.
func (c *Client) ReplaceTransport(round func(*http.Request) (*http.Response, error)) {
	c.carrier = &standard{newTransport: func() transport { return scripted(round) }, transports: map[hook.ID]transport{}}
}

type scripted func(*http.Request) (*http.Response, error)

func (s scripted) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }
func (s scripted) CloseIdleConnections()                             {}

// NewStandard is New with the standard carrier for direct connections, too.
func NewStandard(cfg Config) (*Client, error) {
	c, err := New(cfg)
	if l, ok := c.lean(); ok && err == nil {
		cfg.fill()
		c.carrier = newStandard(cfg, l.trust.RootCAs, func(ctx context.Context, _, address string) (net.Conn, error) {
			a := attemptFrom(ctx)
			if a == nil {
				return nil, &BlockedError{Rule: "dial outside of an attempt"}
			}
			conn, err := l.dialer.dial(ctx, a, address, func(netip.AddrPort) error { return nil })
			if err != nil {
				return nil, err
			}
			return conn, nil
		})
	}
	return c, err
}

func (c *Client) lean() (*lean, bool) {
	if c == nil {
		return nil, false
	}
	l, ok := c.carrier.(*lean)
	return l, ok
}

// Answer is what was read of an answer.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Ended  bool // the body was read to its end
	Last   bool // the connection ends with it
}

// ReadAnswer reads one answer with the parser of the lean carrier.
func ReadAnswer(r io.Reader) (Answer, error) {
	x := &exchange{in: bufio.NewReader(r), budget: maxHeaderBytes}
	h, err := x.readHead()
	if err != nil {
		return Answer{}, err
	}
	body, err := io.ReadAll(x.body(&h))
	return Answer{h.status, h.header, body, err == nil, h.last}, nil
}

// Pool is the pool of the lean carrier.
type Pool = pool

// Wire is a connection in it.
type Wire = wire

// NewPool returns an empty pool.
func NewPool(perHost int, idle time.Duration) *Pool { return newPool(perHost, maxIdle, idle) }

// BoundIdle returns how many idle connections a limit of descriptors allows.
func BoundIdle(limit uint64) int { return idleBound(limit) }

// Take takes a wire for an attempt of tenant 1 and of ctx that ends in a minute.
// Every name has an address of its own.
func (p *pool) Take(ctx context.Context, name string) (*Wire, error) {
	hash := fnv.New32a()
	hash.Write([]byte(name))
	address := netip.AddrFrom4([4]byte(hash.Sum(nil)))
	return p.TakeAt(ctx, 1, name, netip.AddrPortFrom(address, 1))
}

// TakeAt is Take for a tenant and a name that leads to an address.
func (p *pool) TakeAt(ctx context.Context, tenant hook.ID, name string, address netip.AddrPort) (*Wire, error) {
	h := &hop{caller: ctx, deadline: time.Now().Add(time.Minute), patience: time.Minute}
	key := poolKey{tenant: tenant, address: name}
	if w, err := p.take(h, key); w != nil || err != nil {
		return w, err
	}
	return p.enter(h, key, address)
}

// TakeIdle takes an idle wire of a tenant; nil: one has to be opened.
func (p *pool) TakeIdle(ctx context.Context, tenant hook.ID, name string) (*Wire, error) {
	h := &hop{caller: ctx, deadline: time.Now().Add(time.Minute), patience: time.Minute}
	return p.take(h, poolKey{tenant: tenant, address: name})
}

// Put gives w back for the next one.
func (p *pool) Put(w *Wire) { p.put(w) }

// Drop closes w.
func (p *pool) Drop(w *Wire) { p.drop(w) }

// CloseIdle closes all idle wires.
func (p *pool) CloseIdle() { p.closeIdle() }

// Counts returns how many wires there are, how many of them are idle, and to
// how many hosts they lead.
func (p *pool) Counts() (open, idle, hosts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.hosts {
		open += at.open
		idle += len(at.idle)
		if at.busy != at.open-len(at.idle) {
			panic("busy wires are not counted right")
		}
	}
	if idle != p.idling {
		panic("idle wires are not counted right")
	}
	return open, idle, len(p.hosts)
}

// Opened reports whether w is a connection already.
func (w *wire) Opened() bool { return w.opened() }

// Connect makes w a connection over c.
func (w *wire) Connect(c net.Conn) { w.base = newConn(c); w.stream = w.base }

// StopWriting makes the idle connections of a client fail on the next write,
// which cannot be seen before it is tried.
func (c *Client) StopWriting() (connections int) {
	l, _ := c.lean()
	for w := l.pool.oldest; w != nil; w = w.newer {
		_ = w.base.Conn.(*net.TCPConn).CloseWrite()
		connections++
	}
	return connections
}
