// Package demo plays an outage and its end for somebody who watches: the same events go
// to the same kind of endpoint twice, once through Breakwater and once through a plain
// retry loop, and each second is drawn.
//
// It talks to a running server like everybody does, over its API. It starts no server
// and proves nothing: package sim compares strategies, and the tests judge.
package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Config is what New needs. Zero fields mean the defaults given.
type Config struct {
	URL string // of the server, which must allow destinations on this machine
	Key string // an admin key

	Rate    float64       // events per second; 20
	Outage  time.Duration // 15s
	Longest time.Duration // ends whatever has not; 110s

	// Show is called twice a second, Tell whenever something happens.
	Show func(Scene)
	Tell func(Moment)
}

// Bounds of a Config.
const (
	LeastRate   = 5
	MostRate    = 100
	LeastOutage = 5 * time.Second
	MostOutage  = 40 * time.Second
)

const (
	calm     = 6 * time.Second // before the outage, and after the backlog is gone
	tick     = 500 * time.Millisecond
	crashFor = 5 * time.Second
	// bears is what an endpoint takes, times the rate of events.
	bears = 2.5
)

// Demo is one performance.
type Demo struct {
	cfg    Config
	began  time.Time
	plain  *side
	ours   *side
	beside *stage // a healthy endpoint of the same server
	server *server
	// stopEvents ends the stream of events.
	stopEvents context.CancelFunc

	mu   sync.Mutex
	last []Moment
}

// side is an endpoint and who sends to it.
type side struct {
	*stage
	loop *retryLoop // nil: Breakwater sends
	seen struct {
		crashes int64
		open    bool
		drained time.Duration // since the endpoint was back; 0: not yet
	}
}

// Moment is something that happened.
type Moment struct {
	At    time.Duration
	Mood  Mood
	Words string
}

// New checks cfg and starts nothing.
func New(cfg Config) (*Demo, error) {
	if cfg.URL == "" || cfg.Key == "" || cfg.Show == nil || cfg.Tell == nil {
		return nil, errors.New("demo: URL, Key, Show and Tell are required")
	}
	if cfg.Rate == 0 {
		cfg.Rate = 20
	}
	if cfg.Outage == 0 {
		cfg.Outage = 15 * time.Second
	}
	if cfg.Longest == 0 {
		cfg.Longest = 110 * time.Second
	}
	if err := Check(cfg.Rate, cfg.Outage); err != nil {
		return nil, err
	}
	return &Demo{cfg: cfg, server: &server{url: cfg.URL, key: cfg.Key}}, nil
}

// Check checks what a person may choose.
func Check(rate float64, outage time.Duration) error {
	if rate < LeastRate || rate > MostRate {
		return fmt.Errorf("rate: from %d to %d events per second", LeastRate, MostRate)
	}
	if outage < LeastOutage || outage > MostOutage {
		return fmt.Errorf("outage: from %v to %v", LeastOutage, MostOutage)
	}
	return nil
}

// Run plays it and returns how it ended.
func (d *Demo) Run(ctx context.Context) (Summary, error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if err := d.raise(ctx, &wg); err != nil {
		return Summary{}, err
	}
	if err := d.server.connect(ctx, d.ours.url, d.beside.url); err != nil {
		return Summary{}, err
	}
	d.began = time.Now()
	failed := make(chan error, 1)
	publishing, stop := context.WithCancel(ctx)
	d.stopEvents = stop
	wg.Go(func() {
		if err := d.publish(publishing, ctx, &wg); err != nil {
			failed <- err
		}
	})
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for phase := calmBefore; ; {
		select {
		case <-ctx.Done():
			return Summary{}, ctx.Err()
		case err := <-failed:
			return Summary{}, err
		case <-ticker.C:
		}
		scene, err := d.look(ctx)
		if err != nil {
			return Summary{}, err
		}
		if phase = d.advance(phase, &scene); phase == over {
			return d.sumUp(), nil
		}
		scene.Phase = phase.words(d)
		d.cfg.Show(scene)
	}
}

func (d *Demo) raise(ctx context.Context, wg *sync.WaitGroup) error {
	plain, err := raise(ctx, wg, d.fragile())
	if err != nil {
		return err
	}
	ours, err := raise(ctx, wg, d.fragile())
	if err != nil {
		return err
	}
	if d.beside, err = raise(ctx, wg, healthy()); err != nil {
		return err
	}
	d.plain = &side{stage: plain, loop: newRetryLoop(plain.url)}
	d.ours = &side{stage: ours}
	return nil
}

// publish sends events both ways while it is open; what it has begun goes on until ctx
// ends.
func (d *Demo) publish(open, ctx context.Context, wg *sync.WaitGroup) error {
	ticker := time.NewTicker(time.Duration(float64(time.Second) / d.cfg.Rate))
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-open.Done():
			return nil
		case <-ticker.C:
		}
		wg.Go(func() { d.plain.loop.deliver(ctx, n) })
		if err := d.server.send(ctx, n); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (d *Demo) passed() time.Duration { return time.Since(d.began) }

func (d *Demo) tell(mood Mood, format string, args ...any) {
	m := Moment{At: d.passed(), Mood: mood, Words: fmt.Sprintf(format, args...)}
	d.mu.Lock()
	d.last = append(d.last, m)
	d.mu.Unlock()
	d.cfg.Tell(m)
}
