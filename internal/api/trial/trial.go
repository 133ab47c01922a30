// Package trial plays an outage for a policy that somebody tries out: it checks what
// was asked for, keeps the cost within bounds, and shows what the simulator found.
//
// It sends nothing, stores nothing, and gives way to everything else in the server:
// one run at a time, on one goroutine, with a bound on its steps and its events.
package trial

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/sim"
)

// Outage is an outage to be played, as requests have it. What it leaves out has a
// default.
type Outage struct {
	Destination string  `json:"destination,omitempty" enum:"queue,cold,black_hole,cliff,refuse,throttle" doc:"What it does when it gets too much, or how it comes back. queue (default): work waits, more than 3 s of it crashes the destination for a minute. cold: the same, and it comes back with 30 % of its capacity, which grows for two minutes. black_hole: as queue, but while it is down requests time out instead of being refused. cliff: always as fast, until one request too many in a second crashes it for 10 s. refuse: answers 503 above its capacity. throttle: answers 429 with Retry-After: 1 above it."`
	Strategy    string  `json:"strategy,omitempty" enum:"law,retries,retries+hold,retries+burn,retries+cap10,retries+cap10+hold,retries+cap10+burn" doc:"Who sends. law (default): this server, under the policy. retries: a plain retry loop with the policy's schedule; with at most 10 requests in flight (cap10), with a breaker that fails attempts while it is open (burn) or holds them and then releases everything (hold)."`
	Outage      string  `json:"outage,omitempty" doc:"How long the destination is down, 1s to 24h; 5m when absent."`
	Rate        float64 `json:"rate,omitempty" minimum:"0.1" maximum:"1000" doc:"New events per second; 50 when absent."`
	Capacity    float64 `json:"capacity,omitempty" minimum:"1" maximum:"10000" doc:"Requests per second that the destination bears; 100 when absent."`
	Latency     string  `json:"latency,omitempty" doc:"Mean time of an answer, 1ms to 30s; 200ms when absent."`
	Seed        uint64  `json:"seed,omitempty" maximum:"9007199254740991" doc:"The same seed gives the same run; 1 when absent."`
	Runs        *int    `json:"runs,omitempty" minimum:"0" maximum:"20" doc:"How many runs to play, with this seed and those after it; 1 when absent. As many are played as fit into the time of one that takes longest. 0: none, the outage is only checked."`
	Until       string  `json:"until,omitempty" doc:"How much of the run arrivals and delivered show, 10s to 720h; all of it when absent."`
}

const (
	defaultOutage   = 5 * time.Minute
	defaultLatency  = 200 * time.Millisecond
	defaultRate     = 50
	defaultCapacity = 100
	defaultSeed     = 1
)

// Bounds of one run. A step takes about 0.6 µs and an event that waits about 300
// bytes, so that a run ends within 2 s of one core and 60 MB of data even on slow
// machines.
const (
	maxSteps   = 2_000_000
	maxWaiting = 150_000 // events
	maxOutage  = 24 * time.Hour
	maxHeld    = 100_000 // events of the outage
	maxPoints  = 300     // of a series

	// patience is how long a run may take where it hardly gets a core, turn how long
	// others wait for theirs.
	patience = 20 * time.Second
	turn     = 5 * time.Second
)

// minHorizon is how long to look after the recovery even if there is little to drain.
const minHorizon = 30 * time.Minute

// before is how long ordinary traffic is shown before the outage.
const before = 2 * time.Minute

// Bench plays one outage at a time, and remembers the latest: a run that was played
// comes out the same again.
type Bench struct {
	most sim.Limits    // of a run
	free chan struct{} // also guards what follows

	known  map[[sha256.Size]byte]played
	oldest [][sha256.Size]byte // keys of known
}

// played is what came out of a request.
type played struct {
	v   *view.Simulation
	err error // it takes too long, and will again
}

// maxKnown is how many runs are remembered, of some 5 KB each.
const maxKnown = 64

// New returns a bench that nobody uses.
func New() *Bench {
	return &Bench{
		most: sim.Limits{Steps: maxSteps, Events: maxWaiting},
		free: make(chan struct{}, 1), known: make(map[[sha256.Size]byte]played),
	}
}

// Play runs the outage for a policy. What is wrong with the request is a *rest.Invalid
// with paths under simulate, and so is a run that would take too long.
func (b *Bench) Play(ctx context.Context, p *policy.Policy, in *Outage) (*view.Simulation, error) {
	scenario, strategy, until, err := in.read(p)
	if err != nil || in.runs() == 0 {
		return nil, err
	}
	if err := b.wait(ctx); err != nil {
		return nil, err
	}
	defer func() { <-b.free }()
	key, err := keyOf(p, in)
	if err != nil {
		return nil, err
	}
	if p, known := b.known[key]; known {
		return p.v, p.err
	}
	first, runs, err := b.play(ctx, scenario, strategy, in)
	if err != nil {
		if _, refused := errors.AsType[*rest.Invalid](err); refused {
			b.remember(key, played{err: err})
		}
		return nil, err
	}
	v := show(&first, in, until)
	summarize(v, runs)
	b.remember(key, played{v: v})
	return v, nil
}

// runs is how many were asked for.
func (in *Outage) runs() int {
	if in.Runs == nil {
		return 1
	}
	return *in.Runs
}

// play runs the outage with one seed after the other. All runs together may take as many
// steps as one: how many there are does not depend on the machine, unless it hardly
// gives us a core.
func (b *Bench) play(ctx context.Context, scenario *sim.Scenario, strategy sim.Strategy, in *Outage) (first sim.Result, all []view.RunFigures, err error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	seed, left := cmp.Or(in.Seed, defaultSeed), b.most
	for range in.runs() {
		r, err := sim.RunWithin(limited, *scenario, strategy, seed, left)
		switch {
		case err == nil:
		case ctx.Err() == nil && len(all) > 0:
			return first, all, nil
		case errors.Is(err, sim.ErrTooMany):
			return first, nil, rest.FieldError("simulate", "too_expensive", fmt.Sprintf(
				"lets more than %d events wait: under this policy they come faster than they leave, or the outage is too long for the rate", b.most.Events))
		case errors.Is(err, sim.ErrTooLong):
			return first, nil, rest.FieldError("simulate", "too_expensive",
				"takes more than 2 s of computing: lower the rate, shorten the outage, or leave more capacity to drain the backlog with")
		default:
			return first, nil, fmt.Errorf("simulate: %w", err)
		}
		if len(all) == 0 {
			first = r
		}
		f, _ := figures(&r)
		all = append(all, f)
		seed++
		if left.Steps -= r.Steps; left.Steps <= 0 { // none would be no limit
			break
		}
	}
	return first, all, nil
}

// keyOf tells runs apart: by policy and outage.
func keyOf(p *policy.Policy, in *Outage) ([sha256.Size]byte, error) {
	text, err := json.Marshal([]any{p, in})
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("simulate: %w", err)
	}
	return sha256.Sum256(text), nil
}

// remember keeps a run, in place of the oldest if there are many. Nobody changes it
// any more.
func (b *Bench) remember(key [sha256.Size]byte, p played) {
	if len(b.oldest) == maxKnown {
		delete(b.known, b.oldest[0])
		b.oldest = append(b.oldest[:0], b.oldest[1:]...)
	}
	b.known[key] = p
	b.oldest = append(b.oldest, key)
}

// wait takes the bench, or says that others use it.
func (b *Bench) wait(ctx context.Context) error {
	patience := time.NewTimer(turn)
	defer patience.Stop()
	select {
	case b.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("simulate: %w", ctx.Err())
	case <-patience.C:
		return rest.Later(http.StatusServiceUnavailable, "overloaded", "other simulations are running; one runs at a time", 2*time.Second)
	}
}

// read checks what was asked for.
func (in *Outage) read(p *policy.Policy) (*sim.Scenario, sim.Strategy, time.Duration, error) {
	bad := &rest.Invalid{}
	outage := duration(bad, "simulate.outage", in.Outage, defaultOutage, time.Second, maxOutage)
	latency := duration(bad, "simulate.latency", in.Latency, defaultLatency, time.Millisecond, 30*time.Second)
	until := duration(bad, "simulate.until", in.Until, 0, 10*time.Second, 720*time.Hour)
	rate, capacity := cmp.Or(in.Rate, defaultRate), cmp.Or(in.Capacity, defaultCapacity)
	switch {
	case rate > 0.99*capacity:
		bad.Add("simulate.rate", "out_of_range", "must be at most 99 % of capacity: nothing would be left to drain a backlog with")
	case rate < capacity/1000:
		bad.Add("simulate.rate", "out_of_range", "must be at least a thousandth of capacity")
	case rate*outage.Seconds() > maxHeld:
		bad.Add("simulate.outage", "out_of_range", fmt.Sprintf("must not hold more than %d events: at this rate at most %s",
			maxHeld, quantity.FormatDuration(time.Duration(maxHeld/rate)*time.Second)))
	}
	if err := bad.Err(); err != nil {
		return nil, sim.Strategy{}, 0, err
	}
	s := scenarioOf(cmp.Or(in.Destination, "queue"), rate, capacity, latency, outage)
	if err := s.Check(); err != nil {
		return nil, sim.Strategy{}, 0, under("simulate", err)
	}
	st, err := sim.Send(cmp.Or(in.Strategy, "law"), *p)
	if err != nil {
		return nil, sim.Strategy{}, 0, rest.FieldError("simulate.strategy", "unknown", err.Error())
	}
	return s, st, until, nil
}

// under says where in the request something is that the simulator refuses.
func under(path string, err error) error {
	refused, ok := errors.AsType[*hook.Invalid](err)
	if !ok {
		return err
	}
	bad := &rest.Invalid{}
	for _, f := range refused.Fields {
		bad.Add(path+"."+f.Path, "invalid", f.Message)
	}
	return bad
}

func duration(bad *rest.Invalid, path, text string, absent, low, high time.Duration) time.Duration {
	if text == "" {
		return absent
	}
	d, err := quantity.ParseDuration(text)
	switch {
	case err != nil:
		bad.Add(path, "invalid_format", quantity.ErrDuration.Error())
	case d < low || d > high:
		bad.Add(path, "out_of_range", "must be "+quantity.Between(low, high))
	default:
		return d
	}
	return absent
}

// scenarioOf is the destination and what befalls it.
func scenarioOf(destination string, rate, capacity float64, latency, outage time.Duration) *sim.Scenario {
	s := sim.Base()
	s.Name, s.Goals, s.Batch, s.Timeout = destination, "", 0, 0 // the policy has the timeout
	s.Capacity, s.Load, s.Latency = capacity, rate/capacity, sim.Duration(latency)
	s.Outages = []sim.Outage{{At: sim.Duration(before), For: sim.Duration(outage)}}
	// Whatever has not drained by then is taken not to drain: a sender that knew the
	// capacity would need a third of it.
	drain := rate * outage.Seconds() / (capacity - rate)
	s.Horizon = sim.Duration(time.Duration(3*drain)*time.Second + minHorizon)
	switch destination {
	case "cold":
		s.Warmup = sim.Warmup{From: 0.3, Over: sim.Duration(2 * time.Minute)}
	case "black_hole":
		s.Outages[0].BlackHole = true
	case "cliff":
		s.LatencyCV, s.Crash, s.Cliff = 0, sim.Crash{}, sim.Cliff{Mode: sim.CliffCrash, For: sim.Duration(10 * time.Second)}
	case "refuse":
		s.LatencyCV, s.Crash, s.Cliff = 0, sim.Crash{}, sim.Cliff{Mode: sim.CliffRefuse}
	case "throttle":
		// What it could serve is far above what it lets pass.
		const room = 10
		s.Crash, s.Capacity, s.Load = sim.Crash{}, room*capacity, rate/(room*capacity)
		s.RateLimit = sim.RateLimit{PerSecond: capacity, Burst: capacity, RetryAfter: sim.Duration(time.Second)}
	}
	return &s
}
