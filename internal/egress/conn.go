package egress

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// exitGrace is what a polite end may take beyond the end of an attempt.
const exitGrace = 250 * time.Millisecond

// conn puts a hard limit on how long anything may hold a connection. The HTTP
// client's own timeouts do not cover every state (an answer of 101, a stalled
// TLS close), and a deadline set once at dial would kill later requests on the
// same pooled connection. So each attempt arms the connection when it gets it,
// and moves the limit when it ends early or is done, unless the connection
// belongs to the next attempt by then.
type conn struct {
	net.Conn

	remote  string       // the peer's address, for the record of attempts
	written atomic.Int64 // bytes handed to the kernel

	mu     sync.Mutex
	limit  time.Time
	holder <-chan struct{} // whose limit it is: the end of its context
}

func newConn(c net.Conn) *conn {
	return &conn{Conn: c, remote: c.RemoteAddr().String()}
}

// arm gives the connection to a holder until limit; nil is nobody who comes back.
func (c *conn) arm(limit time.Time, holder <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holder = holder
	c.setLimit(limit)
}

// rearm moves the limit of a holder. It does nothing when somebody else holds the
// connection by now.
func (c *conn) rearm(limit time.Time, holder <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder == holder {
		c.setLimit(limit)
	}
}

var longAgo = time.Unix(1, 0)

// setLimit is called with mu held. It fails on a closed connection only, which
// needs no limit.
func (c *conn) setLimit(limit time.Time) {
	c.limit = limit
	_ = c.Conn.SetDeadline(limit)
}

// clamp returns t, or the limit when t is later or none at all.
func (c *conn) clamp(t time.Time) time.Time {
	if !c.limit.IsZero() && (t.IsZero() || t.After(c.limit)) {
		return c.limit
	}
	return t
}

// SetDeadline never goes beyond the limit of the current holder.
func (c *conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Conn.SetDeadline(c.clamp(t))
}

// SetReadDeadline never goes beyond the limit of the current holder.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Conn.SetReadDeadline(c.clamp(t))
}

// SetWriteDeadline never goes beyond the limit of the current holder. TLS asks
// for five seconds to say goodbye, which a peer that does not read would use.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Conn.SetWriteDeadline(c.clamp(t))
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// connOf finds our connection below any layers of TLS.
func connOf(c net.Conn) *conn {
	for c != nil {
		switch layer := c.(type) {
		case *conn:
			return layer
		case interface{ NetConn() net.Conn }:
			c = layer.NetConn()
		default:
			return nil
		}
	}
	return nil
}
