package egress_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// as sends on behalf of a tenant.
func as(tenant hook.ID) func(*egress.Request) {
	return func(r *egress.Request) { r.Tenant = tenant }
}

func TestTenantsShareNoConnection(t *testing.T) {
	t.Parallel()
	e, c := newEvil(t, answering(ok200)), newClient(t, nil)
	for range 3 {
		for tenant := range hook.ID(2) {
			wantStatus(t, send(t, c, e.url(), as(1+tenant)), 200)
		}
	}
	if n := e.conns.Load(); n != 2 {
		t.Errorf("requests of 2 tenants used %d connections, want one each", n)
	}
}

// TestLateBytesStayWithTheirTenant: a destination sends an answer nobody asked
// for, a moment after a proper one. It must not become another tenant's answer,
// whenever it comes.
func TestLateBytesStayWithTheirTenant(t *testing.T) {
	t.Parallel()
	for _, proper := range []string{ok200, "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\n\r\n"} {
		e := newEvil(t, func(c net.Conn) {
			r := bufio.NewReader(c)
			for {
				req, _, err := readRequest(r)
				if err != nil {
					return
				}
				if req.Header.Get("X-Tenant") == "victim" {
					_, _ = io.WriteString(c, "HTTP/1.1 500 Down\r\nContent-Length: 0\r\n\r\n")
					continue
				}
				_, _ = io.WriteString(c, proper)
				time.Sleep(time.Millisecond)
				_, _ = io.WriteString(c, "HTTP/1.1 200 Forged\r\nContent-Length: 0\r\n\r\n")
			}
		})
		c := newClient(t, nil)
		for i := range 20 {
			send(t, c, e.url(), as(1))
			time.Sleep(time.Duration(i) * 100 * time.Microsecond)
			res := send(t, c, e.url(), func(r *egress.Request) {
				r.Tenant, r.Header = 2, []egress.Field{{Name: "X-Tenant", Value: "victim"}}
			})
			wantStatus(t, res, 500)
		}
	}
}

var shared = netip.MustParseAddrPort("192.0.2.1:443")

// takeAll takes connections until the pool makes the tenant wait.
func takeAll(t *testing.T, p *egress.Pool, tenant hook.ID, name string) (wires []*egress.Wire) {
	t.Helper()
	for {
		got := make(chan *egress.Wire, 1)
		go func() {
			w, err := p.TakeAt(t.Context(), tenant, name, shared)
			if err == nil {
				w.Connect(newNoted())
			}
			got <- w
		}()
		synctest.Wait()
		select {
		case w := <-got:
			wires = append(wires, w)
		default:
			time.Sleep(2 * time.Minute) // until it gives up
			<-got
			return wires
		}
	}
}

// TestHostIsSharedBetweenTenants: one tenant takes all connections of a host that
// it can get, under as many names as it likes. Another one finds some at once,
// and half of them as those of the first come back.
func TestHostIsSharedBetweenTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 200
		p := egress.NewPool(most, time.Minute)
		defer p.CloseIdle()
		greedy := takeAll(t, p, 1, "a.test:443")
		if n := len(greedy); n < most*3/4 || n >= most {
			t.Fatalf("one who is alone got %d of %d connections, want most of them", n, most)
		}
		if more := takeAll(t, p, 1, "b.test:443"); len(more) > 0 {
			t.Errorf("%d more connections under another name", len(more))
		}
		second := takeAll(t, p, 2, "c.test:443")
		if len(second) < 5 {
			t.Errorf("a second tenant got %d connections at once", len(second))
		}

		// Both want all they can get. What comes back goes to whom has less than half.
		var wants sync.WaitGroup
		var got [3]atomic.Int64
		for tenant := 1; tenant <= 2; tenant++ {
			for range most {
				wants.Go(func() {
					if _, err := p.TakeAt(t.Context(), hook.ID(tenant), fmt.Sprint(tenant, ".test:443"), shared); err == nil {
						got[tenant].Add(1)
					}
				})
			}
		}
		synctest.Wait()
		for _, w := range greedy {
			p.Drop(w)
		}
		synctest.Wait()
		have := [3]int{1: int(got[1].Load()), 2: int(got[2].Load()) + len(second)}
		if open, _, _ := p.Counts(); open > most || have[1] > most/2 || have[2] > most/2 || have[1] < most/3 || have[2] < most/3 {
			t.Errorf("the tenants have %d and %d of %d, want about half each and no more", have[1], have[2], most)
		}
		wants.Wait() // the others give up
	})
}

// TestIdleConnectionsMakeRoom: those of another tenant, or another name, are
// closed when a host has as many as it may have.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := egress.NewPool(4, time.Hour)
		defer p.CloseIdle()
		var idle []*noted
		var wires []*egress.Wire
		for range 4 {
			w, err := p.TakeAt(t.Context(), 1, "a.test:443", shared)
			if err != nil {
				t.Fatal(err)
			}
			c := newNoted()
			w.Connect(c)
			idle, wires = append(idle, c), append(wires, w)
		}
		for _, w := range wires {
			p.Put(w)
		}
		began := time.Now()
		w, err := p.TakeAt(t.Context(), 2, "a.test:443", shared)
		if err != nil || w.Opened() || time.Since(began) > 0 {
			t.Fatalf("got %v, %v after %v, want leave to open one at once", w, err, time.Since(began))
		}
		if open, n, _ := p.Counts(); open != 4 || n != 3 || !idle[0].closed.Load() {
			t.Errorf("%d open, %d idle, the oldest closed: %v", open, n, idle[0].closed.Load())
		}
		p.Drop(w)
	})
}

// TestIdleConnectionsMayEndWhileOneWaitsForThem: who waits for an idle connection and
// gets leave to open one instead has no connection yet.
func TestIdleConnectionsMayEndWhileOneWaitsForThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := egress.NewPool(200, time.Hour)
		defer p.CloseIdle()
		used := takeAll(t, p, 1, "a.test:443")
		p.Put(used[0])
		// Another name has its share now, and one of a.test is idle.
		if w, err := p.TakeAt(t.Context(), 1, "b.test:443", shared); err != nil || w.Opened() {
			t.Fatalf("%v, %v", w, err)
		}
		got := make(chan *egress.Wire, 1)
		go func() {
			w, err := p.TakeIdle(t.Context(), 1, "a.test:443")
			if err != nil {
				t.Error(err)
			}
			got <- w
		}()
		synctest.Wait()
		p.CloseIdle()
		open, _, _ := p.Counts()
		p.Drop(used[1])
		if w := <-got; w != nil {
			t.Errorf("it got a wire, open: %v", w.Opened())
		}
		if now, _, _ := p.Counts(); now != open-1 {
			t.Errorf("%d connections are counted, want %d", now, open-1)
		}
	})
}

func TestBoundOfIdleConnections(t *testing.T) {
	t.Parallel()
	for limit, want := range map[uint64]int{0: 2048, 2: 1, 60: 15, 1024: 256, 1 << 20: 2048, 1<<64 - 1: 2048} {
		if got := egress.BoundIdle(limit); got != want {
			t.Errorf("%d idle connections with %d descriptors, want %d", got, limit, want)
		}
	}
}

// TestIdleConnectionsAreClosedFirst: there is no descriptor left for a new
// connection, but there are idle ones to others.
func TestIdleConnectionsAreClosedFirst(t *testing.T) {
	t.Parallel()
	leanOnly(t) // the other one closes them for the next attempt
	e, other := newEvil(t, answering(ok200)), newEvil(t, answering(ok200))
	c := newClient(t, func(cfg *egress.Config) {
		cfg.Resolver = resolver(func(context.Context, string) ([]netip.Addr, error) {
			if other.open.Load() > 0 {
				return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
			}
			return []netip.Addr{e.addr.Addr()}, nil
		})
	})
	wantStatus(t, send(t, c, other.url(), nil), 200)
	url := fmt.Sprintf("http://name.test:%d/", e.addr.Port())
	for start := time.Now(); time.Since(start) < soon; { // until the server has noticed
		if res := send(t, c, url, nil); res.Status == 200 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("no connection although idle ones could make room")
}
