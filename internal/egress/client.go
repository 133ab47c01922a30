package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const (
	maxHeaderBytes = 64 << 10
	maxBodyBytes   = 64 << 10
	// maxIdle bounds the idle connections of all hosts together, where the process
	// may have many descriptors.
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

	// Interfaces returns the addresses of this machine, which are refused unless
	// AllowCIDR has them. nil: net.InterfaceAddrs.
	Interfaces func() ([]net.Addr, error)

	// Proxy is an HTTP proxy for everything. It resolves the names, so it has
	// to be the guard: here only ports and literal addresses are judged then.
	Proxy  *url.URL
	CAFile string // PEM, trusted besides the system's authorities

	UserAgent       string        // empty: Breakwater
	ResponseKeep    int           // bytes of a body kept; 0: 16 KiB, negative: none, at most 64 KiB
	MaxConnsPerHost int           // 0: 200
	IdleTimeout     time.Duration // 0: 90 s
	Descriptors     uint64        // that the process may have; 0: not known

	Resolver Resolver // nil: net.DefaultResolver
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	guard        *guard
	carrier      carrier
	proxied      bool
	requireHTTPS bool
	keep         int

	known      sync.Map // URL as given → *url.URL, never changed
	knownCount atomic.Int64
}

// carrier takes a request out on one connection and brings the answer back. It
// reports to the attempt what becomes of it and says with an error that there
// was no answer. There are two: lean for everything that is sent directly, and
// standard, which speaks to proxies.
type carrier interface {
	carry(h *hop, a *attempt) (Result, error)
	closeIdle()
}

// New checks cfg, fills in defaults, and opens no connection.
func New(cfg Config) (*Client, error) {
	cfg.fill()
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
	c := &Client{
		guard:        g,
		proxied:      cfg.Proxy != nil,
		requireHTTPS: cfg.RequireHTTPS,
		keep:         max(cfg.ResponseKeep, 0),
	}
	if cfg.Proxy != nil {
		c.carrier = newStandard(cfg, roots, dialProxy)
	} else {
		c.carrier = newLean(cfg, roots, newDialer(g, cfg.Resolver))
	}
	return c, nil
}

// fill puts defaults in place of what is not set.
func (cfg *Config) fill() {
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "Breakwater")
	cfg.ResponseKeep = cmp.Or(cfg.ResponseKeep, 16<<10)
	cfg.MaxConnsPerHost = cmp.Or(cfg.MaxConnsPerHost, 200)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 90*time.Second)
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
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

// tlsConfig says whom we trust. Both carriers speak HTTP/1.1 and nothing else.
func tlsConfig(roots *x509.CertPool) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            roots,
		NextProtos:         []string{"http/1.1"},
		ClientSessionCache: tls.NewLRUClientSessionCache(maxIdle),
		// Small records show a page sooner. A request is used as a whole.
		DynamicRecordSizingDisabled: true,
	}
}

// CloseIdle closes idle connections, for instance because the rules changed:
// addresses are judged when a connection is opened.
func (c *Client) CloseIdle() { c.carrier.closeIdle() }

// Request is one attempt. Body must never be changed,
// not even after Send has returned: an early answer ends the attempt while the
// request may still be on its way out.
type Request struct {
	// Tenant is whose request it is. Tenants share no connection, and the
	// connections to a host are shared between them.
	Tenant hook.ID
	URL    string
	Body   []byte // sent as it is
	// Header is complete but for User-Agent and Accept-Encoding, which the client
	// sets. Names that belong to the connection are not sent.
	Header []Field

	Connect time.Duration // for DNS, TCP and TLS; 0: 10 s
	Total   time.Duration // for everything, the answer's body included; 0: 30 s

	// FollowRedirects follows 307 and 308 for at most MaxHops hops. When the
	// host changes, the headers named in DropOnHostChange stay behind.
	FollowRedirects  bool
	MaxHops          int
	DropOnHostChange []string

	// MayStart is asked when a connection is ready, before the first byte of each
	// request: waiting for one and opening it take time. If it says no, nothing is
	// written and the reason is Interrupted. nil: always.
	MayStart func() bool
}

// errCalledOff is when MayStart said no.
var errCalledOff error = &reasonError{hook.Interrupted, errors.New("called off before the request")}

func (r *Request) mayStart() bool { return r.MayStart == nil || r.MayStart() }

// Field is a header with one value.
type Field struct{ Name, Value string }

// Send makes one attempt. It sends the request at most once per hop; a request
// of which no byte was written may move to another connection. When ctx ends,
// the reason is Interrupted.
func (c *Client) Send(ctx context.Context, req *Request) Result {
	start := time.Now()
	total := cmp.Or(req.Total, 30*time.Second)
	h := hop{client: c, req: req, caller: ctx, start: start, deadline: start.Add(total), patience: total}
	res := h.follow()
	res.Latency, res.Waited = time.Since(h.start), h.patience < total
	if res.Reason == hook.BlockedAddress {
		res.hide()
	}
	return res
}

// hop is one request of a Send; redirects make several.
type hop struct {
	client   *Client
	req      *Request
	caller   context.Context
	start    time.Time
	deadline time.Time
	patience time.Duration // how long it may still wait for connections
	url      *url.URL
	dropped  []string // names of headers that stay behind
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
		res, err := h.client.carrier.carry(h, a)
		if err != nil && tries < maxTries && !h.over() && a.wroteNothing() && !errors.Is(err, errCalledOff) {
			continue
		}
		if err != nil {
			res = failed(a.explain(h, err))
		}
		res.Phases = a.phases()
		if a.conn != nil {
			res.RemoteAddr = a.conn.remote
		}
		return res
	}
}

// over reports whether the caller or the clock has ended the attempt.
func (h *hop) over() bool { return h.caller.Err() != nil || h.late() }

// waited takes off the clock what the request waited for a connection because
// others of ours had them all: the destination knows nothing of it.
func (h *hop) waited(d time.Duration) {
	h.start, h.deadline, h.patience = h.start.Add(d), h.deadline.Add(d), h.patience-d
}

func (h *hop) late() bool { return !time.Now().Before(h.deadline) }

// carries reports whether a header of the caller is sent: not what belongs to
// the connection, and not what stayed behind at another host. Idempotency keys
// are left out because the standard transport would take them for leave to
// send a request twice.
func (h *hop) carries(name string) bool {
	switch canonical := http.CanonicalHeaderKey(name); canonical {
	case "Idempotency-Key", "X-Idempotency-Key",
		"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Te",
		"Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Accept-Encoding":
		return false
	default:
		return !strings.HasPrefix(canonical, "Proxy-") &&
			!slices.ContainsFunc(h.dropped, func(n string) bool { return strings.EqualFold(n, name) })
	}
}
