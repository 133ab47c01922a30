package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// The standard carrier serves proxies, so it has to stand the same tests. They
// run in a process of their own.
func TestStandardCarrierToo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: starts processes")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), self, "-standard", "-test.short", "-test.skip=^TestStandardCarrierToo$", "-test.timeout=30m",
		"-test.parallel="+flag.Lookup("test.parallel").Value.String()).CombinedOutput()
	if err != nil {
		t.Errorf("tests with the standard carrier: %v\n%s", err, out)
	}
}

// leanOnly skips what the standard carrier does in another way.
func leanOnly(t *testing.T) {
	t.Helper()
	if *standard {
		t.Skip("the standard carrier does this in its own way")
	}
}

func TestConnectionIsNotReused(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"closes":               "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"version 1.0":          "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"more than announced":  ok200 + "x",
		"a second answer":      ok200 + ok200,
		"too long to read":     "HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + strings.Repeat("x", 70000),
		"malformed chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"chunks behind 0":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n5\r\nextra\r\n0\r\n\r\n",
		"no content, but some": "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, c := newEvil(t, answering(answer)), newClient(t, nil)
			for range 3 {
				if res := send(t, c, e.url(), nil); res.Status == 0 {
					t.Fatal(res.Err)
				}
				time.Sleep(50 * time.Millisecond) // what is too much arrives
			}
			if n := e.conns.Load(); n != 3 {
				t.Errorf("3 requests used %d connections, want 3", n)
			}
		})
	}
}

// Who announces a length and sends chunks may mean either, and who invents a
// status may mean anything.
func TestDoubtEndsTheConnection(t *testing.T) {
	t.Parallel()
	leanOnly(t)
	for name, answer := range map[string]string{
		"length and chunks": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"odd status":        "HTTP/1.1 700 Odd\r\nContent-Length: 0\r\n\r\n",
		"two equal lengths": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
		"chunks in 1.0":     "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nok",
		"length of nothing": "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n",
		"chunks of nothing": "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, c := newEvil(t, answering(answer)), newClient(t, nil)
			for range 2 {
				if res := send(t, c, e.url(), nil); res.Status == 0 {
					t.Fatal(res.Err)
				}
			}
			if n := e.conns.Load(); n != 2 {
				t.Errorf("2 requests used %d connections, want 2", n)
			}
		})
	}
}

// TLS decrypts whole records: what comes too much may have been read already
// when the next request wants the connection.
func TestSurplusInsideTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	answer := "HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + strings.Repeat("x", 9000)
	oneRecord := tlsConfig(ca.issue(t, nil))
	oneRecord.DynamicRecordSizingDisabled = true
	e, url := newEvilTLS(t, oneRecord, answering(answer+"HTTP/1.1 500 Not Yours\r\nContent-Length: 0\r\n\r\n"))
	c := newClient(t, func(cfg *egress.Config) { cfg.CAFile = ca.file })
	for range 3 {
		wantStatus(t, send(t, c, url, nil), 200)
		time.Sleep(50 * time.Millisecond)
	}
	if n := e.conns.Load(); n != 3 {
		t.Errorf("3 requests used %d connections, want 3", n)
	}
}

func TestTLSClosedWhileIdle(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	e, url := newEvilTLS(t, tlsConfig(ca.issue(t, nil)), answeringOnce(ok200))
	c := newClient(t, func(cfg *egress.Config) { cfg.CAFile = ca.file })
	for range 3 {
		wantStatus(t, send(t, c, url, nil), 200)
		e.wantAllClosed(t)
		time.Sleep(50 * time.Millisecond) // the close arrives
	}
	if n := e.conns.Load(); n != 3 {
		t.Errorf("3 requests used %d connections, want 3", n)
	}
}

func TestRequestArrivesInOnePiece(t *testing.T) {
	t.Parallel()
	leanOnly(t)
	body := bytes.Repeat([]byte("0123456789"), 2000) // more than the standard transport buffers
	read := make(chan []byte, 1)
	e := newEvil(t, func(c net.Conn) {
		buf := make([]byte, 64<<10)
		first, _ := c.Read(buf[:1])
		time.Sleep(100 * time.Millisecond) // what was written along with it
		n, _ := c.Read(buf[first:])
		read <- buf[:first+n]
		_, _ = io.WriteString(c, ok200)
	})
	wantStatus(t, send(t, newClient(t, nil), e.url(), func(r *egress.Request) {
		r.Body, r.Header = body, []egress.Field{{"C", " 4"}, {"A", "5"}, {"B", "2"}, {"a", "1"}, {"B", " 3 "}}
	}), 200)
	want := "POST /hook HTTP/1.1\r\nHost: " + e.addr.String() + "\r\nUser-Agent: Breakwater\r\nAccept-Encoding: identity\r\n" +
		"Content-Length: 20000\r\nA: 5\r\nB: 2\r\nB: 3\r\nC: 4\r\na: 1\r\n\r\n" + string(body)
	if got := string(<-read); got != want {
		t.Errorf("one read got %d bytes: %.300q, want %d: %.300q", len(got), got, len(want), want)
	}
}

func TestLargeBodies(t *testing.T) {
	t.Parallel()
	e, c := newEvil(t, answering(ok200)), newClient(t, nil)
	for _, size := range []int{32 << 10, 32<<10 + 1, 1 << 20, 5 << 20} {
		wantStatus(t, send(t, c, e.url(), func(r *egress.Request) { r.Body = make([]byte, size) }), 200)
	}
	if n := e.conns.Load(); n != 1 {
		t.Errorf("4 requests used %d connections, want 1", n)
	}
}

// A destination may refuse a large body without reading it.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	const refusal = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig"
	for name, then := range map[string]func(c net.Conn, end <-chan struct{}){
		"and stops reading": func(_ net.Conn, end <-chan struct{}) { <-end },
		"and reads on":      func(c net.Conn, _ <-chan struct{}) { silent(c) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := make(chan struct{})
			e := newEvil(t, func(c net.Conn) {
				_, _ = c.Read(make([]byte, 100))
				_, _ = io.WriteString(c, refusal)
				then(c, end)
			})
			t.Cleanup(func() { close(end) }) // runs before the server waits
			start := time.Now()
			res := send(t, newClient(t, nil), e.url(), func(r *egress.Request) { r.Body = make([]byte, 16<<20) })
			wantStatus(t, res, 413)
			if string(res.Body) != "big" || time.Since(start) > soon {
				t.Errorf("body %q after %v", res.Body, time.Since(start))
			}
		})
	}
}

func TestConnectionsAreHandedOn(t *testing.T) {
	t.Parallel()
	e := newEvil(t, answering(ok200))
	c := newClient(t, func(cfg *egress.Config) { cfg.MaxConnsPerHost = 2 })
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if res := send(t, c, e.url(), nil); res.Status != 200 {
				t.Error(res.Err)
			}
		})
	}
	all.Wait()
	if n := e.conns.Load(); n > 2 {
		t.Errorf("50 requests used %d connections, want at most 2", n)
	}
}

// TestWaitForAConnectionIsOurs: a request that waits because others have all the
// connections to its host has all its time when it gets one, and its latency is
// the destination's. When it gets none that is no failure of the destination.
func TestWaitForAConnectionIsOurs(t *testing.T) {
	t.Parallel()
	leanOnly(t)
	const answer = 3 * time.Second // half of it is what a busy machine may add
	e := newEvil(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			if _, _, err := readRequest(r); err != nil {
				return
			}
			time.Sleep(answer)
			_, _ = io.WriteString(c, ok200)
		}
	})
	c := newClient(t, func(cfg *egress.Config) { cfg.MaxConnsPerHost = 1 })
	const total = 3 * answer / 2
	var all sync.WaitGroup
	var mu sync.Mutex
	reasons, waited := map[hook.Reason]int{}, 0
	for range 4 {
		all.Go(func() {
			res := send(t, c, e.url(), func(r *egress.Request) { r.Total = total })
			mu.Lock()
			defer mu.Unlock()
			reasons[res.Reason]++
			if res.Waited {
				waited++
			}
			switch {
			case res.Status == 200 && res.Latency >= total:
				t.Errorf("latency %v of an answer that took %v", res.Latency, answer)
			case res.Reason == hook.LocalError && (res.Latency >= answer || !strings.Contains(res.Text, "no free connection")):
				t.Errorf("latency %v, %q, where nothing was sent", res.Latency, res.Text)
			}
		})
	}
	all.Wait()
	// One is answered at once, one waits and is answered, two give up.
	if reasons[0] != 2 || reasons[hook.LocalError] != 2 || waited != 3 {
		t.Errorf("reasons %v, %d waited, want two answers and two faults of our own, of which three waited", reasons, waited)
	}
}

func TestInterruptedBeforeAndInLine(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	hold := make(chan struct{})
	e := newEvil(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			if _, _, err := readRequest(r); err != nil {
				return
			}
			if requests.Add(1) > 1 {
				<-hold
			}
			_, _ = io.WriteString(c, ok200)
		}
	})
	c := newClient(t, func(cfg *egress.Config) { cfg.MaxConnsPerHost = 1 })
	wantStatus(t, send(t, c, e.url(), nil), 200)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	wantReason(t, c.Send(ended, &egress.Request{URL: e.url()}), hook.Interrupted)
	time.Sleep(50 * time.Millisecond) // it would arrive
	if n := requests.Load(); n != 1 {
		t.Fatalf("%d requests arrived, want 1: one was sent although its context had ended", n)
	}

	var holder sync.WaitGroup
	holder.Go(func() { wantStatus(t, send(t, c, e.url(), nil), 200) })
	for requests.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	wantReason(t, c.Send(short, &egress.Request{URL: e.url()}), hook.Interrupted)
	if took := time.Since(start); took > soon {
		t.Errorf("left the line after %v", took)
	}
	close(hold)
	holder.Wait()
}

func TestIdleConnectionsExpire(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	e := newEvil(t, func(c net.Conn) {
		answering(ok200)(c)
		close(closed)
	})
	c := newClient(t, func(cfg *egress.Config) { cfg.IdleTimeout = 50 * time.Millisecond })
	wantStatus(t, send(t, c, e.url(), nil), 200)
	select {
	case <-closed:
	case <-time.After(soon):
		t.Error("an idle connection stays open")
	}
}

// The last look at an idle connection cannot see everything. A write that fails
// without a byte gone moves to another connection.
func TestUnwrittenRequestMoves(t *testing.T) {
	t.Parallel()
	leanOnly(t)
	release := make(chan struct{})
	e := newEvil(t, func(c net.Conn) {
		answeringOnce(ok200)(c)
		<-release
	})
	t.Cleanup(func() { close(release) })
	c := newClient(t, nil)
	wantStatus(t, send(t, c, e.url(), nil), 200)
	if n := c.StopWriting(); n != 1 {
		t.Fatalf("%d idle connections, want 1", n)
	}
	res := send(t, c, e.url(), nil)
	wantStatus(t, res, 200)
	if n := e.conns.Load(); n != 2 || res.Phases.Connect == 0 {
		t.Errorf("%d connections, phases %+v, want a second one", n, res.Phases)
	}
}

func TestAnswersOfSeveralParts(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"1xx, then the answer": strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 9) + ok200,
		"folded header":        "HTTP/1.1 200 OK\r\nX: a\r\n  b\r\nContent-Length: 2\r\n\r\nok",
		"long header":          "HTTP/1.1 200 OK\r\nY: " + strings.Repeat("y", 50<<10) + "\r\nContent-Length: 2\r\n\r\nok",
		"trailer":              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\nX: 1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, c := newEvil(t, answering(answer)), newClient(t, nil)
			for range 2 {
				res := send(t, c, e.url(), nil)
				wantStatus(t, res, 200)
				if string(res.Body) != "ok" || res.Truncated {
					t.Errorf("body %q truncated %v", res.Body, res.Truncated)
				}
			}
			if n := e.conns.Load(); n != 1 {
				t.Errorf("2 requests used %d connections, want 1", n)
			}
		})
	}
}

// What the limit on headers is for, at its edge.
func TestHeaderLimit(t *testing.T) {
	t.Parallel()
	leanOnly(t) // the other one counts in buffers
	const limit = 64 << 10
	for extra, want := range map[int]hook.Reason{0: 0, 1: hook.Protocol} {
		start, end := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: ", "\r\n\r\n"
		filler := strings.Repeat("x", limit+extra-len(start)-len(end))
		e := newEvil(t, answering(start+filler+end+"ok"))
		wantReason(t, send(t, newClient(t, nil), e.url(), nil), want)
	}
}
