package egress

import (
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// stage is how far the opening of a connection has come.
type stage uint32

const (
	stageWaiting     stage = iota // for a free connection
	stageResolving                // DNS
	stageConnecting               // TCP
	stageDialled                  // TCP is up; with a proxy, also its CONNECT
	stageHandshaking              // TLS
)

// attempt is the state of one request on its way out. The standard transport
// dials in a goroutine of its own that may outlive the request: what is written
// while dialling is atomic.
type attempt struct {
	connect  time.Duration // budget of DNS, TCP and TLS together
	deadline time.Time     // of the whole attempt

	stage             atomic.Uint32
	dns, tcp, tls     atomic.Int64 // durations in nanoseconds
	tlsStart, gotByte atomic.Int64 // nanoseconds since begin
	begin             time.Time

	// Written on the goroutine of the caller.
	conn     *conn
	reused   bool
	base     int64 // conn.written when the attempt got the connection
	gotConn  bool
	gotAfter time.Duration
}

// got notes that the attempt has its connection.
func (a *attempt) got(c *conn, reused bool) {
	a.conn, a.gotConn, a.reused = c, true, reused
	a.gotAfter = time.Since(a.begin)
	if c != nil {
		a.base = c.written.Load()
	}
}

func (a *attempt) onFirstByte() { a.gotByte.Store(max(int64(time.Since(a.begin)), 1)) }

func (a *attempt) onHandshake() {
	a.enter(stageHandshaking)
	a.tlsStart.Store(int64(time.Since(a.begin)))
}

func (a *attempt) onHandshakeDone() {
	a.tls.Store(int64(time.Since(a.begin)) - a.tlsStart.Load())
}

func (a *attempt) enter(s stage) { a.stage.Store(uint32(s)) }

// wroteNothing reports whether a request on a reused connection failed before
// a single byte left: the peer had closed the connection while it was idle, and
// the request may move to another one.
func (a *attempt) wroteNothing() bool {
	return a.gotConn && a.reused && a.conn != nil && a.conn.written.Load() == a.base
}

// phases returns where the time went. Opening the connection counts only for
// the attempt that waited for it.
func (a *attempt) phases() hook.Phases {
	var p hook.Phases
	if !a.reused {
		p.DNS = time.Duration(a.dns.Load())
		p.Connect = time.Duration(a.tcp.Load())
		p.TLS = time.Duration(a.tls.Load())
	}
	if at := time.Duration(a.gotByte.Load()); at > 0 {
		p.FirstByte = max(at-a.gotAfter, 0)
	}
	return p
}
