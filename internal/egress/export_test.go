package egress

import (
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

// Disarm ends the hold of gen.
func (c *conn) Disarm(gen uint64, idle time.Time) { c.disarm(gen, idle) }

// ConnOf finds the wrapper below TLS.
func ConnOf(c net.Conn) *Conn { return connOf(c) }

// ReplaceTransport puts a scripted transport in place of the real one.
func (c *Client) ReplaceTransport(round func(*http.Request) (*http.Response, error)) {
	c.transport = scripted(round)
}

type scripted func(*http.Request) (*http.Response, error)

func (s scripted) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }
func (s scripted) CloseIdleConnections()                             {}
