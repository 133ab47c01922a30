package egress

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// wire is a connection of the lean carrier. Who took it out of the pool has it
// alone and reads and writes on the own goroutine: an idle wire costs no
// goroutine and no buffer.
type wire struct {
	key  poolKey
	host *hostPool

	base   *conn    // limits and counts what goes through TCP
	stream net.Conn // base, or TLS on top of it
	silent func() bool

	watched <-chan struct{} // ends what the wire does when it is closed
	unwatch func() bool

	// Of the pool, while the wire is idle.
	since        time.Time
	older, newer *wire
}

func (w *wire) opened() bool { return w.base != nil }

// open makes the wire of a connection, with a TLS handshake within the budget
// that is left of its dial.
func (w *wire) open(h *hop, a *attempt, c *conn, trust *tls.Config) error {
	w.base, w.stream = c, c
	w.silent = newProbe(c)
	if !w.key.secure {
		return nil
	}
	host, _, err := net.SplitHostPort(w.key.address)
	if err != nil {
		return err
	}
	trust = trust.Clone()
	trust.ServerName = host
	layer := tls.Client(c, trust)
	w.stream = layer
	a.onHandshake()
	err = layer.HandshakeContext(h.caller)
	a.onHandshakeDone()
	return err
}

// quiet reports whether nothing has arrived on an idle wire. What arrives
// unasked is the end of the connection, or an answer to nothing: both make the
// wire useless, and now is the last moment to notice without a failed attempt.
func (w *wire) quiet() bool {
	if !w.silent() {
		return false
	}
	if w.stream == net.Conn(w.base) {
		return true
	}
	// TLS may have read it already. In the past there is nothing else to read.
	_ = w.base.SetReadDeadline(longAgo)
	_, err := w.stream.Read(make([]byte, 1))
	_ = w.base.SetReadDeadline(time.Time{}) // back to the limit of the holder
	return isTimeout(err)
}

// hold gives the wire to an attempt, until limit or the end of ctx. The watch
// over ctx stays when the attempt has ended: the next one mostly has the same.
func (w *wire) hold(ctx context.Context, limit time.Time) {
	c, done := w.base, ctx.Done()
	if done != w.watched {
		w.stopWatch()
		w.watched = done
		w.unwatch = context.AfterFunc(ctx, func() { c.rearm(longAgo, done) })
	}
	c.arm(limit, done)
}

func (w *wire) stopWatch() {
	if w.unwatch != nil {
		w.unwatch()
	}
}

// close ends a wire in any state, without waiting for anybody.
func (w *wire) close() {
	w.stopWatch()
	if w.opened() {
		_ = w.base.Close()
	}
}

// goodbye closes an idle wire, with the farewell that TLS asks for.
func (w *wire) goodbye() {
	w.stopWatch()
	w.base.arm(time.Now().Add(exitGrace), nil)
	_ = w.stream.Close()
}
