// Package sink is a receiver that misbehaves on purpose: it fails, slows down,
// limits its rate, flaps and crashes as told, checks signatures and counts
// duplicates. People try Breakwater with it, and tests and benchmarks judge
// deliveries by its counts.
//
// Any path is accepted, so one sink can play many endpoints; each path may have
// a behaviour of its own. /_sink is the control surface.
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
	"net"
	"net/http"
	"sync"
	"time"
)

// Config is what New needs.
type Config struct {
	Listen   string    // address for Run
	Initial  Behaviour // of every path without a behaviour of its own
	Secrets  []string  // of the endpoints; empty: signatures are not checked
	Log      io.Writer // one JSON line per request; nil: none
	Out      io.Writer // status lines and totals of Run; nil: none
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
	cfg    Config
	counts counters
	ids    *idSet
	log    *requestLog

	mu       sync.Mutex // held for lookups only
	all      *station   // behaviour of paths without their own
	stations map[string]*station
	paths    map[string]*pathCount
}

// New checks cfg and starts nothing.
func New(cfg Config) (*Sink, error) {
	all, err := newStation(cfg.Initial, cfg.Secrets, time.Now())
	if err != nil {
		return nil, err
	}
	return &Sink{
		cfg:      cfg,
		ids:      newIDSet(cmp.Or(cfg.MaxIDs, defaultMaxIDs)),
		log:      newRequestLog(cfg.Log),
		all:      all,
		stations: map[string]*station{},
		paths:    map[string]*pathCount{},
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

// tick prints the status line of each second and flushes the log.
func (s *Sink) tick(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var last Counts
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			counts := s.counts.snapshot()
			s.printSecond(now, last, counts)
			last = counts
			// A log that cannot be written is reported when Run ends.
			_ = s.log.flush()
		}
	}
}

func (s *Sink) printSecond(now time.Time, last, counts Counts) {
	if s.cfg.Out == nil || counts.Requests == last.Requests && counts.answered() == last.answered() {
		return
	}
	line := fmt.Sprintf("%s ok %d fail %d dup %d badsig %d inflight %d", now.Format(time.TimeOnly),
		counts.OK-last.OK, counts.Failed-last.Failed, counts.Duplicates-last.Duplicates,
		counts.BadSignatures-last.BadSignatures, counts.InFlight)
	if n := counts.Crashes - last.Crashes; n > 0 {
		line += fmt.Sprintf(" crashes %d", n)
	}
	fmt.Fprintln(s.cfg.Out, line) //nolint:errcheck // a closed terminal is no reason to stop
}

func (s *Sink) printTotals() {
	if s.cfg.Out == nil {
		return
	}
	c := s.counts.snapshot()
	fmt.Fprintf(s.cfg.Out, "total %d ok %d fail %d dup %d badsig %d unsigned %d throttled %d early %d crashes %d max-inflight %d ids %d\n", //nolint:errcheck // as above
		c.Requests, c.OK, c.Failed, c.Duplicates, c.BadSignatures, c.Unsigned, c.Throttled, c.BrokenHolds, c.Crashes, c.MaxInFlight, s.ids.unique())
}
