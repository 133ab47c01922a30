package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

func TestSendCarriesTheRequestAsGiven(t *testing.T) {
	t.Parallel()
	type seen struct {
		req  *http.Request
		body []byte
	}
	got := make(chan seen, 1)
	e := newEvil(t, func(c net.Conn) {
		req, body, err := readRequest(bufio.NewReader(c))
		if err == nil {
			got <- seen{req, body}
			_, _ = io.WriteString(c, "HTTP/1.1 202 Accepted\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 5\r\n\r\nhello")
		}
	})
	body := []byte("{\"text\":\"h\xc3\xa9\"}\n")
	res := send(t, newClient(t, func(c *egress.Config) { c.UserAgent = "Breakwater/1.2" }), e.url()+"?a=1", func(r *egress.Request) {
		r.Body = body
		r.Header = []egress.Field{
			{"Content-Type", "application/cloudevents+json"},
			{"X-Two", "a"},
			{"X-Two", "b"},
			{"webhook-id", "evt_1"},
			{"user-agent", "mine"},
			{"User-Agent", "mine"},
			{"Accept-Encoding", "gzip"},
			{"Idempotency-Key", "k"},
			{"x-idempotency-key", "k"},
			{"Transfer-Encoding", "chunked"},
			{"Host", "other.test"},
			{"Expect", "100-continue"},
			{"proxy-connection", "keep-alive"},
			{"Proxy-Connection", "close"},
		}
	})
	wantStatus(t, res, 202)
	if string(res.Body) != "hello" || res.Truncated || !slices.Equal(res.Header["X-A"], []string{"1", "2"}) {
		t.Errorf("answer = %q truncated %v header %v", res.Body, res.Truncated, res.Header)
	}
	if res.RemoteAddr != e.addr.String() || res.Latency <= 0 || res.Phases.Connect <= 0 || res.Phases.FirstByte <= 0 {
		t.Errorf("remote %q latency %v phases %+v", res.RemoteAddr, res.Latency, res.Phases)
	}
	s := <-got
	if s.req.Method != http.MethodPost || s.req.RequestURI != "/hook?a=1" || s.req.Host != e.addr.String() ||
		s.req.Proto != "HTTP/1.1" || s.req.ContentLength != int64(len(body)) || !bytes.Equal(s.body, body) {
		t.Errorf("request = %s %s %s host %s length %d body %q", s.req.Method, s.req.RequestURI, s.req.Proto, s.req.Host, s.req.ContentLength, s.body)
	}
	want := http.Header{
		"Accept-Encoding": {"identity"},
		"Content-Length":  {strconv.Itoa(len(body))},
		"Content-Type":    {"application/cloudevents+json"},
		"User-Agent":      {"Breakwater/1.2"},
		"Webhook-Id":      {"evt_1"},
		"X-Two":           {"a", "b"},
	}
	if diff := cmp.Diff(want, s.req.Header); diff != "" {
		t.Errorf("headers on the wire (-want +got):\n%s", diff)
	}
}

func TestSendEmptyBodyHasALength(t *testing.T) {
	t.Parallel()
	head := make(chan string, 1)
	e := newEvil(t, func(c net.Conn) {
		buf := make([]byte, 4096)
		n, _ := c.Read(buf)
		head <- string(buf[:n])
		_, _ = io.WriteString(c, ok200)
	})
	wantStatus(t, send(t, newClient(t, nil), e.url(), func(r *egress.Request) { r.Body = nil }), 200)
	if got := <-head; !strings.Contains(got, "\r\nContent-Length: 0\r\n") || strings.Contains(got, "chunked") {
		t.Errorf("request %q has no length of 0", got)
	}
}

func TestConnectionIsReused(t *testing.T) {
	t.Parallel()
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"5000\r\n" + strings.Repeat("x", 0x5000) + "\r\n0\r\n\r\n"
	for name, answer := range map[string]string{
		"no body":              "HTTP/1.1 204 No Content\r\n\r\n",
		"short body":           ok200,
		"more than is kept":    fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", 60<<10, strings.Repeat("x", 60<<10)),
		"all that may be read": fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", 64<<10, strings.Repeat("x", 64<<10)),
		"chunked":              chunked,
		"failure":              "HTTP/1.1 503 Unavailable\r\nContent-Length: 4\r\n\r\nbusy",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, c := newEvil(t, answering(answer)), newClient(t, nil)
			for range 5 {
				if res := send(t, c, e.url(), nil); res.Status == 0 {
					t.Fatal(res.Err)
				}
			}
			if n := e.conns.Load(); n != 1 {
				t.Errorf("5 requests used %d connections, want 1", n)
			}
		})
	}
}

func TestCloseIdle(t *testing.T) {
	t.Parallel()
	e, c := newEvil(t, answering(ok200)), newClient(t, nil)
	for range 2 {
		wantStatus(t, send(t, c, e.url(), nil), 200)
		c.CloseIdle()
	}
	if n := e.conns.Load(); n != 2 {
		t.Errorf("used %d connections, want a new one after CloseIdle", n)
	}
}

func TestReusedConnectionHasNoConnectPhases(t *testing.T) {
	t.Parallel()
	e := newEvil(t, answering(ok200))
	c := newClient(t, func(cfg *egress.Config) { cfg.Resolver = resolveTo("127.0.0.1") })
	target := fmt.Sprintf("http://name.test:%d/", e.addr.Port())
	first, second := send(t, c, target, nil), send(t, c, target, nil)
	if first.Phases.DNS <= 0 || first.Phases.Connect <= 0 {
		t.Errorf("phases of a new connection = %+v", first.Phases)
	}
	if p := second.Phases; p.DNS != 0 || p.Connect != 0 || p.FirstByte <= 0 {
		t.Errorf("phases on a reused connection = %+v", p)
	}
}

// A deadline that stayed on the connection would end the second request.
func TestDeadlineOfAnAttemptEndsWithIt(t *testing.T) {
	t.Parallel()
	e, c := newEvil(t, answering(ok200)), newClient(t, nil)
	short := func(r *egress.Request) { r.Connect, r.Total = ample, ample }
	wantStatus(t, send(t, c, e.url(), short), 200)
	time.Sleep(ample + 500*time.Millisecond) // beyond both limits and the grace
	wantStatus(t, send(t, c, e.url(), nil), 200)
	if n := e.conns.Load(); n != 1 {
		t.Errorf("used %d connections, want 1: the idle one died of an old deadline", n)
	}
}

// A caller whose context ends takes no connection with it that others could use.
func TestConnectionsOutliveContexts(t *testing.T) {
	t.Parallel()
	e, c := newEvil(t, answering(ok200)), newClient(t, nil)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		wantStatus(t, c.Send(ctx, &egress.Request{URL: e.url()}), 200)
		cancel()
	}
	if n := e.conns.Load(); n != 1 {
		t.Errorf("20 requests used %d connections, want 1", n)
	}
}

func TestInterruptedOnAReusedConnection(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	e := newEvil(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		if _, _, err := readRequest(r); err == nil {
			_, _ = io.WriteString(c, ok200)
		}
		if _, _, err := readRequest(r); err == nil {
			close(asked)
		}
		silent(c)
	})
	c := newClient(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wantStatus(t, c.Send(ctx, &egress.Request{URL: e.url()}), 200)
	go func() {
		<-asked
		cancel()
	}()
	res := c.Send(ctx, &egress.Request{URL: e.url()})
	wantReason(t, res, hook.Interrupted)
	if n := e.conns.Load(); n != 1 || res.Latency > soon {
		t.Errorf("ended after %v on %d connections", res.Latency, n)
	}
}

func TestInterruptedByTheCaller(t *testing.T) {
	t.Parallel()
	lost := errors.New("lease lost")
	hole := newBlackHole(t)
	waits := newEvil(t, silent)
	for name, target := range map[string]string{
		"while connecting": "http://" + hole.String() + "/",
		"while waiting":    waits.url(),
		"while resolving":  "http://slow.test/",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, func(cfg *egress.Config) {
				cfg.Resolver = resolver(func(ctx context.Context, _ string) ([]netip.Addr, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				})
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(100*time.Millisecond, func() { cancel(lost) })
			start := time.Now()
			res := c.Send(ctx, &egress.Request{URL: target, Connect: longAfter, Total: longAfter})
			wantReason(t, res, hook.Interrupted)
			if took := time.Since(start); took > soon {
				t.Errorf("took %v to notice", took)
			}
		})
	}
}

func TestTimeoutsByStage(t *testing.T) {
	t.Parallel()
	hole := newBlackHole(t)
	mute := newEvil(t, silent)
	never := resolver(func(ctx context.Context, host string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, &net.DNSError{Err: "timeout", Name: host, IsTimeout: true}
	})
	for name, tc := range map[string]struct {
		url            string
		connect, total time.Duration
		want           hook.Reason
	}{
		"lookup":                     {"http://slow.test/", 200 * time.Millisecond, longAfter, hook.DNSError},
		"lookup, total first":        {"http://slow.test/", longAfter, 200 * time.Millisecond, hook.DNSError},
		"connect":                    {"http://" + hole.String(), 200 * time.Millisecond, longAfter, hook.ConnectTimeout},
		"connect, total first":       {"http://" + hole.String(), longAfter, 200 * time.Millisecond, hook.ConnectTimeout},
		"handshake":                  {"https://" + mute.addr.String(), ample, longAfter, hook.TLSHandshake},
		"handshake, total first":     {"https://" + mute.addr.String(), longAfter, ample, hook.TLSHandshake},
		"answer":                     {mute.url(), longAfter, ample, hook.Timeout},
		"answer, connect is no part": {mute.url(), ample, 2 * ample, hook.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, func(cfg *egress.Config) { cfg.Resolver = never })
			start := time.Now()
			res := send(t, c, tc.url, func(r *egress.Request) { r.Connect, r.Total = tc.connect, tc.total })
			wantReason(t, res, tc.want)
			if took := time.Since(start); took > min(tc.connect, tc.total)+soon {
				t.Errorf("took %v with limits %v and %v", took, tc.connect, tc.total)
			}
		})
	}
}

func TestNextAddressIsTried(t *testing.T) {
	t.Parallel()
	e := newEvilAt(t, "127.0.0.3:0", answering(ok200))
	c := newClient(t, func(cfg *egress.Config) { cfg.Resolver = resolveTo("127.0.0.2", "127.0.0.3") })
	res := send(t, c, fmt.Sprintf("http://two.test:%d/", e.addr.Port()), nil)
	wantStatus(t, res, 200)
	if res.RemoteAddr != e.addr.String() {
		t.Errorf("remote = %s, want %v", res.RemoteAddr, e.addr)
	}
}

func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	res := send(t, newClient(t, nil), "http://"+newClosed(t).String()+"/", nil)
	wantReason(t, res, hook.ConnectRefused)
	if strings.Contains(res.Text, "127.0.0.1") {
		t.Errorf("text %q shows the address", res.Text)
	}
}

func TestUnknownName(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]resolver{
		"no such host": noSuchHost,
		"no addresses": resolveTo(),
		"no suitable address": func(context.Context, string) ([]netip.Addr, error) {
			return nil, &net.AddrError{Err: "no suitable address found"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, func(cfg *egress.Config) { cfg.Resolver = r })
			wantReason(t, send(t, c, "http://gone.test/", nil), hook.DNSNXDomain)
		})
	}
}

// The transport reports a connection that the peer closed while it was idle as
// an error when it notices late. Nothing was written, so another connection is
// used; once a byte has left, the request is never repeated.
func TestOnlyUnwrittenRequestsMove(t *testing.T) {
	t.Parallel()
	closedIdle := errors.New("server closed idle connection")
	for name, tc := range map[string]struct {
		fresh     bool
		write     int
		failures  int
		wantTries int64
		want      hook.Reason
	}{
		"moves":             {failures: 1, wantTries: 2},
		"moves twice":       {failures: 2, wantTries: 3},
		"gives up":          {failures: 99, wantTries: 3, want: hook.ConnectReset},
		"a byte was sent":   {write: 1, failures: 99, wantTries: 1, want: hook.ConnectReset},
		"fresh":             {fresh: true, failures: 99, wantTries: 1, want: hook.ConnectReset},
		"no failure at all": {wantTries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int64
			c := newClient(t, nil)
			c.ReplaceTransport(func(r *http.Request) (*http.Response, error) {
				ours, theirs := net.Pipe()
				defer ours.Close()
				go silent(theirs)
				conn := egress.NewConn(ours)
				httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{Conn: conn, Reused: !tc.fresh})
				if _, err := conn.Write(make([]byte, tc.write)); err != nil {
					return nil, err
				}
				if tries.Add(1) <= int64(tc.failures) {
					return nil, closedIdle
				}
				return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
			})
			res := send(t, c, "http://name.test/", nil)
			wantReason(t, res, tc.want)
			if got := tries.Load(); got != tc.wantTries {
				t.Errorf("sent %d times, want %d", got, tc.wantTries)
			}
		})
	}
}

func TestNewRefusesBadConfig(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]egress.Config{
		"keeps too much":     {ResponseKeep: 64<<10 + 1},
		"user agent":         {UserAgent: "a\r\nB: c"},
		"proxy scheme":       {Proxy: &url.URL{Scheme: "ftp", Host: "proxy"}},
		"proxy host":         {Proxy: &url.URL{Scheme: "http"}},
		"CA file":            {CAFile: "/does/not/exist"},
		"zero prefix":        {AllowCIDR: []netip.Prefix{{}}},
		"mixed family":       {DenyCIDR: []netip.Prefix{netip.MustParsePrefix("::ffff:0:0/90")}},
		"negative idle time": {IdleTimeout: -1},
		"negative conns":     {MaxConnsPerHost: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := egress.New(cfg); err == nil {
				t.Error("New accepted it")
			}
		})
	}
}
