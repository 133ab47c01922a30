// Package sink is a receiver that misbehaves on purpose: it fails, slows down,
// throttles, refuses, flaps and crashes as told, checks signatures and counts
// duplicates. People try Breakwater with it, and tests and benchmarks judge
// deliveries by its counts.
//
// Any path is accepted, so one sink can play many endpoints of one host, which
// share its capacity; each path may have a behaviour of its own. /_sink is the
// control surface. What a request gets is decided by destination, which is pure.
//
// It keeps no payloads, and it is no example of a good receiver: package
// receiver is.
package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/receiver"
)

// Config is what New needs.
type Config struct {
	Listen   string    // address for Run
	Initial  Behaviour // of every path without a behaviour of its own
	PerPath  bool      // every path is a destination of its own; else they share one
	Secrets  []string  // of the endpoints; empty: signatures are not checked
	Log      io.Writer // one JSON line per request; nil: none
	Out      io.Writer // status lines and totals of Run; nil: none
	Requests bool      // tell of each request, while few come, instead of each second
	MaxIDs   int       // ids remembered to find duplicates, 0 means 2,000,000
	OnListen func(net.Addr)
}

const (
	defaultMaxIDs = 2_000_000
	maxBody       = 64 << 20
	maxPaths      = 10_000
)

// Sink is the receiver. It is an http.Handler; Run serves it.
type Sink struct {
	cfg  Config
	ids  *idSet
	log  *requestLog
	told teller

	mu       sync.Mutex // guards what follows, and is never held over a wait
	rng      *rand.Rand
	all      *station // paths without their own
	stations map[string]*station
	paths    map[string]*pathMeter
	total    meter
	crashLog []Crash

	badSignatures, unsigned, crashes int64
}

// station is a destination, and with what it verifies.
type station struct {
	*destination

	verifier *receiver.Verifier // nil: signatures are not checked
	own      bool               // told something the others were not
}

func (st *station) fork() *station {
	return &station{destination: st.destination.fork(), verifier: st.verifier}
}

// secrets are the secrets of a station, read.
type secrets struct{ verifier *receiver.Verifier }

func newSecrets(keys []string) (*secrets, error) {
	if len(keys) == 0 {
		return &secrets{}, nil
	}
	v, err := receiver.New(receiver.Config{Secrets: keys, MaxBody: maxBody})
	return &secrets{v}, err
}

// New checks cfg and starts nothing.
func New(cfg Config) (*Sink, error) {
	err := cfg.Initial.check()
	known, secretErr := newSecrets(cfg.Secrets)
	if secretErr != nil {
		secretErr = &FieldError{"secret", secretErr}
	}
	if err := errors.Join(err, secretErr); err != nil {
		return nil, err
	}
	now := time.Now()
	return &Sink{
		cfg:      cfg,
		ids:      newIDSet(cmp.Or(cfg.MaxIDs, defaultMaxIDs)),
		log:      newRequestLog(cfg.Log),
		rng:      rand.New(rand.NewPCG(uint64(now.UnixNano()), 1)),
		all:      &station{destination: newDestination(cfg.Initial, now), verifier: known.verifier},
		stations: map[string]*station{},
		paths:    map[string]*pathMeter{},
	}, nil
}

// Run listens and serves until ctx ends, printing a line for every second in
// which something happened, and the totals at the end.
func (s *Sink) Run(ctx context.Context) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return s.serve(ctx, ln)
}

// stopWait bounds how long the end of Run waits for slow answers.
const stopWait = time.Second

func (s *Sink) serve(ctx context.Context, ln net.Listener) error {
	if s.cfg.OnListen != nil {
		s.cfg.OnListen(ln.Addr())
	}
	// Requests must not outlive Run, or the totals would be wrong.
	work, cancelWork := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelWork()
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return work },
	}
	var ticking sync.WaitGroup
	tickCtx, stopTicking := context.WithCancel(ctx)
	defer stopTicking()
	ticking.Go(func() { s.tick(tickCtx) })

	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		err = stop(server, cancelWork)
		<-served
	}
	stopTicking()
	ticking.Wait()
	s.printTotals()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, s.log.flush())
}

// stop lets answers finish, then cuts them short, then closes what is left.
func stop(server *http.Server, cancelWork context.CancelFunc) error {
	shutdown := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopWait)
		defer cancel()
		return server.Shutdown(ctx)
	}
	if shutdown() == nil {
		return nil
	}
	cancelWork()
	if shutdown() == nil {
		return nil
	}
	return server.Close()
}
