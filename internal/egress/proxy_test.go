package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestProxyVariablesAreIgnored sets variables of the process, so it runs alone.
func TestProxyVariablesAreIgnored(t *testing.T) {
	canary := newCanary(t, "127.0.0.1:0")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, canary.url())
	}
	e := newEvil(t, answering(ok200))
	c := newClient(t, func(cfg *egress.Config) { cfg.Resolver = resolveTo("127.0.0.1") })
	wantStatus(t, send(t, c, fmt.Sprintf("http://name.test:%d/", e.addr.Port()), nil), 200)
	wantReason(t, send(t, c, fmt.Sprintf("https://name.test:%d/", e.addr.Port()), nil), hook.TLSHandshake)
}

func proxiedClient(t *testing.T, proxy *evil, change func(*egress.Config)) *egress.Client {
	t.Helper()
	return newClient(t, func(cfg *egress.Config) {
		cfg.AllowCIDR = nil // the proxy's own address is the operator's choice
		cfg.Proxy = &url.URL{Scheme: "http", Host: proxy.addr.String(), User: url.UserPassword("u", "p")}
		if change != nil {
			change(cfg)
		}
	})
}

func TestProxyCarriesPlainRequests(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 1)
	proxy := newEvil(t, func(c net.Conn) {
		req, _, err := readRequest(bufio.NewReader(c))
		if err == nil {
			lines <- req.RequestURI + " " + req.Header.Get("Proxy-Authorization")
			_, _ = io.WriteString(c, ok200)
		}
	})
	wantStatus(t, send(t, proxiedClient(t, proxy, nil), "http://far.test/x", nil), 200)
	if got := <-lines; got != "http://far.test/x Basic dTpw" {
		t.Errorf("proxy saw %q", got)
	}
}

func TestProxyTunnelsTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	e, _ := newEvilTLS(t, tlsConfig(ca.issue(t, nil)), answering(ok200))
	proxy := newEvil(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		if req, _, err := readRequest(r); err != nil || req.RequestURI != "good.test:443" {
			return
		}
		to, err := net.Dial("tcp", e.addr.String())
		if err != nil {
			return
		}
		defer to.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 200 Connected\r\n\r\n")
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(to, r); to.Close() })
		both.Go(func() { _, _ = io.Copy(c, to); c.Close() })
		both.Wait()
	})
	c := proxiedClient(t, proxy, func(cfg *egress.Config) { cfg.CAFile = ca.file })
	for range 2 {
		wantStatus(t, send(t, c, "https://good.test/", nil), 200)
	}
	if n := proxy.conns.Load(); n != 1 {
		t.Errorf("2 requests used %d tunnels, want 1", n)
	}
}

func TestProxyFailures(t *testing.T) {
	t.Parallel()
	down := &evil{addr: newClosed(t)}
	answer := func(status int) *evil {
		return newEvil(t, answeringOnce(fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n", status)))
	}
	for name, tc := range map[string]struct {
		proxy *evil
		url   string
		want  hook.Reason
	}{
		"down":                         {down, "http://far.test/", hook.LocalError},
		"down, TLS":                    {down, "https://far.test/", hook.LocalError},
		"wants authentication":         {answer(407), "http://far.test/", hook.LocalError},
		"wants authentication, TLS":    {answer(407), "https://far.test/", hook.LocalError},
		"refuses the destination":      {answer(403), "https://far.test/", hook.BlockedAddress},
		"cannot reach the destination": {answer(502), "https://far.test/", hook.Unreachable},
		"waited for the destination":   {answer(504), "https://far.test/", hook.ConnectTimeout},
		"is broken":                    {answer(500), "https://far.test/", hook.LocalError},
		"does not answer":              {newEvil(t, silent), "https://far.test/", hook.ConnectTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := send(t, proxiedClient(t, tc.proxy, nil), tc.url, func(r *egress.Request) { r.Connect = ample })
			wantReason(t, res, tc.want)
		})
	}
}

// The proxy resolves names, but what can be judged without it still is.
func TestProxyDoesNotOpenLiteralAddresses(t *testing.T) {
	t.Parallel()
	canary := newCanary(t, "127.0.0.1:0")
	c := proxiedClient(t, canary, nil)
	for _, target := range []string{"http://169.254.169.254/", "https://10.0.0.1/", "http://localhost/", "http://far.test:22/", "http://[::1]/"} {
		wantReason(t, send(t, c, target, nil), hook.BlockedAddress)
	}
}
