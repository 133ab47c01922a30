package egress

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// Conn is the connection with a deadline per holder.
type Conn = conn

// NewConn wraps c.
func NewConn(c net.Conn) *Conn { return newConn(c) }

// Arm gives the connection to a new holder.
func (c *conn) Arm(limit time.Time) uint64 { return c.arm(limit) }

// ArmUntil gives the connection to a new holder that Cut may end.
func (c *conn) ArmUntil(limit time.Time, early <-chan struct{}) { c.armUntil(limit, early) }

// Cut ends the hold that was armed with early.
func (c *conn) Cut(early <-chan struct{}) { c.cut(early) }

// Disarm ends the hold of gen.
func (c *conn) Disarm(gen uint64, idle time.Time) { c.disarm(gen, idle) }

// ConnOf finds the wrapper below TLS.
func ConnOf(c net.Conn) *Conn { return connOf(c) }

// ReplaceTransport sends with the standard carrier over a scripted transport.
func (c *Client) ReplaceTransport(round func(*http.Request) (*http.Response, error)) {
	c.carrier = &standard{transport: scripted(round)}
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
			conn, err := l.dialer.dial(ctx, a, address)
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
func NewPool(perTarget int, idle time.Duration) *Pool { return newPool(perTarget, idle) }

// Take is take for an attempt of ctx that ends in a minute.
func (p *pool) Take(ctx context.Context, address string) (*Wire, error) {
	return p.take(&hop{caller: ctx, deadline: time.Now().Add(time.Minute), patience: time.Minute}, target{address: address})
}

// Put gives w back for the next one.
func (p *pool) Put(w *Wire) { p.put(w) }

// Drop closes w.
func (p *pool) Drop(w *Wire) { p.drop(w) }

// CloseIdle closes all idle wires.
func (p *pool) CloseIdle() { p.closeIdle() }

// Counts returns how many wires there are, how many of them are idle, and to
// how many places they lead.
func (p *pool) Counts() (open, idle, places int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.places {
		open += at.open
		idle += len(at.idle)
	}
	return open, idle, len(p.places)
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
