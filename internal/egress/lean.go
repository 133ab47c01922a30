package egress

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http/httputil"
	"net/netip"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const (
	// bodyAtOnce is the largest body that is written in one go with the head,
	// before the answer is read. The buffers of a socket take that much even if
	// nobody reads at the other end.
	bodyAtOnce = 32 << 10
	// writerGrace is how long a complete answer waits for the rest of its
	// request: usually the writer is about to say that it is done.
	writerGrace = 20 * time.Millisecond
)

// lean carries requests over connections of its own. It does the one thing that
// deliveries need, a POST over HTTP/1.1 whose body is in memory, without a
// goroutine per connection and with one write per request: an attempt costs a
// fraction of what it does with the standard transport.
type lean struct {
	dialer *dialer
	trust  *tls.Config
	pool   *pool
	fixed  string // the headers that every request has
}

func newLean(cfg Config, roots *x509.CertPool, d *dialer) *lean {
	return &lean{
		dialer: d,
		trust:  tlsConfig(roots),
		pool:   newPool(cfg.MaxConnsPerHost, idleBound(cfg.Descriptors), cfg.IdleTimeout),
		fixed:  "User-Agent: " + cfg.UserAgent + "\r\nAccept-Encoding: identity\r\n",
	}
}

func (l *lean) closeIdle() { l.pool.closeIdle() }

func (l *lean) carry(h *hop, a *attempt) (Result, error) {
	x := exchanges.Get().(*exchange)
	defer x.release()
	if err := x.compose(h, l.fixed); err != nil {
		return Result{}, &reasonError{hook.LocalError, err}
	}
	w, err := l.connect(h, a)
	if err != nil {
		return Result{}, err
	}
	res, again, err := x.over(w, h, a)
	if again {
		l.pool.put(w)
	} else {
		l.pool.drop(w)
	}
	return res, err
}

// connect returns a wire that is good for one exchange. Idle ones that the peer
// has closed are left out here, before anything is written.
func (l *lean) connect(h *hop, a *attempt) (*wire, error) {
	to := poolKeyOf(h.req.Tenant, h.url)
	for {
		w, err := l.pool.take(h, to)
		a.deadline = h.deadline
		reused := w != nil
		if err == nil && !reused {
			w, reused, err = l.open(h, a, to)
		}
		if err != nil {
			return nil, err
		}
		w.hold(h.caller, h.deadline)
		if !reused || w.quiet() {
			a.got(w.base, reused)
			return w, nil
		}
		l.pool.drop(w)
	}
}

// errHandedOn ends a dial for which an idle wire came back meanwhile.
var errHandedOn = errors.New("an idle connection came back")

// open opens a wire, or finds one that was given back while it waited for leave to
// do so. When the process has no descriptor left for it, idle connections to
// others are closed first.
func (l *lean) open(h *hop, a *attempt, to poolKey) (w *wire, reused bool, err error) {
	for relieved := false; ; relieved = true {
		w, err = l.dial(h, a, to)
		switch {
		case errors.Is(err, errHandedOn):
			return w, true, nil
		case err == nil:
			return w, false, nil
		case relieved || !isShortage(err) || !l.pool.anyIdle():
			return nil, false, err
		}
		l.pool.closeIdle()
	}
}

func (l *lean) dial(h *hop, a *attempt, to poolKey) (*wire, error) {
	var w *wire
	c, err := l.dialer.dial(h.caller, a, to.address, func(address netip.AddrPort) (err error) {
		if w != nil { // for an address that did not answer
			l.pool.drop(w)
		}
		w, err = l.pool.enter(h, to, address)
		a.deadline = h.deadline
		if err == nil && w.opened() {
			return errHandedOn
		}
		return err
	})
	if err == nil {
		err = w.open(h, a, c, l.trust)
	}
	if err != nil && w != nil && !errors.Is(err, errHandedOn) {
		l.pool.drop(w)
		return nil, err
	}
	return w, err
}

// exchange is one request and its answer: the buffers, and what was read so far.
type exchange struct {
	out    []byte // the head of the request, and a small body
	fields []Field
	in     *bufio.Reader
	lines  []byte // the head of the answer
	budget int    // bytes that heads may still take
	length sized
}

var exchanges = sync.Pool{New: func() any {
	return &exchange{in: bufio.NewReaderSize(nil, 4<<10), out: make([]byte, 0, 4<<10)}
}}

// release gives the buffers back, unless they have grown beyond the usual.
func (x *exchange) release() {
	x.in.Reset(nil)
	x.length.from = nil
	clear(x.fields)
	if cap(x.out) <= 2*bodyAtOnce && cap(x.lines) <= 8<<10 {
		exchanges.Put(x)
	}
}

// over makes the exchange over a wire. again says that the wire may be used
// again: everything was written, everything was read, and no more than that.
func (x *exchange) over(w *wire, h *hop, a *attempt) (res Result, again bool, err error) {
	if err := h.caller.Err(); err != nil {
		return Result{}, false, err // before anything is written
	}
	if !h.req.mayStart() {
		return Result{}, false, errCalledOff
	}
	wrote := x.send(w, h.req.Body)
	head, err := x.receive(w, a, wrote)
	if err == nil {
		var ended bool
		res, ended = h.client.result(answer{
			status: head.status, header: head.header,
			length: head.length, body: x.body(&head),
		})
		again = ended && !head.last && x.in.Buffered() == 0
	}
	complete := x.finish(w, wrote)
	return res, again && complete && h.caller.Err() == nil, err
}

// written is how a request went out: the error, or where it will come from.
type written struct {
	err  error
	rest chan error // of a writer that runs beside the reading; else nil
}

// send writes the request. A body that might not fit into the buffers of the
// socket is written beside the reading: a peer may answer without having read
// all of it.
func (x *exchange) send(w *wire, body []byte) written {
	if len(body) <= bodyAtOnce {
		x.out = append(x.out, body...)
		_, err := w.stream.Write(x.out)
		return written{err: err}
	}
	rest := make(chan error, 1)
	go func() {
		_, err := w.stream.Write(x.out)
		if err == nil {
			_, err = w.stream.Write(body)
		}
		rest <- err
	}()
	return written{rest: rest}
}

// finish waits for the writer and reports whether it wrote everything. With a
// peer that does not read on, it is cut off.
func (x *exchange) finish(w *wire, sent written) bool {
	if sent.rest == nil {
		return sent.err == nil
	}
	select {
	case err := <-sent.rest:
		return err == nil
	case <-time.After(writerGrace):
		w.base.arm(longAgo, nil)
		<-sent.rest
		return false
	}
}

// receive reads the head of the final answer. A peer that has closed the
// connection may have said why: a failed write is an error only when there is
// no answer either.
func (x *exchange) receive(w *wire, a *attempt, sent written) (head, error) {
	if sent.err != nil && (a.wroteNothing() || brokenReason(sent.err) != hook.ConnectReset) {
		return head{}, sent.err
	}
	x.in.Reset(w.stream)
	x.budget = maxHeaderBytes
	if _, err := x.in.Peek(1); err != nil {
		return head{}, err
	}
	a.onFirstByte()
	for {
		answer, err := x.readHead()
		if err != nil || answer.final() {
			return answer, err
		}
	}
}

// body returns a reader for the body of the answer.
func (x *exchange) body(h *head) io.Reader {
	switch {
	case h.chunked:
		return &chunked{x, httputil.NewChunkedReader(x.in)}
	case h.length >= 0:
		x.length = sized{x.in, h.length}
		return &x.length
	}
	return x.in
}

// sized reads a body of known length.
type sized struct {
	from *bufio.Reader
	left int64
}

func (s *sized) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.from.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	switch {
	case s.left == 0:
		return n, io.EOF
	case err == io.EOF:
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// chunked reads a body in chunks and the trailer behind it.
type chunked struct {
	x      *exchange
	chunks io.Reader
}

func (c *chunked) Read(p []byte) (int, error) {
	n, err := c.chunks.Read(p)
	if err == io.EOF {
		if trailer := c.x.readLines(); trailer != nil {
			return n, trailer
		}
	}
	return n, err
}
