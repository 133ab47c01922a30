package egress_test

import (
	"bufio"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestCalledOff: whether a request may start is asked when its connection is
// ready, however long that took, and on every connection and hop.
func TestCalledOff(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int64
	hold := make(chan struct{})
	e := newEvil(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			if _, _, err := readRequest(r); err != nil {
				return
			}
			arrived.Add(1)
			<-hold
			_, _ = io.WriteString(c, ok200)
		}
	})
	c := newClient(t, func(cfg *egress.Config) { cfg.MaxConnsPerHost = 1 })
	var allowed atomic.Bool
	allowed.Store(true)
	post := func() egress.Result {
		return send(t, c, e.url(), func(r *egress.Request) { r.MayStart = allowed.Load })
	}
	var first, second sync.WaitGroup
	first.Go(func() { wantStatus(t, post(), 200) })
	for arrived.Load() < 1 {
		time.Sleep(time.Millisecond)
	}
	second.Go(func() { wantReason(t, post(), hook.Interrupted) }) // waits for the connection
	time.Sleep(20 * time.Millisecond)
	allowed.Store(false)
	close(hold)
	first.Wait()
	second.Wait()
	wantReason(t, post(), hook.Interrupted)
	c.CloseIdle()
	wantReason(t, post(), hook.Interrupted)      // on a new connection
	wantStatus(t, send(t, c, e.url(), nil), 200) // nobody has to be asked
	if n := arrived.Load(); n != 2 {
		t.Errorf("%d requests arrived, want those two that might", n)
	}
}

func TestCalledOffBetweenHops(t *testing.T) {
	t.Parallel()
	canary := newEvil(t, answering(ok200))
	e := newEvil(t, answering("HTTP/1.1 307 Go\r\nLocation: "+canary.url()+"\r\nContent-Length: 0\r\n\r\n"))
	asked := 0
	res := send(t, newClient(t, nil), e.url(), func(r *egress.Request) {
		r.FollowRedirects, r.MaxHops = true, 3
		r.MayStart = func() bool { asked++; return asked == 1 }
	})
	wantReason(t, res, hook.Interrupted)
	if asked != 2 {
		t.Errorf("asked %d times, want once for each hop", asked)
	}
}
