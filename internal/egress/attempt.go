package egress

import (
	"context"
	"crypto/tls"
	"net/http/httptrace"
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

// exitGrace is added to an attempt's deadline for the hard limit of its
// connection: the polite end comes first.
const exitGrace = 250 * time.Millisecond

// attempt is the state of one request on its way out. The dialer finds it in
// the context, because the transport dials in a goroutine of its own that may
// outlive the request: what that goroutine writes is atomic.
type attempt struct {
	connect  time.Duration // budget of DNS, TCP and TLS together
	deadline time.Time     // of the whole attempt

	stage             atomic.Uint32
	dns, tcp, tls     atomic.Int64 // durations in nanoseconds
	tlsStart, gotByte atomic.Int64 // nanoseconds since begin
	begin             time.Time

	// Written by the transport on the goroutine that called RoundTrip.
	conn     *conn
	gen      uint64
	reused   bool
	base     int64 // conn.written when the attempt got the connection
	gotConn  bool
	gotAfter time.Duration
}

type attemptKey struct{}

func attemptFrom(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// bind returns a context that carries the attempt to the dialer and the
// transport's events back. The hook for 1xx answers stays unset: setting it
// lifts the limit on the size of headers.
func (a *attempt) bind(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(context.WithValue(ctx, attemptKey{}, a), &httptrace.ClientTrace{
		GetConn:              a.onWant,
		GotConn:              a.onConn,
		GotFirstResponseByte: a.onFirstByte,
		TLSHandshakeStart:    a.onHandshake,
		TLSHandshakeDone:     a.onHandshakeDone,
	})
}

// onWant starts over: the transport asks for another connection when the first
// one turned out to be closed.
func (a *attempt) onWant(string) {
	a.conn, a.gotConn, a.reused = nil, false, false
	a.enter(stageWaiting)
}

func (a *attempt) onConn(info httptrace.GotConnInfo) {
	a.gotConn, a.reused = true, info.Reused
	a.gotAfter = time.Since(a.begin)
	if a.conn = connOf(info.Conn); a.conn != nil {
		a.gen = a.conn.arm(a.deadline.Add(exitGrace))
		a.base = a.conn.written.Load()
	}
}

func (a *attempt) onFirstByte() { a.gotByte.Store(max(int64(time.Since(a.begin)), 1)) }

func (a *attempt) onHandshake() {
	a.enter(stageHandshaking)
	a.tlsStart.Store(int64(time.Since(a.begin)))
}

func (a *attempt) onHandshakeDone(tls.ConnectionState, error) {
	a.tls.Store(int64(time.Since(a.begin)) - a.tlsStart.Load())
}

func (a *attempt) enter(s stage) { a.stage.Store(uint32(s)) }

// end gives the connection back to its idle limit.
func (a *attempt) end(idle time.Duration) {
	if a.conn != nil {
		a.conn.disarm(a.gen, time.Now().Add(idle+exitGrace))
	}
}

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

func (a *attempt) remoteAddr() string {
	if a.conn == nil {
		return ""
	}
	return a.conn.remote
}
