package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// standard carries requests with the transport of net/http. It is used behind a
// proxy, where tunnels and authentication matter more than what a request costs.
//
// Each tenant has a transport of its own, because a transport shares its
// connections between all who use it.
type standard struct {
	newTransport func() transport
	userAgent    []string
	idle         time.Duration

	mu         sync.Mutex
	transports map[hook.ID]transport
}

// maxTransports bounds the transports that are remembered. One that is forgotten
// while it is in use ends what it does, and its connections expire.
const maxTransports = 64

// transport is the part of *http.Transport that is used.
type transport interface {
	RoundTrip(*http.Request) (*http.Response, error)
	CloseIdleConnections()
}

// dialFunc has the form of http.Transport.DialContext. Its context carries the
// attempt but not its end, because the transport detaches dialling from the
// request; the attempt's own budget ends the dial.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func newStandard(cfg Config, roots *x509.CertPool, dial dialFunc) *standard {
	newTransport := func() transport { return standardTransport(cfg, roots, dial) }
	return &standard{
		newTransport: newTransport, userAgent: []string{cfg.UserAgent}, idle: cfg.IdleTimeout,
		transports: map[hook.ID]transport{},
	}
}

func standardTransport(cfg Config, roots *x509.CertPool, dial dialFunc) *http.Transport {
	var http1 http.Protocols
	http1.SetHTTP1(true)
	t := &http.Transport{
		// DialTLSContext must stay unset: it would replace this for https.
		DialContext:            dial,
		TLSClientConfig:        tlsConfig(roots),
		Protocols:              &http1,
		DisableCompression:     true, // answers are kept as they came
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxConnsPerHost:        cfg.MaxConnsPerHost,
		MaxIdleConnsPerHost:    cfg.MaxConnsPerHost,
		MaxIdleConns:           max(idleBound(cfg.Descriptors)/idleShare, 1), // several tenants have some
		IdleConnTimeout:        cfg.IdleTimeout,
		OnProxyConnectResponse: checkConnect,
	}
	if cfg.Proxy != nil {
		t.Proxy = http.ProxyURL(cfg.Proxy) // never from the environment
	}
	return t
}

// of returns the transport of a tenant.
func (s *standard) of(tenant hook.ID) transport {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.transports[tenant]
	if ok {
		return t
	}
	for other, old := range s.transports {
		if len(s.transports) < maxTransports {
			break
		}
		delete(s.transports, other)
		old.CloseIdleConnections()
	}
	t = s.newTransport()
	s.transports[tenant] = t
	return t
}

// checkConnect tells a proxy that refuses us from one that cannot reach the
// destination: the latter is the destination's failure.
func checkConnect(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	err := fmt.Errorf("proxy answered CONNECT with status %d", answer.StatusCode)
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusForbidden:
		return &reasonError{hook.BlockedAddress, err}
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return &reasonError{hook.Unreachable, err}
	case http.StatusGatewayTimeout:
		return &reasonError{hook.ConnectTimeout, err}
	}
	return &reasonError{hook.LocalError, err}
}

func (s *standard) closeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
}

func (s *standard) carry(h *hop, a *attempt) (Result, error) {
	own, cancel := context.WithDeadline(h.caller, h.deadline)
	defer cancel()
	hold := &holder{attempt: a, done: own.Done(), mayStart: h.req.mayStart, callOff: cancel}
	defer hold.end(s.idle)
	resp, err := s.of(h.req.Tenant).RoundTrip(s.request(hold.bind(own), h))
	if isShortage(err) {
		s.closeIdle() // the next attempt finds some
	}
	if hold.calledOff {
		err = errCalledOff
	}
	if err != nil {
		return Result{}, err
	}
	defer resp.Body.Close()
	res, _ := h.client.result(answer{
		status: resp.StatusCode, header: resp.Header,
		length: resp.ContentLength, body: resp.Body,
	})
	return res, nil
}

// request builds the request. GetBody is set for the transport, which needs it
// to move an unwritten request to another connection.
func (s *standard) request(ctx context.Context, h *hop) *http.Request {
	r := (&http.Request{
		Method:        http.MethodPost,
		URL:           h.url,
		Host:          h.url.Host,
		Header:        s.header(h),
		Body:          http.NoBody,
		ContentLength: int64(len(h.req.Body)),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
	}).WithContext(ctx)
	if len(h.req.Body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(h.req.Body))
		r.GetBody = func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(h.req.Body)), nil
		}
	}
	return r
}

var identity = []string{"identity"}

func (s *standard) header(h *hop) http.Header {
	out := make(http.Header, len(h.req.Header)+2)
	for _, f := range h.appendFields(nil) {
		out[f.Name] = append(out[f.Name], f.Value)
	}
	out["User-Agent"] = s.userAgent
	out["Accept-Encoding"] = identity
	return out
}

// holder links an attempt to the transport: the dialer finds it in the context,
// and the transport's events come back through it.
type holder struct {
	*attempt

	done      <-chan struct{} // by which its connection knows it
	mayStart  func() bool
	callOff   func()
	calledOff bool
}

type holderKey struct{}

func attemptFrom(ctx context.Context) *attempt {
	if h, ok := ctx.Value(holderKey{}).(*holder); ok {
		return h.attempt
	}
	return nil
}

// bind returns the context of the request. The hook for 1xx answers stays
// unset: setting it lifts the limit on the size of headers.
func (h *holder) bind(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(context.WithValue(ctx, holderKey{}, h), &httptrace.ClientTrace{
		GetConn:              h.onWant,
		GotConn:              h.onConn,
		GotFirstResponseByte: h.onFirstByte,
		TLSHandshakeStart:    h.onHandshake,
		TLSHandshakeDone:     func(tls.ConnectionState, error) { h.onHandshakeDone() },
	})
}

// onWant starts over: the transport asks for another connection when the first
// one turned out to be closed.
func (h *holder) onWant(string) {
	h.conn, h.gotConn, h.reused = nil, false, false
	h.enter(stageWaiting)
}

func (h *holder) onConn(info httptrace.GotConnInfo) {
	c := connOf(info.Conn)
	limit := h.deadline.Add(exitGrace)
	if h.calledOff = !h.mayStart(); h.calledOff {
		limit = longAgo // the transport is about to write
		h.callOff()
	}
	if c != nil {
		c.arm(limit, h.done)
	}
	h.got(c, info.Reused)
}

// end gives the connection back to its idle limit.
func (h *holder) end(idle time.Duration) {
	if h.conn != nil {
		h.conn.rearm(time.Now().Add(idle+exitGrace), h.done)
	}
}
