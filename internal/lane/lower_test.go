package lane_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lane"
)

// counts returns an endpoint that bears so many requests per second, counted over a
// window, and is down for ten seconds when there is one more.
func (r *road) counts(perSecond float64, window time.Duration, crashes *int) func(int) lane.Outcome {
	var until time.Time
	var served []time.Time
	return func(load int) lane.Outcome {
		if r.now.Before(until) {
			return down(load)
		}
		for len(served) > 0 && !served[0].After(r.now.Add(-window)) {
			served = served[1:]
		}
		if served = append(served, r.now); float64(len(served)) <= perSecond*window.Seconds() {
			return ok(load)
		}
		*crashes++
		served, until = nil, r.now.Add(10*time.Second)
		return down(load)
	}
}

// refuses returns an endpoint that takes so many requests per second, counted over a window,
// and refuses the rest.
func (r *road) refuses(perSecond float64, window time.Duration) func(int) lane.Outcome {
	var served []time.Time
	return func(load int) lane.Outcome {
		for len(served) > 0 && !served[0].After(r.now.Add(-window)) {
			served = served[1:]
		}
		if float64(len(served)) >= perSecond*window.Seconds() {
			return down(load)
		}
		served = append(served, r.now)
		return ok(load)
	}
}

// buffers returns an endpoint that takes what comes, works off so many requests per second,
// and is down for ten seconds, and all it has taken gone, when more than so many wait in it.
func (r *road) buffers(perSecond, most float64, crashes *int) func(int) lane.Outcome {
	var until, at time.Time
	waiting := 0.0
	return func(load int) lane.Outcome {
		if r.now.Before(until) {
			return down(load)
		}
		waiting = max(0, waiting-perSecond*r.now.Sub(at).Seconds()) + 1
		if at = r.now; waiting <= most {
			return ok(load)
		}
		*crashes++
		waiting, until = 0, r.now.Add(10*time.Second)
		return down(load)
	}
}

// drains runs until nothing waits, at most for so long, and returns how long it took.
func (r *road) drains(most time.Duration) time.Duration {
	from := r.now
	for r.l.Queued() > 5 || r.l.State() != lane.Closed {
		if r.run(time.Second, nil); r.now.Sub(from) > most {
			return math.MaxInt64
		}
	}
	return r.now.Sub(from)
}

// TestLimitOfManySeconds: an endpoint may bear bursts of seconds and fall all the same.
// What it bears is found within a few falls, and not forgotten by the next owner.
func TestLimitOfManySeconds(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute} {
		least := 68.0
		if window == 2*time.Second {
			least = 75
		}
		isFound(t, window.String(), least, 0, func(r *road, crashes *int) { r.answer = r.counts(100, window, crashes) })
	}
}

// TestBufferThatFills: so it is where an endpoint is broken by what it has taken and not done.
func TestBufferThatFills(t *testing.T) {
	t.Parallel()
	for _, most := range []float64{50, 200, 500} {
		isFound(t, fmt.Sprint(most), 68, 1, func(r *road, crashes *int) { r.answer = r.buffers(100, most, crashes) })
	}
}

// TestBufferOfManySeconds: where each drain lasts for minutes before the buffer is full, what
// is borne is found in small steps. Such falls are not taken for the endpoint's own.
func TestBufferOfManySeconds(t *testing.T) {
	t.Parallel()
	for _, live := range []float64{50, 80} {
		r, crashes := newRoad(drive(t, wide()), live, nil), 0
		r.answer = r.buffers(100, 2000, &crashes)
		r.run(2*time.Minute, nil)
		for again, most := range []int{10, 1} {
			crashes = 0
			r.outage(10 * time.Minute)
			if took := r.drains(time.Hour); crashes > most || took == math.MaxInt64 {
				t.Errorf("%v/s, outage %d: %d crashes, drained: %v; want at most %d, and an end", live, again+1, crashes, took < math.MaxInt64, most)
			}
			r.run(10*time.Minute, nil)
		}
	}
}

// TestEnduredIsNotTooMuch: what a drain has borne for minutes until the endpoint fell is not
// blamed for a fall that comes sooner.
func TestEnduredIsNotTooMuch(t *testing.T) {
	t.Parallel()
	for lasted, suspected := range map[time.Duration]bool{80 * time.Second: true, 2 * time.Minute: false} {
		r := newRoad(drive(t, wide()), 50, ok)
		r.run(time.Minute, nil)
		r.outage(time.Hour)
		r.run(lasted, nil)
		r.outage(10 * time.Second)
		r.run(40*time.Second, nil)
		before := r.l.Checkpoint()
		r.outage(10 * time.Second)
		if c := r.l.Checkpoint(); (c.Ceiling != before.Ceiling) != suspected {
			t.Errorf("%v, then a fall after 40 s: the ceiling is %.0f, was %.0f; want a change: %v", lasted, c.Ceiling, before.Ceiling, suspected)
		}
	}
}

// TestWindowThatRefuses: one that refuses what is too much for some seconds, and is not hurt by
// it, falls as soon after each close as the time before. That is no chance, however often it
// seemed to fall by itself, and its backlog ends.
func TestWindowThatRefuses(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second, 8 * time.Second} {
		for _, live := range []float64{70, 80, 85} {
			r := newRoad(drive(t, wide()), live, nil)
			r.answer = r.refuses(100, window)
			r.run(2*time.Minute, nil)
			for range 2 {
				r.outage(10 * time.Second)
				r.run(time.Minute, nil)
			}
			r.outage(30 * time.Second)
			if r.drains(8*time.Duration(30*live/(100-live))*time.Second) == math.MaxInt64 {
				t.Errorf("%v of 100/s over %v: the backlog does not end", live, window)
			}
		}
	}
}

// isFound judges outages of an endpoint that bears 100 per second for longer: at most five
// crashes in the first, and in the second, under a new owner, at most so many again; one if
// the first has taught nothing.
func isFound(t *testing.T, name string, least float64, again int, build func(r *road, crashes *int)) {
	t.Helper()
	for live, outage := range map[float64]time.Duration{30: 10 * time.Minute, 50: 10 * time.Minute, 80: 30 * time.Second, 85: 30 * time.Second} {
		t.Run(fmt.Sprintf("%s, %v/s", name, live), func(t *testing.T) {
			t.Parallel()
			r, crashes := newRoad(drive(t, wide()), live, nil), 0
			build(r, &crashes)
			r.run(2*time.Minute, nil)
			optimum := time.Duration(float64(outage) * live / (100 - live))
			r.outage(outage)
			if took := r.drains(8 * optimum); crashes > 5 || took == math.MaxInt64 {
				t.Fatalf("%d crashes, drained: %v; want at most 5, and an end", crashes, took < math.MaxInt64)
			}
			if c := r.l.Checkpoint(); crashes > 1 && c.Ceiling < least {
				t.Errorf("the ceiling is %.0f, want at least %.0f", c.Ceiling, least)
			}
			most := again
			if crashes <= 1 {
				most = 1
			}
			queued := r.l.Queued()
			r.l, r.flying = lane.Restore(wide(), r.l.Checkpoint(), r.now, 0.5, true), nil
			r.await(queued)
			r.run(10*time.Minute, nil)
			crashes = 0
			r.outage(outage)
			if took := r.drains(4 * optimum); crashes > most || took == math.MaxInt64 {
				t.Errorf("the second time: %d crashes, drained: %v; want at most %d, and an end", crashes, took < math.MaxInt64, most)
			}
		})
	}
}

// draining returns a lane that begins to drain what an outage of ten minutes has left.
func draining(t *testing.T, before func(*road)) *road {
	t.Helper()
	r := newRoad(drive(t, wide()), 50, ok)
	r.run(time.Minute, nil)
	before(r)
	r.outage(10 * time.Minute)
	for r.l.State() != lane.Closed {
		r.run(100*time.Millisecond, nil)
	}
	return r
}

// TestFrailEndpointIsNotPressed: one that falls at what it is used to, and again, falls in a
// drain for the same reasons.
func TestFrailEndpointIsNotPressed(t *testing.T) {
	t.Parallel()
	for apart, suspected := range map[time.Duration]bool{5 * time.Minute: false, 40 * time.Minute: true} {
		r := draining(t, func(r *road) {
			r.outage(10 * time.Second)
			r.run(apart, nil)
		})
		r.run(30*time.Second, nil)
		r.outage(10 * time.Second)
		if c := r.l.Checkpoint(); (c.Mark > 0) != suspected {
			t.Errorf("a fall in a drain, one %v before the outage: the mark is %.0f, want one: %v", apart, c.Mark, suspected)
		}
	}
}

// TestFallsThatNothingHelps: an endpoint that falls however little it is sent falls by itself,
// and is then left alone.
func TestFallsThatNothingHelps(t *testing.T) {
	t.Parallel()
	r := draining(t, func(*road) {})
	fall := func() lane.Checkpoint {
		r.run(25*time.Second, nil)
		r.outage(5 * time.Second)
		for r.l.State() != lane.Closed {
			r.run(100*time.Millisecond, nil)
		}
		return r.l.Checkpoint()
	}
	falls, known := 0, 0
	for c := fall(); c.Ceiling > 0 || known == 0; c = fall() {
		if c.CeilingSure() {
			known++
		}
		if falls++; falls > 12 {
			t.Fatalf("after %d falls the ceiling is %.0f, want none", falls, c.Ceiling)
		}
	}
	for i := range 5 {
		if c := fall(); c.Ceiling > 0 {
			t.Fatalf("%d falls after it was given up the ceiling is %.0f again", i+1, c.Ceiling)
		}
	}
}

// TestFallsAtDifferentLoads: an endpoint that falls twice while it is sent more and more, at
// loads that are not alike, is kept below the lower one.
func TestFallsAtDifferentLoads(t *testing.T) {
	t.Parallel()
	r := draining(t, func(*road) {})
	for _, over := range []int{150, 300} {
		if c := r.l.Checkpoint(); c.CeilingSure() {
			t.Fatalf("a ceiling of %.0f is known before it has fallen twice", c.Ceiling)
		}
		crashes := 0
		for r.answer = r.cliff(over, &crashes); crashes == 0 || r.l.State() == lane.Closed; {
			r.run(50*time.Millisecond, nil)
		}
	}
	if c := r.l.Checkpoint(); !c.CeilingSure() || math.Abs(c.Ceiling-150) > 5 {
		t.Errorf("after a second fall the ceiling is %.0f, known: %v; want 150", c.Ceiling, c.CeilingSure())
	}
}

// TestPeakBeforeTheOutage: what live traffic did when an outage began is no load that its
// backlog has to stay below.
func TestPeakBeforeTheOutage(t *testing.T) {
	t.Parallel()
	crashes := 0
	r := draining(t, func(r *road) {
		r.live = 80
		r.run(900*time.Millisecond, nil)
		r.outage(time.Second)
		r.live = 50
		if c := r.l.Checkpoint(); c.Mark < 65 || c.Mark > 85 {
			r.t.Fatalf("the mark is %.0f, want the peak", c.Mark)
		}
	})
	for r.answer = r.cliff(250, &crashes); crashes == 0 || r.l.State() == lane.Closed; {
		r.run(50*time.Millisecond, nil)
	}
	if c := r.l.Checkpoint(); c.Ceiling > 0 && c.Ceiling < 200 {
		t.Errorf("the ceiling is %.0f, want none, or 250", c.Ceiling)
	}
}

// TestLoweringBeginsAnew: how often a ceiling was lowered in a drain says nothing of the
// next one.
func TestLoweringBeginsAnew(t *testing.T) {
	t.Parallel()
	r := draining(t, func(*road) {})
	fall := func() (was, is float64) {
		r.run(25*time.Second, nil)
		was = float64(r.load(r.now))
		r.outage(10 * time.Second)
		return was, r.l.Checkpoint().Ceiling
	}
	fall()
	r.run(20*time.Second, nil)
	fall()
	if r.drains(time.Hour) == math.MaxInt64 {
		t.Fatal("it does not drain")
	}
	r.run(2*time.Hour, nil)
	r.outage(10 * time.Minute)
	for r.l.State() != lane.Closed {
		r.run(100*time.Millisecond, nil)
	}
	if was, is := fall(); is < 0.74*was {
		t.Errorf("a fall at %.0f/s, hours after others: the ceiling is %.0f, want three quarters", was, is)
	}
}
