package egress_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// standard runs the tests with the carrier that serves proxies; see
// TestStandardCarrierToo.
var standard = flag.Bool("standard", false, "send with the transport of net/http")

// soon is what a busy machine may add to any limit before a test complains. It is
// far below the limits that a test does not wait out.
const soon, longAfter = time.Minute, 5 * time.Minute

// ample is a limit that a test waits out after something else that must happen
// within it, on a busy machine too: a connection, a handshake.
const ample = 3 * time.Second

var loopbackNet = netip.MustParsePrefix("127.0.0.0/8")

// newClient returns a client that may reach loopback listeners.
func newClient(t testing.TB, change func(*egress.Config)) *egress.Client {
	t.Helper()
	cfg := egress.Config{AllowCIDR: []netip.Prefix{loopbackNet}, Resolver: noSuchHost}
	if change != nil {
		change(&cfg)
	}
	return mustNew(t, cfg)
}

func mustNew(t testing.TB, cfg egress.Config) *egress.Client {
	t.Helper()
	open := egress.New
	if *standard {
		open = egress.NewStandard
	}
	c, err := open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

// send posts a small body with limits that suit a test.
func send(t testing.TB, c *egress.Client, url string, change func(*egress.Request)) egress.Result {
	t.Helper()
	req := &egress.Request{
		URL:     url,
		Body:    []byte(`{"n":1}`),
		Header:  []egress.Field{{"Content-Type", "application/json"}},
		Connect: longAfter,
		Total:   longAfter,
	}
	if change != nil {
		change(req)
	}
	return c.Send(t.Context(), req)
}

func wantReason(t testing.TB, res egress.Result, want hook.Reason) {
	t.Helper()
	if res.Reason != want {
		t.Fatalf("reason = %v (status %d, err %v), want %v", res.Reason, res.Status, res.Err, want)
	}
	if want != 0 && (res.Err == nil || res.Text == "") {
		t.Errorf("reason %v comes with err %v and text %q, want both", want, res.Err, res.Text)
	}
}

func wantStatus(t testing.TB, res egress.Result, want int) {
	t.Helper()
	if res.Status != want || res.Reason != 0 || res.Err != nil {
		t.Fatalf("status = %d (reason %v, err %v), want %d without a failure", res.Status, res.Reason, res.Err, want)
	}
}

// evil is a scripted TCP server on a loopback address.
type evil struct {
	addr  netip.AddrPort
	conns atomic.Int64 // accepted so far
	open  atomic.Int64 // being served now
}

func (e *evil) url() string { return "http://" + e.addr.String() + "/hook" }

// wantAllClosed waits until the server has closed every connection.
func (e *evil) wantAllClosed(t testing.TB) {
	t.Helper()
	for start := time.Now(); e.open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Since(start) > soon {
			t.Fatalf("%d connections are left", e.open.Load())
		}
	}
}

// newEvil serves every connection with script, which must return when its
// connection is closed.
func newEvil(t testing.TB, script func(net.Conn)) *evil {
	t.Helper()
	return newEvilAt(t, "127.0.0.1:0", script)
}

func newEvilAt(t testing.TB, address string, script func(net.Conn)) *evil {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return serveEvil(t, l, script)
}

func serveEvil(t testing.TB, l net.Listener, script func(net.Conn)) *evil {
	t.Helper()
	e := &evil{addr: l.Addr().(*net.TCPAddr).AddrPort()}
	var (
		mu      sync.Mutex
		serving = map[net.Conn]bool{}
		done    sync.WaitGroup
	)
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.conns.Add(1)
			e.open.Add(1)
			mu.Lock()
			serving[c] = true
			mu.Unlock()
			done.Go(func() {
				defer func() {
					c.Close()
					e.open.Add(-1)
					mu.Lock()
					delete(serving, c)
					mu.Unlock()
				}()
				script(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range serving {
			c.Close()
		}
		mu.Unlock()
		done.Wait()
	})
	return e
}

// newCanary is a server that must never be reached.
func newCanary(t testing.TB, address string) *evil {
	t.Helper()
	e := newEvilAt(t, address, func(net.Conn) {})
	t.Cleanup(func() {
		if n := e.conns.Load(); n != 0 {
			t.Errorf("canary %v saw %d connections, want 0", e.addr, n)
		}
	})
	return e
}

// readRequest reads one whole request and returns its body.
func readRequest(r *bufio.Reader) (*http.Request, []byte, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(req.Body)
	return req, body, err
}

// answering reads requests and answers each with the same bytes.
func answering(answer string) func(net.Conn) {
	return func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			if _, _, err := readRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

// answeringOnce is answering for one request, and closes.
func answeringOnce(answer string) func(net.Conn) {
	return func(c net.Conn) {
		if _, _, err := readRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, answer)
		}
	}
}

// silent holds the connection until the other side closes it.
func silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// reset closes a connection so that the peer gets a reset.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// resolver is stub DNS.
type resolver func(ctx context.Context, host string) ([]netip.Addr, error)

func (r resolver) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	return r(ctx, host)
}

// resolveTo answers every name with the same addresses.
func resolveTo(addrs ...string) resolver {
	list := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		list[i] = netip.MustParseAddr(a)
	}
	return func(context.Context, string) ([]netip.Addr, error) { return list, nil }
}

// noSuchHost answers every name as a name server does for an unknown one.
var noSuchHost resolver = func(_ context.Context, host string) ([]netip.Addr, error) {
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// bound returns a socket and its address on loopback, which is nobody else's
// until the test ends.
func bound(t testing.TB) (int, netip.AddrPort) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(name.(*syscall.SockaddrInet4).Port))
}

// newClosed returns an address that refuses connections. It stays bound: a port
// that was given back may be that of another test's server at once.
func newClosed(t testing.TB) netip.AddrPort {
	t.Helper()
	_, addr := bound(t)
	return addr
}

// newBlackHole returns an address where the TCP handshake never ends: a
// listener that accepts nothing and whose queue is full.
func newBlackHole(t testing.TB) netip.AddrPort {
	t.Helper()
	fd, addr := bound(t)
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		c, err := net.DialTimeout("tcp", addr.String(), time.Second)
		if err != nil {
			return addr // the queue is full
		}
		t.Cleanup(func() { c.Close() })
	}
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		t.Fatal("a listen queue must be full here, or connecting in vain is not tested")
	}
	t.Skip("NOT TESTED: this system has no way to fill a listen queue")
	return addr
}

// authority signs server certificates in tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // PEM, for Config.CAFile
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test authority"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der := signCertificate(t, template, template, &a.key.PublicKey, a.key)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(a.file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// issue returns a certificate for 127.0.0.1 and the name good.test.
func (a *authority) issue(t testing.TB, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		DNSNames:     []string{"good.test"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(template)
	}
	key := newKey(t)
	return tls.Certificate{
		Certificate: [][]byte{signCertificate(t, template, a.cert, &key.PublicKey, a.key)},
		PrivateKey:  key,
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signCertificate(t testing.TB, template, parent *x509.Certificate, pub, priv any) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, priv)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// newEvilTLS serves TLS; its url has the https scheme.
func newEvilTLS(t testing.TB, cfg *tls.Config, script func(net.Conn)) (*evil, string) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	e := serveEvil(t, l, script)
	return e, "https://" + e.addr.String() + "/hook"
}

const ok200 = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
