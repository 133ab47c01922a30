package egress_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// drip writes text one byte at a time until the other side has gone.
func drip(c net.Conn, text string, every time.Duration) {
	for i := range len(text) {
		if _, err := c.Write([]byte{text[i]}); err != nil {
			return
		}
		time.Sleep(every)
	}
}

// flood writes part for ever, or until the other side has gone.
func flood(c net.Conn, part string) {
	block := []byte(strings.Repeat(part, max(1, 32<<10/len(part))))
	for {
		if _, err := c.Write(block); err != nil {
			return
		}
	}
}

// after reads a request and then does something evil.
func after(then func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		if _, _, err := readRequest(bufio.NewReader(c)); err == nil {
			then(c)
		}
	}
}

func TestSilenceAndDripEndAtTheDeadline(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(net.Conn){
		"silence":            silent,
		"drips a status":     after(func(c net.Conn) { drip(c, strings.Repeat("HTTP/1.1 200 OK", 9), 100*time.Millisecond) }),
		"drips a header":     after(func(c net.Conn) { drip(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("y", 500), 20*time.Millisecond) }),
		"stops after status": after(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"); silent(c) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEvil(t, script)
			start := time.Now()
			res := send(t, newClient(t, nil), e.url(), func(r *egress.Request) { r.Total = ample })
			wantReason(t, res, hook.Timeout)
			if took := time.Since(start); took < ample || took > ample+soon {
				t.Errorf("took %v with a limit of %v", took, ample)
			}
		})
	}
}

// These measure the memory of the whole process, so they do not run beside
// other tests.
func TestEndlessHeadersAreCut(t *testing.T) {
	var many strings.Builder
	for i := range 700 {
		fmt.Fprintf(&many, "X-%d: %s\r\n", i, strings.Repeat("v", 40))
	}
	for name, script := range map[string]func(net.Conn){
		"many headers": after(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			flood(c, many.String())
		}),
		"one header line": after(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
			flood(c, "v")
		}),
		"status line": after(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 ")
			flood(c, "v")
		}),
	} {
		t.Run(name, func(t *testing.T) {
			e, c := newEvil(t, script), newClient(t, nil)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if res := send(t, c, e.url(), nil); res.Reason != hook.Protocol {
						t.Errorf("reason = %v (%v), want protocol", res.Reason, res.Err)
					}
				})
			}
			all.Wait()
			runtime.ReadMemStats(&after)
			if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 1<<20 {
				t.Errorf("each attempt allocated %d bytes", each)
			}
		})
	}
}

func TestFloodOf1xxIsCut(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{
		"100": "HTTP/1.1 100 Continue\r\n\r\n",
		"102": "HTTP/1.1 102 Processing\r\n\r\n",
		"103": "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEvil(t, after(func(c net.Conn) { flood(c, part) }))
			wantReason(t, send(t, newClient(t, nil), e.url(), nil), hook.Protocol)
		})
	}
}

func TestOne1xxIsFine(t *testing.T) {
	t.Parallel()
	e := newEvil(t, answering("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"+ok200))
	wantStatus(t, send(t, newClient(t, nil), e.url(), nil), 200)
}

func TestEndlessBodiesAreCut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script func(net.Conn)
		kept   int
		fast   bool // ends before the deadline
	}{
		"endless chunks": {after(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			flood(c, "400\r\n"+strings.Repeat("x", 0x400)+"\r\n")
		}), 16 << 10, true},
		"until close, never closed": {after(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			flood(c, "x")
		}), 16 << 10, true},
		"a terabyte announced": {after(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n")
			flood(c, "x")
		}), 16 << 10, true},
		"dripping": {after(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc")
			drip(c, strings.Repeat("x", 900), 50*time.Millisecond)
		}), 0, false},
		"stalled": {after(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc")
			silent(c)
		}), 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEvil(t, tc.script)
			start := time.Now()
			res := send(t, newClient(t, nil), e.url(), func(r *egress.Request) {
				if !tc.fast {
					r.Total = ample
				}
			})
			took := time.Since(start)
			wantStatus(t, res, 200)
			if !res.Truncated || (tc.kept > 0 && len(res.Body) != tc.kept) {
				t.Errorf("kept %d bytes, truncated %v, want %d", len(res.Body), res.Truncated, tc.kept)
			}
			if took > ample+2*soon {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestKeptBodyIsConfigured(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789abcdef", 2<<10) // 32 KiB
	e := newEvil(t, answering(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)))
	for keep, want := range map[int]int{-1: 0, 0: 16 << 10, 5: 5, 32 << 10: 32 << 10, 64 << 10: 32 << 10} {
		res := send(t, newClient(t, func(c *egress.Config) { c.ResponseKeep = keep }), e.url(), nil)
		wantStatus(t, res, 200)
		if string(res.Body) != body[:want] || res.Truncated != (want < len(body)) {
			t.Errorf("keep %d: kept %d bytes, truncated %v, want %d", keep, len(res.Body), res.Truncated, want)
		}
	}
}

func TestGzipIsNotInflated(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 2 {
		_, _ = z.Write(zeros)
	}
	z.Close()
	e := newEvil(t, answering(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", bomb.Len(), bomb.String())))
	res := send(t, newClient(t, nil), e.url(), nil)
	wantStatus(t, res, 200)
	if !bytes.HasPrefix(bomb.Bytes(), res.Body) || len(res.Body) == 0 || res.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("kept %d bytes that are not as they came", len(res.Body))
	}
}

func TestSwitchingProtocolsIsAFailure(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"with upgrade":    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"without upgrade": "HTTP/1.1 101 Switching Protocols\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closed := make(chan time.Time, 1)
			e := newEvil(t, after(func(c net.Conn) {
				_, _ = io.WriteString(c, head)
				silent(c)
				closed <- time.Now()
			}))
			start := time.Now()
			res := send(t, newClient(t, nil), e.url(), nil)
			wantReason(t, res, hook.Protocol)
			if res.Status != 101 || len(res.Body) != 0 || time.Since(start) > soon {
				t.Errorf("status %d, %d bytes after %v", res.Status, len(res.Body), time.Since(start))
			}
			select {
			case <-closed:
			case <-time.After(soon):
				t.Error("the connection was left open")
			}
		})
	}
}

func TestMalformedAnswersAreProtocolErrors(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"garbage":                "\x00\x01\x02garbage\r\n\r\n",
		"HTTP/0.9":               "<html>hello</html>",
		"SSH":                    "SSH-2.0-OpenSSH_9.2\r\n",
		"status with letters":    "HTTP/1.1 2xx OK\r\n\r\n",
		"negative status":        "HTTP/1.1 -20 OK\r\n\r\n",
		"short status":           "HTTP/1.1 20\r\n\r\n",
		"bad length":             "HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\n",
		"negative length":        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
		"two lengths":            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
		"header without a colon": "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
		"unknown coding":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/2 preface":         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEvil(t, answeringOnce(answer))
			res := send(t, newClient(t, nil), e.url(), nil)
			wantReason(t, res, hook.Protocol)
			if res.Status != 0 || e.conns.Load() != 1 {
				t.Errorf("status %d after %d connections, want none after 1", res.Status, e.conns.Load())
			}
		})
	}
}

func TestStatusOutOfRangeIsAProtocolError(t *testing.T) {
	t.Parallel()
	for _, status := range []int{0, 1, 99, 600, 999} {
		e := newEvil(t, answeringOnce(fmt.Sprintf("HTTP/1.1 %03d Odd\r\nContent-Length: 0\r\n\r\n", status)))
		res := send(t, newClient(t, nil), e.url(), nil)
		wantReason(t, res, hook.Protocol)
		if res.Status != status {
			t.Errorf("status = %d, want %d", res.Status, status)
		}
	}
}

func TestConnectionBrokenBeforeTheAnswerIsAReset(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(net.Conn){
		"reset at once":           reset,
		"reset after the request": after(reset),
		"closed at once":          func(c net.Conn) { c.Close() },
		"closed after request":    after(func(c net.Conn) { c.Close() }),
		"closed in the headers":   answeringOnce("HTTP/1.1 200 OK\r\nX-A: 1\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEvil(t, script)
			wantReason(t, send(t, newClient(t, nil), e.url(), nil), hook.ConnectReset)
			if n := e.conns.Load(); n != 1 {
				t.Errorf("%d connections, want 1: the request was repeated", n)
			}
		})
	}
}

func TestStatusCountsThoughTheBodyBreaks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		head string
		end  func(net.Conn)
	}{
		"reset in the body":   {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", reset},
		"closed in the body":  {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", func(c net.Conn) { c.Close() }},
		"chunk cut off":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc", reset},
		"chunk is nonsense":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", reset},
		"nothing of the body": {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", reset},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEvil(t, after(func(c net.Conn) {
				_, _ = io.WriteString(c, tc.head)
				time.Sleep(ample / 2) // a reset overtakes what was not read yet
				tc.end(c)
			}))
			res := send(t, newClient(t, nil), e.url(), nil)
			wantStatus(t, res, 200)
			if !res.Truncated || e.conns.Load() != 1 {
				t.Errorf("truncated %v after %d connections", res.Truncated, e.conns.Load())
			}
		})
	}
}

func TestRequestOnADyingConnectionIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, header := range map[string][]egress.Field{
		"plain":           {},
		"idempotency key": {{"Idempotency-Key", "k"}, {"X-Idempotency-Key", "k"}},
		"in lower case":   {{"idempotency-key", "k"}, {"x-idempotency-key", "k"}},
		"without a value": {{"Idempotency-Key", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var arrivals atomic.Int64
			e := newEvil(t, func(c net.Conn) {
				r := bufio.NewReader(c)
				for n := 1; ; n++ {
					req, _, err := readRequest(r)
					if err != nil {
						return
					}
					arrivals.Add(1)
					for key := range req.Header {
						if strings.Contains(strings.ToLower(key), "idempotency") {
							t.Errorf("header %s was sent", key)
						}
					}
					if n == 2 {
						return // took the request, gives no answer
					}
					_, _ = io.WriteString(c, ok200)
				}
			})
			c := newClient(t, nil)
			change := func(r *egress.Request) { r.Header = header }
			wantStatus(t, send(t, c, e.url(), change), 200)
			wantReason(t, send(t, c, e.url(), change), hook.ConnectReset)
			if n := arrivals.Load(); n != 2 {
				t.Errorf("2 attempts made %d arrivals", n)
			}
		})
	}
}

func TestConnectionClosedWhileIdleCostsNothing(t *testing.T) {
	t.Parallel()
	var arrivals atomic.Int64
	e := newEvil(t, func(c net.Conn) {
		if _, _, err := readRequest(bufio.NewReader(c)); err == nil {
			arrivals.Add(1)
			_, _ = io.WriteString(c, ok200)
		}
	})
	c := newClient(t, nil)
	const attempts = 5
	for range attempts {
		wantStatus(t, send(t, c, e.url(), nil), 200)
		e.wantAllClosed(t)
		time.Sleep(100 * time.Millisecond) // the close arrives
	}
	if n := arrivals.Load(); n != attempts {
		t.Errorf("%d attempts made %d arrivals", attempts, n)
	}
}

func TestPeerThatNeverReadsEndsAtTheDeadline(t *testing.T) { //nolint:tparallel // they share one server
	t.Parallel()
	release := make(chan struct{})
	e := newEvil(t, func(c net.Conn) {
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		<-release
	})
	ca := newAuthority(t)
	_, stuckURL := newEvilTLS(t, tlsConfig(ca.issue(t, nil)), func(c net.Conn) {
		if c.(*tls.Conn).HandshakeContext(t.Context()) == nil {
			<-release
		}
	})
	t.Cleanup(func() { close(release) }) // runs before the servers wait
	for name, target := range map[string]string{"plain": e.url(), "TLS": stuckURL} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, func(cfg *egress.Config) { cfg.CAFile = ca.file })
			start := time.Now()
			res := send(t, c, target, func(r *egress.Request) {
				r.Body = make([]byte, 16<<20) // more than any socket buffer takes
				r.Total = ample
			})
			wantReason(t, res, hook.Timeout)
			if took := time.Since(start); took > ample+soon {
				t.Errorf("took %v with a limit of %v", took, ample)
			}
		})
	}
}

func TestRetryAfterIsHandedOnAsItCame(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"-1", "1000000000000", strings.Repeat("9", 60), "Thu, 01 Jan 1970 00:00:00 GMT", "\xff"} {
		e := newEvil(t, answering("HTTP/1.1 503 Busy\r\nRetry-After: "+value+"\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"))
		res := send(t, newClient(t, nil), e.url(), nil)
		wantStatus(t, res, 503)
		if got := res.Header["Retry-After"]; len(got) != 2 || got[0] != value || got[1] != "7" {
			t.Errorf("Retry-After = %q, want %q and 7", got, value)
		}
	}
}

func TestHeadersCannotSmuggle(t *testing.T) {
	t.Parallel()
	canary := newCanary(t, "127.0.0.1:0")
	for name, field := range map[string]egress.Field{
		"line break in a value": {"X-A", "b\r\nEvil: 1"},
		"space in a name":       {"X A", "b"},
		"line break in a name":  {"X\r\nEvil", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, nil)
			res := send(t, c, canary.url(), func(r *egress.Request) { r.Header = []egress.Field{field} })
			wantReason(t, res, hook.LocalError)
		})
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 5
	release := make(chan struct{})
	e := newEvil(t, func(c net.Conn) {
		for r := bufio.NewReader(c); ; {
			if _, _, err := readRequest(r); err != nil {
				return
			}
			<-release
			_, _ = io.WriteString(c, ok200)
		}
	})
	c := newClient(t, func(cfg *egress.Config) { cfg.MaxConnsPerHost = most })
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if res := send(t, c, e.url(), nil); res.Status != 200 {
				t.Error(res.Err)
			}
		})
	}
	for start := time.Now(); e.conns.Load() < most && time.Since(start) < soon; {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond) // one more would come
	close(release)
	all.Wait()
	if n := e.conns.Load(); n != most {
		t.Errorf("50 requests used %d connections, want %d", n, most)
	}
}

// TestR15_NoConnectionIsLeft: whoever has the only connection fails by the silence
// of the destination, and the others in line do not wait for ever.
func TestR15_NoConnectionIsLeft(t *testing.T) {
	t.Parallel()
	e := newEvil(t, silent)
	c := newClient(t, func(cfg *egress.Config) { cfg.MaxConnsPerHost = 1 })
	var connected atomic.Int64
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			res := send(t, c, e.url(), func(r *egress.Request) { r.Total = ample })
			wantAny(t, res, hook.Timeout, hook.ConnectTimeout, hook.LocalError)
			if res.Reason != hook.LocalError { // it had the connection
				connected.Add(1)
			}
		})
	}
	all.Wait()
	if connected.Load() == 0 {
		t.Error("no request failed by the destination's silence")
	}
	e.wantAllClosed(t)
}

func wantAny(t *testing.T, res egress.Result, want ...hook.Reason) {
	t.Helper()
	if slices.Contains(want, res.Reason) {
		return
	}
	t.Errorf("reason = %v (%v), want one of %v", res.Reason, res.Err, want)
}
