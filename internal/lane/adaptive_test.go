package lane_test

import (
	"math"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

func adaptive() lane.Config {
	cfg := config()
	cfg.Fixed, cfg.Limit = false, 0
	cfg.Initial, cfg.Max = 10, 100
	return cfg
}

// endpoint is the simplest model: so many servers, each taking the same time,
// and a queue. It drives a lane in virtual time.
type endpoint struct {
	d       *driver
	servers int
	service time.Duration
	free    []time.Time // when each server is free
	flying  []flying
	most    int
	// ours is set when the queue is for connections of our own.
	ours bool
	// started counts how often the lane said that its slow start is over.
	started int
}

type flying struct {
	dec  lane.Decision
	from time.Time
	till time.Time
}

func newEndpoint(d *driver, servers int, service time.Duration) *endpoint {
	return &endpoint{d: d, servers: servers, service: service, free: make([]time.Time, servers)}
}

// run keeps the lane busy for a while, with more work than it can send.
func (e *endpoint) run(d time.Duration) {
	end := e.d.now.Add(d)
	for e.d.now.Before(end) {
		for e.d.l.Queued() < 200 {
			e.d.arrive(50)
		}
		for {
			dec := e.d.l.Next(e.d.now, math.MaxInt)
			if !dec.Send {
				break
			}
			e.start(dec)
		}
		e.most = max(e.most, len(e.flying))
		e.step()
	}
}

func (e *endpoint) start(dec lane.Decision) {
	first := 0
	for i := range e.free {
		if e.free[i].Before(e.free[first]) {
			first = i
		}
	}
	begin := e.d.now
	if e.free[first].After(begin) {
		begin = e.free[first]
	}
	e.free[first] = begin.Add(e.service)
	e.flying = append(e.flying, flying{dec, e.d.now, e.free[first]})
}

// step goes to the next answer or wake-up.
func (e *endpoint) step() {
	next := -1
	for i := range e.flying {
		if next < 0 || e.flying[i].till.Before(e.flying[next].till) {
			next = i
		}
	}
	wake := e.d.l.Wake(e.d.now)
	if next < 0 || !wake.IsZero() && wake.Before(e.flying[next].till) {
		e.d.now = wake
		return
	}
	f := e.flying[next]
	e.flying = append(e.flying[:next], e.flying[next+1:]...)
	e.d.now = f.till
	o := lane.Outcome{Class: hook.Success, RTT: f.till.Sub(f.from)}
	if e.ours && o.RTT > e.service {
		o.RTT, o.Waited = e.service, true
	}
	if e.d.l.Result(e.d.now, 0.5, f.dec.Tag, o).SlowStartDone {
		e.started++
	}
}

func TestNewLaneStartsWithOneRequest(t *testing.T) {
	t.Parallel()
	d := drive(t, adaptive())
	d.arrive(20)
	dec := d.send()
	d.quiet()
	for range 8 { // the first cohort goes one after the other and sets the base
		d.now = d.now.Add(200 * time.Millisecond)
		d.l.Result(d.now, 0.5, dec.Tag, lane.Outcome{Class: hook.Success, RTT: 200 * time.Millisecond})
		dec = d.send()
	}
	if base := d.l.Checkpoint().BaseLatency; base.Round(time.Millisecond) != 200*time.Millisecond {
		t.Errorf("base latency is %v, want 200ms", base)
	}
	if d.l.Limit() <= 1 {
		t.Errorf("limit is %v after a calm cohort, want it to grow", d.l.Limit())
	}
}

// TestLimitFindsTheCapacity: with more work than it can take, the endpoint is
// used fully and its queue stays short.
func TestLimitFindsTheCapacity(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		servers int
		service time.Duration
	}{
		"ten servers":      {10, 200 * time.Millisecond},
		"ten fast servers": {10, 20 * time.Millisecond},
		"forty servers":    {40, 100 * time.Millisecond},
		"ten slow ones":    {10, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := drive(t, adaptive())
			e := newEndpoint(d, tc.servers, tc.service)
			e.run(3 * time.Minute)
			limit := d.l.Limit()
			if limit < 0.9*float64(tc.servers) || limit > 3*float64(tc.servers)+3 {
				t.Errorf("limit is %.1f for %d servers", limit, tc.servers)
			}
			base := d.l.Checkpoint().BaseLatency
			if base > tc.service*3/2 {
				t.Errorf("base latency is %v, the endpoint takes %v", base, tc.service)
			}
		})
	}
}

// TestLimitStopsWhereConnectionsEnd: when requests wait for a connection of our
// own their latency says nothing, and more of them would only wait as well.
func TestLimitStopsWhereConnectionsEnd(t *testing.T) {
	t.Parallel()
	d := drive(t, adaptive())
	e := newEndpoint(d, 10, 100*time.Millisecond)
	e.ours = true
	e.run(3 * time.Minute)
	if limit := d.l.Limit(); limit < 10 || limit > 30 {
		t.Errorf("limit is %.1f with 10 connections", limit)
	}
}

func TestLimitNeverExceedsItsMaximum(t *testing.T) {
	t.Parallel()
	cfg := adaptive()
	cfg.Max = 6
	d := drive(t, cfg)
	e := newEndpoint(d, 100, 50*time.Millisecond)
	e.run(time.Minute)
	if e.most != 6 {
		t.Errorf("at most %d requests at once, want 6", e.most)
	}
}

func TestCloseStartsAtOne(t *testing.T) {
	t.Parallel()
	d := drive(t, adaptive())
	e := newEndpoint(d, 20, 100*time.Millisecond)
	e.run(time.Minute)
	if d.l.Limit() < 10 {
		t.Fatalf("limit is %v after a minute of work", d.l.Limit())
	}
	d.l.Reset(d.now)
	if d.l.Limit() != 1 || !d.l.SlowStart() {
		t.Errorf("limit %v, slow start %v right after a close; want 1 and true", d.l.Limit(), d.l.SlowStart())
	}
	if e.started != 0 {
		t.Errorf("a lane that was never open told %d times that it has recovered", e.started)
	}
	e.run(3 * time.Minute)
	if e.started != 1 {
		t.Errorf("the end of slow start was told %d times after a close, want once", e.started)
	}
}

// TestOwnQueueIsNoSlowEndpoint: at the least limit of three, an endpoint with one
// server has a queue of our own making. Taken for its latency without load it
// would let the limit grow.
func TestOwnQueueIsNoSlowEndpoint(t *testing.T) {
	t.Parallel()
	const service = 100 * time.Millisecond
	d := drive(t, adaptive())
	e := newEndpoint(d, 1, service)
	for range 600 {
		e.run(time.Second)
		// It would be three times the service time.
		if base := d.l.Checkpoint().BaseLatency; base > service*9/5 {
			t.Fatalf("after %v the base latency is %v, the endpoint takes %v", d.now.Sub(start), base, service)
		}
	}
	if e.most > 6 {
		t.Errorf("up to %d requests at once for one server", e.most)
	}
}

// TestSlowerEndpointIsNoticedAfterAClose: one request in flight has no queue of
// ours, so a slow answer to it is the endpoint's own.
func TestSlowerEndpointIsNoticedAfterAClose(t *testing.T) {
	t.Parallel()
	d := drive(t, adaptive())
	e := newEndpoint(d, 10, 100*time.Millisecond)
	e.run(time.Minute)
	d.l.Drop()
	for len(e.flying) > 0 {
		e.step()
	}
	d.l.Reset(d.now)
	e.service = 400 * time.Millisecond
	e.run(10 * time.Second)
	if base := d.l.Checkpoint().BaseLatency; (base - e.service).Abs() > e.service/10 {
		t.Errorf("the base latency is %v ten seconds after the close, the endpoint takes %v", base, e.service)
	}
	if d.l.Limit() < 8 {
		t.Errorf("the limit is %.1f ten seconds after the close, for ten servers", d.l.Limit())
	}
}

// TestBusyMachineIsNoSlowEndpoint: answers that come after ten milliseconds
// instead of one say as much of ourselves as of the endpoint. Those that come
// after thirty do tell of a queue.
func TestBusyMachineIsNoSlowEndpoint(t *testing.T) {
	t.Parallel()
	cfg := adaptive()
	cfg.Max = 16
	d := drive(t, cfg)
	e := newEndpoint(d, 20, time.Millisecond)
	e.run(8 * time.Second)
	before := d.l.Limit()
	e.service = 10 * time.Millisecond
	e.run(10 * time.Second)
	if after := d.l.Limit(); after < before {
		t.Errorf("limit %.0f after answers of 10 ms, %.0f before", after, before)
	}
	before, e.service = d.l.Limit(), 30*time.Millisecond
	e.run(10 * time.Second)
	if after := d.l.Limit(); after > before/2 {
		t.Errorf("limit %.0f after answers of 30 ms, %.0f before", after, before)
	}
}

// TestFewFailuresDoNotHalve: one failure in twenty is not overload, four are.
func TestFewFailuresDoNotHalve(t *testing.T) {
	t.Parallel()
	d := drive(t, adaptive())
	e := newEndpoint(d, 20, 100*time.Millisecond)
	e.run(time.Minute)
	before := d.l.Limit()
	fail := func() {
		d.arrive(1)
		dec := d.l.Next(d.now, math.MaxInt)
		for !dec.Send {
			e.step()
			dec = d.l.Next(d.now, math.MaxInt)
		}
		d.l.Result(d.now, 0.5, dec.Tag, lane.Outcome{Class: hook.Down})
	}
	for range 3 {
		fail()
	}
	if d.l.Limit() < before {
		t.Errorf("limit fell from %.1f to %.1f after 3 failures", before, d.l.Limit())
	}
	fail()
	if got := d.l.Limit(); got > 0.6*before {
		t.Errorf("limit is %.1f after 4 failures among 20, want half of %.1f", got, before)
	}
}

func TestRestoreByANewOwnerHalves(t *testing.T) {
	t.Parallel()
	d := drive(t, adaptive())
	newEndpoint(d, 20, 100*time.Millisecond).run(time.Minute)
	cp := d.l.Checkpoint()
	if got := lane.Restore(adaptive(), cp, d.now, 0, true).Limit(); got > max(1, cp.Limit/2) {
		t.Errorf("limit of a new owner is %.1f, want at most half of %.1f", got, cp.Limit)
	}
	if got := lane.Restore(adaptive(), cp, d.now, 0, false).Limit(); got != cp.Limit {
		t.Errorf("limit of the same owner is %.1f, want %.1f", got, cp.Limit)
	}
}

// TestIdleLimitDecays: a limit that nothing confirmed for long is not trusted.
func TestIdleLimitDecays(t *testing.T) {
	t.Parallel()
	d := drive(t, adaptive())
	e := newEndpoint(d, 60, 100*time.Millisecond)
	e.run(2 * time.Minute)
	d.l.Drop()
	for len(e.flying) > 0 {
		e.step()
	}
	high := d.l.Limit()
	d.now = d.now.Add(11 * time.Minute)
	d.arrive(1)
	d.send()
	if got := d.l.Limit(); got >= high || got > 20 {
		t.Errorf("limit after 11 idle minutes is %.1f, was %.1f", got, high)
	}
}

// TestPaceFindsTheRate: a destination that throttles above 20 a second with
// Retry-After is sent close to that, with few throttled answers, and never
// inside a Retry-After.
func TestPaceFindsTheRate(t *testing.T) {
	t.Parallel()
	const perSecond, retryAfter = 20.0, 2 * time.Second
	cfg := adaptive()
	d := drive(t, cfg)
	tokens, at := perSecond, d.now
	var ok, throttled int
	var notBefore time.Time
	begin := d.now
	for d.now.Sub(begin) < 10*time.Minute {
		for d.l.Queued() < 50 {
			d.arrive(50)
		}
		dec := d.l.Next(d.now, math.MaxInt)
		if !dec.Send {
			if wake := d.l.Wake(d.now); !wake.IsZero() {
				d.now = wake
				continue
			}
			t.Fatal("neither a request nor a wake-up")
		}
		if d.now.Before(notBefore) {
			t.Fatalf("request %v before the end of a Retry-After", notBefore.Sub(d.now))
		}
		tokens = min(perSecond, tokens+d.now.Sub(at).Seconds()*perSecond)
		at = d.now
		d.now = d.now.Add(5 * time.Millisecond)
		if tokens < 1 {
			throttled++
			notBefore = d.now.Add(retryAfter)
			d.l.Result(d.now, 0.5, dec.Tag, lane.Outcome{Class: hook.Throttle, Hold: retryAfter + 500*time.Millisecond, RetryAfter: retryAfter})
			continue
		}
		tokens--
		ok++
		d.l.Result(d.now, 0.5, dec.Tag, lane.Outcome{Class: hook.Success, RTT: 5 * time.Millisecond})
	}
	if rate := float64(ok) / 600; rate < 0.8*perSecond {
		t.Errorf("%.1f requests a second got through, the destination takes %v", rate, perSecond)
	}
	if share := float64(throttled) / float64(ok); share > 0.02 {
		t.Errorf("%.3f throttled answers per event, want at most 0.02", share)
	}
}

func TestRateLimitOfTheOperator(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Limit, cfg.Rate, cfg.Burst = 1000, 5, 10
	d := drive(t, cfg)
	d.arrive(1000)
	sent := 0
	for d.now.Sub(start) <= 10*time.Second {
		if d.l.Next(d.now, math.MaxInt).Send {
			sent++
			continue
		}
		wake := d.l.Wake(d.now)
		if wake.IsZero() {
			t.Fatal("no wake-up while the rate is used up")
		}
		d.now = wake
	}
	if sent < 59 || sent > 61 {
		t.Errorf("%d requests in 10s, want a burst of 10 and 5 a second", sent)
	}
}

func TestDisableAfterLongFailure(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Breaker, cfg.DisableAfter = false, 120*time.Hour
	for name, tc := range map[string]struct {
		classes []hook.Class
		gap     time.Duration
		want    bool
	}{
		"five days of failures":     {repeat(hook.Down, 121), time.Hour, true},
		"not yet":                   {repeat(hook.Down, 119), time.Hour, false},
		"too few attempts":          {repeat(hook.Down, 9), 100 * time.Hour, false},
		"a success in between":      {append(append(repeat(hook.Down, 60), hook.Success), repeat(hook.Down, 100)...), time.Hour, false},
		"throttles are no failures": {repeat(hook.Throttle, 200), time.Hour, false},
		"our own errors are none":   {repeat(hook.Local, 200), time.Hour, false},
		"refusals are failures":     {repeat(hook.Permanent, 130), time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := drive(t, cfg)
			disabled := false
			for _, c := range tc.classes {
				d.arrive(1)
				disabled = disabled || d.result(d.send(), c).Disable
				d.now = d.now.Add(tc.gap)
			}
			if disabled != tc.want {
				t.Errorf("disabled = %v, want %v", disabled, tc.want)
			}
		})
	}
}

func repeat(c hook.Class, n int) []hook.Class {
	out := make([]hook.Class, n)
	for i := range out {
		out[i] = c
	}
	return out
}
