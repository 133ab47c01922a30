package egress_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

func tlsConfig(cert tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{cert}}
}

func TestBadCertificatesAreRefused(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t), newAuthority(t)
	for name, tc := range map[string]struct {
		cert tls.Certificate
		text string
	}{
		"expired": {ca.issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "expired"},
		"not yet": {ca.issue(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), "not valid yet"},
		"wrong name": {ca.issue(t, func(c *x509.Certificate) {
			c.DNSNames, c.IPAddresses = []string{"other.test"}, nil
		}), "another name"},
		"unknown authority": {stranger.issue(t, nil), "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var bytesRead atomic.Int64
			_, url := newEvilTLS(t, tlsConfig(tc.cert), func(c net.Conn) {
				n, _ := io.Copy(io.Discard, c)
				bytesRead.Add(n)
			})
			c := newClient(t, func(cfg *egress.Config) { cfg.CAFile = ca.file })
			res := send(t, c, url, nil)
			wantReason(t, res, hook.TLSCertificate)
			if !strings.Contains(res.Text, tc.text) || strings.Contains(res.Text, "127.0.0.1") {
				t.Errorf("text = %q, want %q in it and no address", res.Text, tc.text)
			}
			if n := bytesRead.Load(); n != 0 {
				t.Errorf("the server saw %d bytes of the request", n)
			}
		})
	}
}

func TestFailedHandshakesHaveTheirReason(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert := ca.issue(t, nil)
	old := tlsConfig(cert)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	foreign := tlsConfig(cert)
	foreign.NextProtos = []string{"imap"}
	wantsCert := tlsConfig(cert)
	wantsCert.ClientAuth = tls.RequireAnyClientCert
	_, oldURL := newEvilTLS(t, old, silent)
	_, foreignURL := newEvilTLS(t, foreign, silent)
	_, certURL := newEvilTLS(t, wantsCert, silent)
	for name, url := range map[string]string{
		"old version":        oldURL,
		"other protocol":     foreignURL,
		"client certificate": certURL,
		"plain text":         "https://" + newEvil(t, func(c net.Conn) { _, _ = io.WriteString(c, ok200); silent(c) }).addr.String(),
		"closed":             "https://" + newEvil(t, afterHello(func(c net.Conn) { c.Close() })).addr.String(),
		"reset":              "https://" + newEvil(t, afterHello(reset)).addr.String(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, func(cfg *egress.Config) { cfg.CAFile = ca.file })
			wantReason(t, send(t, c, url, nil), hook.TLSHandshake)
		})
	}
}

// afterHello waits for the first bytes of the handshake.
func afterHello(then func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		then(c)
	}
}

func TestGoodCertificateIsAccepted(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	e, url := newEvilTLS(t, tlsConfig(ca.issue(t, nil)), answering(ok200))
	c := newClient(t, func(cfg *egress.Config) {
		cfg.CAFile, cfg.Resolver = ca.file, resolveTo("127.0.0.1")
	})
	for range 3 {
		wantStatus(t, send(t, c, url, nil), 200)
	}
	if n := e.conns.Load(); n != 1 {
		t.Errorf("3 requests used %d connections, want 1", n)
	}
	res := send(t, c, fmt.Sprintf("https://good.test:%d/", e.addr.Port()), nil)
	wantStatus(t, res, 200)
	if p := res.Phases; p.DNS <= 0 || p.Connect <= 0 || p.TLS <= 0 || p.FirstByte <= 0 {
		t.Errorf("phases = %+v", p)
	}
}
