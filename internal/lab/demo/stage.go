package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/sink"
)

// stage is an endpoint on this machine.
type stage struct {
	url  string
	sink *sink.Sink

	mu      sync.Mutex
	began   time.Time
	arrived []int // by second
	first   http.Header
}

// fragile is an endpoint as many are: fast, and down for a while when more comes within a
// second than it bears.
func (d *Demo) fragile() sink.Behaviour {
	return sink.Behaviour{Latency: 20 * time.Millisecond, CrashOver: d.capacity(), CrashFor: crashFor, DownStatus: http.StatusServiceUnavailable}
}

func (d *Demo) capacity() float64 { return bears * d.cfg.Rate }

func healthy() sink.Behaviour { return sink.Behaviour{Latency: 5 * time.Millisecond} }

// raise serves an endpoint until ctx ends.
func raise(ctx context.Context, wg *sync.WaitGroup, b sink.Behaviour) (*stage, error) {
	s, err := sink.New(sink.Config{Initial: b})
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the demo's endpoint: %w", err)
	}
	g := &stage{url: "http://" + listener.Addr().String(), sink: s, began: time.Now()}
	server := &http.Server{Handler: g, ReadHeaderTimeout: 10 * time.Second}
	wg.Go(func() { _ = server.Serve(listener) }) // ends with Close
	wg.Go(func() {
		<-ctx.Done()
		_ = server.Close()
	})
	return g, nil
}

// ServeHTTP counts what comes and plays the endpoint.
func (g *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/_sink") {
		g.count(r.Header)
	}
	g.sink.ServeHTTP(w, r)
}

func (g *stage) count(h http.Header) {
	g.mu.Lock()
	defer g.mu.Unlock()
	second := int(time.Since(g.began) / time.Second)
	for len(g.arrived) <= second {
		g.arrived = append(g.arrived, 0)
	}
	g.arrived[second]++
	if g.first == nil {
		g.first = h.Clone()
	}
}

// bars are how many requests came in each second that is over.
func (g *stage) bars() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]int, int(time.Since(g.began)/time.Second))
	copy(out, g.arrived)
	return out
}

// firstHeader is what the first request came with, nil before it.
func (g *stage) firstHeader() http.Header {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.first
}

// goDown begins an outage.
func (g *stage) goDown(ctx context.Context, d time.Duration) error {
	return post(ctx, g.url+"/_sink", "", map[string]any{"down_for": d.String()}, nil)
}

// delivered is how many events have arrived.
func delivered(r sink.Report) int64 { return r.OK - r.Duplicates }
