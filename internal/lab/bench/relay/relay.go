// Package relay is the yardstick of the benchmark: the least that a webhook
// sender can do. It takes the same requests as the product through the same
// HTTP server settings, answers 202, and forwards them with the product's own
// HTTP client, or with that of Go's standard library.
//
// It has no storage, no retries, no signatures and no authentication, and it
// parses nothing: it finds the parts of a request by their known shape. What a
// relay has accepted is gone when it stops. It is no product.
package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/headroom"
)

// Config of a relay.
type Config struct {
	Listen string // host:port
	Target string // URL of the receiver, without a path
	Groups int    // kinds of events; each goes to endpoints of its own
	Fanout int    // endpoints of each kind
	// Standard forwards with Go's own HTTP client instead of the product's.
	Standard bool
	// PprofListen is the address of the profiler; empty: off.
	PprofListen string
	// OnListen is called once, when requests are accepted.
	OnListen func(url string)
}

const (
	// workers bounds the requests in flight. The receiver answers at once, so
	// more of them add nothing but switching; the product's own client opens no
	// more than 100 connections to one host.
	workers = 64
	// queued bounds what was answered and not yet sent. When it is reached,
	// publishers wait.
	queued = 1024
)

// job is one event on its way to one endpoint.
type job struct {
	url  string
	body []byte
}

// Relay is a running yardstick.
type Relay struct {
	cfg  Config
	send func(context.Context, job)
	urls [][]string // of each group
	jobs chan job
}

// New checks cfg and starts nothing.
func New(cfg Config) (*Relay, error) {
	if cfg.Groups < 1 || cfg.Fanout < 1 || cfg.Target == "" {
		return nil, errors.New("relay: Target, Groups and Fanout are required")
	}
	client, err := egress.New(egress.Config{Dev: true})
	if err != nil {
		return nil, err
	}
	r := &Relay{cfg: cfg, send: lean(client), jobs: make(chan job, queued)}
	if cfg.Standard {
		r.send = standard()
	}
	for g := range cfg.Groups {
		var urls []string
		for f := range cfg.Fanout {
			urls = append(urls, fmt.Sprintf("%s/%d/%d", cfg.Target, g, f))
		}
		r.urls = append(r.urls, urls)
	}
	return r, nil
}

// Run serves until ctx ends.
func (r *Relay) Run(ctx context.Context) error {
	defer headroom.Take()()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", r.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := r.server()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.serveProfiles(ctx, &wg); err != nil {
		return errors.Join(err, listener.Close())
	}
	for range workers {
		wg.Go(func() { r.forward(ctx) })
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if r.cfg.OnListen != nil {
		r.cfg.OnListen("http://" + listener.Addr().String())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// server has the settings of the product's own.
func (r *Relay) server() *http.Server {
	return &http.Server{
		Handler:           r,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
}

// maxBody is the product's bound of a batch.
const maxBody = 16 << 20

// ServeHTTP takes one event or a batch of them.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.ContentLength < 0 || req.ContentLength > maxBody {
		http.Error(w, "a length is needed", http.StatusLengthRequired)
		return
	}
	body := make([]byte, req.ContentLength)
	if _, err := io.ReadFull(req.Body, body); err != nil {
		http.Error(w, "body ended early", http.StatusBadRequest)
		return
	}
	count := 0
	for event := range events(body) {
		urls, err := r.route(event)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, url := range urls {
			select {
			case r.jobs <- job{url, event}:
			case <-req.Context().Done():
				return
			}
		}
		count++
	}
	answer := strconv.AppendInt([]byte(`{"accepted":`), int64(count), 10)
	answer = append(answer, `,"rejected":0}`...)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(answer)
}

var (
	batchStart = []byte(`{"events":[`)
	between    = []byte(`},{"type":"`)
	typeStart  = []byte(`{"type":"bench.g`)
)

// events yields the events of a body as they stand in it.
func events(body []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		rest, batch := bytes.CutPrefix(body, batchStart)
		if !batch {
			yield(body)
			return
		}
		rest = bytes.TrimSuffix(rest, []byte("]}"))
		for {
			at := bytes.Index(rest, between)
			if at < 0 {
				yield(rest)
				return
			}
			if !yield(rest[:at+1]) {
				return
			}
			rest = rest[at+2:]
		}
	}
}

var errShape = errors.New("not an event of the benchmark")

// route returns the endpoints of an event of type bench.gN.
func (r *Relay) route(event []byte) ([]string, error) {
	rest, ok := bytes.CutPrefix(event, typeStart)
	end := bytes.IndexByte(rest, '"')
	if !ok || end < 0 {
		return nil, errShape
	}
	group, err := strconv.Atoi(string(rest[:end]))
	if err != nil || group < 0 || group >= len(r.urls) {
		return nil, errShape
	}
	return r.urls[group], nil
}

var fields = []egress.Field{{Name: "Content-Type", Value: "application/json"}}

// forward sends until ctx ends. What fails is lost, and the benchmark says so.
func (r *Relay) forward(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-r.jobs:
			r.send(ctx, j)
		}
	}
}

// lean sends with the product's own client.
func lean(client *egress.Client) func(context.Context, job) {
	return func(ctx context.Context, j job) {
		client.Send(ctx, &egress.Request{URL: j.url, Body: j.body, Header: fields})
	}
}

// standard sends with Go's client, as its documentation says: connections are
// kept, one for each worker, and every answer is read to its end.
func standard() func(context.Context, job) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: workers, MaxIdleConnsPerHost: workers}}
	return func(ctx context.Context, j job) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.url, bytes.NewReader(j.body))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}

// serveProfiles offers CPU profiles, as the product does.
func (r *Relay) serveProfiles(ctx context.Context, wg *sync.WaitGroup) error {
	if r.cfg.PprofListen == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", r.cfg.PprofListen)
	if err != nil {
		return fmt.Errorf("listen for profiles: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	wg.Go(func() { _ = server.Serve(listener) })
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}
