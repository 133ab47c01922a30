package egress_test

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// noted knows whether it was closed.
type noted struct {
	net.Conn
	closed atomic.Bool
}

func (n *noted) Close() error { n.closed.Store(true); return n.Conn.Close() }

func newNoted() *noted {
	ours, theirs := net.Pipe()
	theirs.Close()
	return &noted{Conn: ours}
}

// take takes a wire that must be there at once, and opens it where necessary.
func take(t testing.TB, p *egress.Pool, address string) (*egress.Wire, *noted) {
	t.Helper()
	w, err := p.Take(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if w.Opened() {
		return w, nil
	}
	c := newNoted()
	w.Connect(c)
	return w, c
}

func TestPoolTakesTheLatest(t *testing.T) {
	t.Parallel()
	p := egress.NewPool(10, time.Minute)
	defer p.CloseIdle()
	first, _ := take(t, p, "a:1")
	second, _ := take(t, p, "a:1")
	p.Put(first)
	p.Put(second)
	other, _ := take(t, p, "b:1")
	if other == first || other == second {
		t.Fatal("a wire leads to another target")
	}
	if w, _ := take(t, p, "a:1"); w != second {
		t.Error("took the one that was idle longer")
	}
	if w, _ := take(t, p, "a:1"); w != first {
		t.Error("did not take the other one")
	}
}

func TestPoolServesInLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := egress.NewPool(2, time.Minute)
		a, _ := take(t, p, "a:1")
		b, bConn := take(t, p, "a:1")
		served := make(chan *egress.Wire, 2)
		for i := range 2 {
			go func() {
				time.Sleep(time.Duration(i) * time.Second) // in order
				w, err := p.Take(t.Context(), "a:1")
				if err != nil {
					t.Error(err)
				}
				served <- w
			}()
		}
		time.Sleep(3 * time.Second)
		if len(served) != 0 {
			t.Fatal("more connections than there may be")
		}
		p.Put(a)
		if w := <-served; w != a {
			t.Error("the first in line did not get the wire that was put back")
		}
		p.Drop(b)
		if w := <-served; w == nil || w.Opened() {
			t.Error("the second in line may not open one for the one that was dropped")
		}
		if open, idle, _ := p.Counts(); open != 2 || idle != 0 || !bConn.closed.Load() {
			t.Errorf("%d open, %d idle, dropped one closed %v", open, idle, bConn.closed.Load())
		}
	})
}

func TestPoolWaitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := egress.NewPool(1, time.Hour)
		defer p.CloseIdle()
		w, _ := take(t, p, "a:1")
		start := time.Now()
		if _, err := p.Take(t.Context(), "a:1"); egress.ReasonOf(err) != hook.LocalError || time.Since(start) != time.Minute {
			t.Errorf("waited %v: %v, want the end of its patience", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if _, err := p.Take(ctx, "a:1"); err == nil || time.Since(start) != time.Second {
			t.Errorf("waited %v: %v, want the end of the caller's context", time.Since(start), err)
		}
		p.Put(w)
		if again, _ := take(t, p, "a:1"); again != w {
			t.Error("the wire went to one who does not wait any more")
		}
	})
}

func TestPoolCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := egress.NewPool(10, time.Minute)
		w1, c1 := take(t, p, "a:1")
		w2, c2 := take(t, p, "b:1")
		w3, c3 := take(t, p, "a:1")
		p.Put(w1)
		time.Sleep(20 * time.Second)
		p.Put(w2)
		time.Sleep(39*time.Second + 999*time.Millisecond)
		if synctest.Wait(); c1.closed.Load() {
			t.Error("closed before its time")
		}
		time.Sleep(time.Millisecond)
		if synctest.Wait(); !c1.closed.Load() || c2.closed.Load() {
			t.Errorf("after a minute: closed %v and %v, want the first only", c1.closed.Load(), c2.closed.Load())
		}
		time.Sleep(20 * time.Second)
		if synctest.Wait(); !c2.closed.Load() {
			t.Error("the second one stays")
		}
		p.Put(w3)
		p.CloseIdle()
		if open, idle, places := p.Counts(); !c3.closed.Load() || open+idle+places != 0 {
			t.Errorf("closed %v, %d open, %d idle, %d places left", c3.closed.Load(), open, idle, places)
		}
	})
}

func TestPoolBoundsIdle(t *testing.T) {
	t.Parallel()
	const bound = 2048
	p := egress.NewPool(10, time.Hour)
	defer p.CloseIdle()
	var conns []*noted
	for i := range bound + 2 {
		w, c := take(t, p, "host-"+strconv.Itoa(i)+":1")
		conns = append(conns, c)
		p.Put(w)
	}
	for i, c := range conns {
		if c.closed.Load() != (i < 2) {
			t.Errorf("connection %d: closed %v, want the two oldest only", i, c.closed.Load())
		}
	}
	if _, idle, places := p.Counts(); idle != bound || places != bound {
		t.Errorf("%d idle at %d places, want %d", idle, places, bound)
	}
}

// Whatever happens, the pool counts right, hands no wire out twice and hands
// out no closed one.
func TestPoolCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const perTarget = 3
		p := egress.NewPool(perTarget, time.Hour)
		taken := map[string][]*egress.Wire{}
		conns := map[*egress.Wire]*noted{}
		address := rapid.SampledFrom([]string{"a:1", "b:1", "c:1"})
		giveBack := func(t *rapid.T, how func(*egress.Wire)) {
			at := address.Draw(t, "address")
			if n := len(taken[at]); n > 0 {
				how(taken[at][n-1])
				taken[at] = taken[at][:n-1]
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				at := address.Draw(t, "address")
				if len(taken[at]) == perTarget {
					return // would wait
				}
				w, err := p.Take(context.Background(), at)
				if err != nil {
					t.Fatal(err)
				}
				if !w.Opened() {
					conns[w] = newNoted()
					w.Connect(conns[w])
				}
				for _, others := range taken {
					for _, other := range others {
						if other == w {
							t.Fatal("handed out twice")
						}
					}
				}
				if conns[w].closed.Load() {
					t.Fatal("handed out a closed one")
				}
				taken[at] = append(taken[at], w)
			},
			"put":   func(t *rapid.T) { giveBack(t, p.Put) },
			"drop":  func(t *rapid.T) { giveBack(t, p.Drop) },
			"close": func(*rapid.T) { p.CloseIdle() },
			"": func(t *rapid.T) {
				alive, out := 0, 0
				for _, c := range conns {
					if !c.closed.Load() {
						alive++
					}
				}
				for _, wires := range taken {
					out += len(wires)
				}
				if open, idle, _ := p.Counts(); open != alive || idle != alive-out {
					t.Fatalf("counts %d open and %d idle, want %d and %d", open, idle, alive, alive-out)
				}
			},
		})
		p.CloseIdle()
	})
}
