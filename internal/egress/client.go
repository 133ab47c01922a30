package egress

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const (
	maxHeaderBytes = 64 << 10
	maxBodyBytes   = 64 << 10
	// maxIdle bounds the idle connections of all hosts together.
	maxIdle = 2048
	// maxTries bounds how often a request of which nothing was written moves to
	// another connection.
	maxTries = 3
)

// Config says where deliveries may go and how they get there. The zero value
// allows public addresses only.
type Config struct {
	AllowCIDR []netip.Prefix // opened although special; never metadata addresses
	DenyCIDR  []netip.Prefix // closed; wins over everything

	Ports         []uint16 // empty: 80, 443 and from 1024 on less the blocked ones
	AllowMetadata bool     // opens link-local and cloud metadata addresses
	RequireHTTPS  bool
	Dev           bool // opens loopback and private ranges

	// Self returns the addresses this process listens on; they are always
	// refused. An unspecified address stands for every local one. May be nil.
	Self func() []netip.AddrPort

	// Proxy is an HTTP proxy for everything. It resolves the names, so it has
	// to be the guard: here only ports and literal addresses are judged then.
	Proxy  *url.URL
	CAFile string // PEM, trusted besides the system's authorities

	UserAgent       string        // empty: Breakwater
	ResponseKeep    int           // bytes of a body kept; 0: 16 KiB, negative: none, at most 64 KiB
	MaxConnsPerHost int           // 0: 100
	IdleTimeout     time.Duration // 0: 90 s

	Resolver Resolver // nil: net.DefaultResolver
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	guard        *guard
	transport    transport
	proxied      bool
	requireHTTPS bool
	userAgent    []string
	keep         int
	idle         time.Duration
}

// transport is what Send needs of an HTTP/1.1 implementation. It dials through
// the guard, finds the attempt in the request's context and reports to the
// trace it set there.
type transport interface {
	RoundTrip(*http.Request) (*http.Response, error)
	CloseIdleConnections()
}

// New checks cfg, fills in defaults, and opens no connection.
func New(cfg Config) (*Client, error) {
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "Breakwater")
	cfg.ResponseKeep = cmp.Or(cfg.ResponseKeep, 16<<10)
	cfg.MaxConnsPerHost = cmp.Or(cfg.MaxConnsPerHost, 100)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 90*time.Second)
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	g, err := newGuard(cfg)
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	roots, err := rootCAs(cfg.CAFile)
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	return &Client{
		guard:        g,
		transport:    newTransport(cfg, g, roots),
		proxied:      cfg.Proxy != nil,
		requireHTTPS: cfg.RequireHTTPS,
		userAgent:    []string{cfg.UserAgent},
		keep:         max(cfg.ResponseKeep, 0),
		idle:         cfg.IdleTimeout,
	}, nil
}

func (cfg *Config) check() error {
	switch {
	case cfg.ResponseKeep > maxBodyBytes:
		return fmt.Errorf("response keep must be at most %d bytes", maxBodyBytes)
	case cfg.MaxConnsPerHost < 0:
		return errors.New("connections per host must not be negative")
	case cfg.IdleTimeout < 0:
		return errors.New("idle timeout must not be negative")
	case strings.ContainsFunc(cfg.UserAgent, func(r rune) bool { return r < ' ' || r > '~' }):
		return errors.New("user agent must be printable ASCII")
	case cfg.Proxy != nil && (cfg.Proxy.Scheme != "http" && cfg.Proxy.Scheme != "https" || cfg.Proxy.Host == ""):
		return errors.New("proxy must be an http or https URL with a host")
	}
	return nil
}

// rootCAs returns the system's authorities and those of file; nil, which means
// the system's, without a file.
func rootCAs(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read CA file %s: no certificate in it", file)
	}
	return pool, nil
}

func newTransport(cfg Config, g *guard, roots *x509.CertPool) *http.Transport {
	var http1 http.Protocols
	http1.SetHTTP1(true)
	t := &http.Transport{
		// DialTLSContext must stay unset: it would replace this for https.
		DialContext: newDialer(g, cfg.Resolver).dial,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            roots,
			NextProtos:         []string{"http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(maxIdle),
		},
		Protocols:              &http1,
		DisableCompression:     true, // answers are kept as they came
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxConnsPerHost:        cfg.MaxConnsPerHost,
		MaxIdleConnsPerHost:    cfg.MaxConnsPerHost,
		MaxIdleConns:           maxIdle,
		IdleConnTimeout:        cfg.IdleTimeout,
	}
	if cfg.Proxy != nil {
		t.Proxy = http.ProxyURL(cfg.Proxy) // never from the environment
		t.DialContext = (&proxyDialer{}).dial
		t.OnProxyConnectResponse = checkConnect
	}
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

// CloseIdle closes idle connections, for instance because the rules changed:
// addresses are judged when a connection is opened.
func (c *Client) CloseIdle() { c.transport.CloseIdleConnections() }

// Request is one attempt. Body and the values of Header must never be changed,
// not even after Send has returned: an early answer ends the attempt while the
// request may still be on its way out.
type Request struct {
	URL  string
	Body []byte // sent as it is
	// Header is complete but for User-Agent and Accept-Encoding, which the
	// client sets. Names that belong to the connection are not sent.
	Header http.Header

	Connect time.Duration // for DNS, TCP and TLS; 0: 10 s
	Total   time.Duration // for everything, the answer's body included; 0: 30 s

	// FollowRedirects follows 307 and 308 for at most MaxHops hops. When the
	// host changes, the headers named in DropOnHostChange stay behind.
	FollowRedirects  bool
	MaxHops          int
	DropOnHostChange []string
}

// Send makes one attempt. It sends the request at most once per hop; a request
// of which no byte was written may move to another connection. When ctx ends,
// the reason is Interrupted.
func (c *Client) Send(ctx context.Context, req *Request) Result {
	start := time.Now()
	deadline := start.Add(cmp.Or(req.Total, 30*time.Second))
	own, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()

	h := hop{client: c, req: req, caller: ctx, own: own, deadline: deadline, header: c.header(req.Header)}
	res := h.follow()
	res.Latency = time.Since(start)
	if res.Reason == hook.BlockedAddress {
		res.hide()
	}
	return res
}

// hop is one request of a Send; redirects make several.
type hop struct {
	client      *Client
	req         *Request
	caller, own context.Context
	deadline    time.Time
	url         *url.URL
	header      http.Header
}

// try sends the request on one connection after the other until it was
// written, and returns the answer or the failure.
func (h *hop) try() Result {
	for tries := 1; ; tries++ {
		a := &attempt{
			connect:  cmp.Or(h.req.Connect, 10*time.Second),
			deadline: h.deadline,
			begin:    time.Now(),
		}
		resp, err := h.client.transport.RoundTrip(h.request(a.bind(h.own))) //nolint:bodyclose // h.result closes it
		if err != nil && tries < maxTries && h.own.Err() == nil && a.wroteNothing() {
			a.end(h.client.idle)
			continue
		}
		res := h.result(a, resp, err)
		a.end(h.client.idle)
		res.Phases = a.phases()
		res.RemoteAddr = a.remoteAddr()
		return res
	}
}

func (h *hop) result(a *attempt, resp *http.Response, err error) Result {
	if err != nil {
		return failed(a.explain(h.caller, h.own, err, h.client.proxied))
	}
	return h.client.answer(resp)
}

// request builds the request. GetBody is set for the transport, which needs it
// to move an unwritten request to another connection.
func (h *hop) request(ctx context.Context) *http.Request {
	r := (&http.Request{
		Method:        http.MethodPost,
		URL:           h.url,
		Host:          h.url.Host,
		Header:        h.header,
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

// header copies the caller's headers and leaves out what belongs to the
// connection. Idempotency keys are among them: the transport would take them
// for leave to send a request twice.
func (c *Client) header(given http.Header) http.Header {
	out := make(http.Header, len(given)+2)
	for name, values := range given {
		switch canonical := http.CanonicalHeaderKey(name); canonical {
		case "Idempotency-Key", "X-Idempotency-Key",
			"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Te",
			"Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Accept-Encoding":
		default:
			if !strings.HasPrefix(canonical, "Proxy-") {
				out[name] = values
			}
		}
	}
	out["User-Agent"] = c.userAgent
	out["Accept-Encoding"] = identity
	return out
}
