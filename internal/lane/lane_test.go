package lane_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func config() lane.Config {
	return lane.Config{
		Fixed: true, Limit: 3, Breaker: true, Consecutive: 5, WindowFailed: 16, WindowOf: 20,
		ProbeFraction: 0.05, ProbeMin: 2 * time.Second, ProbeMax: time.Minute, ProbeJitter: 0.2,
	}
}

// driver drives a lane and keeps the time.
type driver struct {
	t   *testing.T
	l   *lane.Lane
	now time.Time
	id  hook.ID
}

func drive(t *testing.T, cfg lane.Config) *driver {
	t.Helper()
	return &driver{t: t, l: lane.New(cfg, start), now: start}
}

// arrive hands in n fresh deliveries.
func (d *driver) arrive(n int) {
	for range n {
		d.id++
		d.l.Arrive(lane.Ref{ID: d.id, FirstDue: d.now})
	}
}

// send expects that a request may start.
func (d *driver) send() lane.Decision {
	d.t.Helper()
	dec := d.l.Next(d.now, 1000)
	if !dec.Send {
		d.t.Fatalf("Next at %v sends nothing (%+v), want a request", d.now.Sub(start), dec)
	}
	return dec
}

// quiet expects that no request may start.
func (d *driver) quiet() lane.Decision {
	d.t.Helper()
	dec := d.l.Next(d.now, 1000)
	if dec.Send {
		d.t.Fatalf("Next at %v sends %d, want nothing", d.now.Sub(start), dec.Ref.ID)
	}
	return dec
}

func (d *driver) result(dec lane.Decision, class hook.Class) lane.Change {
	return d.l.Result(d.now, 0.5, dec.Tag, lane.Outcome{Class: class, RTT: 10 * time.Millisecond})
}

// open fails the lane until it opens.
func (d *driver) open() {
	d.t.Helper()
	for range 5 {
		d.arrive(1)
		d.now = d.now.Add(time.Second)
		d.result(d.send(), hook.Down)
	}
	if d.l.State() != lane.Open {
		d.t.Fatalf("state after 5 failures in a row is %v, want open", d.l.State())
	}
}

func TestLimitIsNeverExceeded(t *testing.T) {
	t.Parallel()
	d := drive(t, config())
	d.arrive(10)
	var flying []lane.Decision
	for range 3 {
		flying = append(flying, d.send())
	}
	d.quiet()
	d.result(flying[0], hook.Success)
	d.send()
	d.quiet()
}

func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	d := drive(t, config())
	d.arrive(3)
	if dec := d.l.Next(d.now, 0); !dec.Starved {
		t.Errorf("Next without free slots = %+v, want starved", dec)
	}
	d.send()
	if dec := d.l.Next(d.now, 1); !dec.Starved {
		t.Errorf("Next with 1 in flight and 1 slot left = %+v, want starved: the lane uses as many as are left", dec)
	}
	if dec := d.l.Next(d.now, 2); !dec.Send {
		t.Errorf("Next with 1 in flight and 2 slots left = %+v, want a request", dec)
	}
}

func TestOpensAfterFailuresInARow(t *testing.T) {
	t.Parallel()
	d := drive(t, config())
	d.arrive(20)
	for i := range 4 {
		if c := d.result(d.send(), hook.Down); c.Opened {
			t.Fatalf("opened after %d failures", i+1)
		}
	}
	d.result(d.send(), hook.Success)
	for range 4 {
		d.result(d.send(), hook.Limited)
	}
	d.result(d.send(), hook.Throttle) // neither counts nor resets
	d.now = d.now.Add(5 * time.Second)
	if c := d.result(d.send(), hook.Down); !c.Opened || !c.Save {
		t.Fatalf("change after 5 failures since the last success = %+v, want opened and saved", c)
	}
	d.quiet()
}

func TestOpensByRatioOfFirstAttempts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		charged int
		fails   int
		open    bool
	}{
		"16 of 20 first attempts": {fails: 16, open: true},
		"15 of 20 first attempts": {fails: 15},
		"retries do not count":    {charged: 1, fails: 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := drive(t, config())
			for i := range 20 {
				d.l.Arrive(lane.Ref{ID: hook.ID(i + 1), FirstDue: d.now, Charged: tc.charged})
				class := hook.Success
				if i >= 20-tc.fails {
					class = hook.Retryable
				}
				d.result(d.send(), class)
			}
			if open := d.l.State() == lane.Open; open != tc.open {
				t.Errorf("open = %v, want %v", open, tc.open)
			}
		})
	}
}

func TestBreakerCanBeOff(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Breaker = false
	d := drive(t, cfg)
	for range 50 {
		d.arrive(1)
		d.result(d.send(), hook.Down)
	}
	if d.l.State() != lane.Closed {
		t.Errorf("state = %v, want closed", d.l.State())
	}
}

func TestOpenLaneSendsSingleProbes(t *testing.T) {
	t.Parallel()
	d := drive(t, config())
	d.open()
	d.arrive(5)
	d.now = d.now.Add(1900 * time.Millisecond) // gap is 2 s at u = 0.5
	d.quiet()
	d.now = d.now.Add(200 * time.Millisecond)
	probe := d.send()
	if probe.Kind != hook.Probe || !probe.Tag.Probe || probe.Tag.Closed {
		t.Fatalf("decision = %+v, want a probe that did not start closed", probe)
	}
	if d.l.State() != lane.HalfOpen {
		t.Errorf("state = %v, want half open", d.l.State())
	}
	d.now = d.now.Add(time.Hour)
	d.quiet() // never a second probe beside the first
	if c := d.result(probe, hook.Down); c.Closed || !c.Save {
		t.Errorf("change = %+v, want saved and not closed", c)
	}
	d.l.Return(probe.Ref)
	d.quiet() // 5 % of an hour open, at most a minute
	d.now = d.now.Add(time.Minute)
	next := d.send()
	if c := d.result(next, hook.Success); !c.Closed {
		t.Errorf("change after a good probe = %+v, want closed", c)
	}
	d.send()
}

func TestProbeCarriesNewestNeverFailed(t *testing.T) {
	t.Parallel()
	d := drive(t, config())
	d.open()
	d.l.Drop()
	d.l.Arrive(lane.Ref{ID: 100, FirstDue: d.now.Add(3 * time.Second), FailedAttempts: 2})
	d.l.Arrive(lane.Ref{ID: 101, FirstDue: d.now.Add(1 * time.Second)})
	d.l.Arrive(lane.Ref{ID: 102, FirstDue: d.now.Add(2 * time.Second)})
	d.l.Arrive(lane.Ref{ID: 103, FirstDue: d.now.Add(4 * time.Second), FailedAttempts: 1})
	var got []hook.ID
	for range 4 {
		d.now = d.now.Add(2 * time.Minute)
		p := d.send()
		got = append(got, p.Ref.ID)
		d.result(p, hook.Down)
	}
	if diff := cmp.Diff([]hook.ID{102, 101, 103, 100}, got); diff != "" {
		t.Errorf("order of probes (-want +got):\n%s", diff)
	}
}

func TestProbeOutcomes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		classes []hook.Class
		want    lane.State
	}{
		"success closes":            {[]hook.Class{hook.Success}, lane.Closed},
		"throttle closes":           {[]hook.Class{hook.Throttle}, lane.Closed},
		"down stays open":           {[]hook.Class{hook.Down}, lane.Open},
		"retryable stays open":      {[]hook.Class{hook.Retryable}, lane.Open},
		"local stays open":          {[]hook.Class{hook.Local}, lane.Open},
		"two refusals stay open":    {[]hook.Class{hook.Permanent, hook.Permanent}, lane.Open},
		"three refusals close":      {[]hook.Class{hook.Permanent, hook.Permanent, hook.Permanent}, lane.Closed},
		"refusals must be in a row": {[]hook.Class{hook.Permanent, hook.Permanent, hook.Down, hook.Permanent}, lane.Open},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := drive(t, config())
			d.open()
			for _, c := range tc.classes {
				d.arrive(1)
				d.now = d.now.Add(2 * time.Minute)
				d.result(d.send(), c)
			}
			if d.l.State() != tc.want {
				t.Errorf("state = %v, want %v", d.l.State(), tc.want)
			}
		})
	}
}

func TestProbeGapIsShareOfTimeOpen(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		open time.Duration
		u    float64
		want time.Duration
	}{
		"at least the minimum": {open: 10 * time.Second, u: 0.5, want: 2 * time.Second},
		"a twentieth":          {open: 10 * time.Minute, u: 0.5, want: 30 * time.Second},
		"at most the maximum":  {open: 10 * time.Hour, u: 0.5, want: time.Minute},
		"spread to the early":  {open: 10 * time.Minute, u: 0, want: 24 * time.Second},
		"spread to the late":   {open: 10 * time.Minute, u: 1, want: 36 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := drive(t, config())
			d.open()
			d.now = d.now.Add(tc.open)
			d.arrive(1)
			p := d.send()
			d.l.Result(d.now, tc.u, p.Tag, lane.Outcome{Class: hook.Down})
			d.l.Return(p.Ref)
			if got := d.l.Wake(d.now).Sub(d.now); got != tc.want {
				t.Errorf("next probe in %v, want %v", got, tc.want)
			}
		})
	}
}

func TestReopenSoonGoesOnCounting(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rest time.Duration
		same bool
	}{
		"within a minute": {50 * time.Second, true},
		"later":           {70 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := drive(t, config())
			d.open()
			was := d.l.Checkpoint()
			d.now = d.now.Add(10 * time.Minute)
			d.arrive(1)
			d.result(d.send(), hook.Success)
			d.now = d.now.Add(tc.rest - 5*time.Second)
			d.open()
			is := d.l.Checkpoint()
			if same := is.OpenedAt.Equal(was.OpenedAt); same != tc.same {
				t.Errorf("outage keeps its beginning: %v, want %v", same, tc.same)
			}
			if same := is.BlockedAt.Equal(was.BlockedAt); same != tc.same {
				t.Errorf("hold keeps its beginning: %v, want %v", same, tc.same)
			}
		})
	}
}

func TestHoldStopsEverythingAndNeverShrinks(t *testing.T) {
	t.Parallel()
	d := drive(t, config())
	d.arrive(5)
	a, b := d.send(), d.send()
	d.l.Result(d.now, 0, a.Tag, lane.Outcome{Class: hook.Throttle, Hold: time.Minute, RetryAfter: time.Minute})
	d.l.Result(d.now, 0, b.Tag, lane.Outcome{Class: hook.Throttle, Hold: time.Second, RetryAfter: time.Second})
	d.now = d.now.Add(59 * time.Second)
	d.quiet()
	if since := d.l.BlockedSince(d.now); !since.Equal(start) {
		t.Errorf("blocked since %v, want the moment of the answer", since)
	}
	if wake := d.l.Wake(d.now); !wake.Equal(start.Add(time.Minute)) {
		t.Errorf("wake at %v, want the end of the hold", wake.Sub(start))
	}
	d.now = start.Add(time.Minute)
	d.send()
	if since := d.l.BlockedSince(d.now); !since.IsZero() {
		t.Errorf("blocked since %v after the hold, want not blocked", since)
	}
}

func TestHoldDelaysTheProbeToo(t *testing.T) {
	t.Parallel()
	d := drive(t, config())
	d.open()
	d.arrive(1)
	d.now = d.now.Add(time.Minute)
	p := d.send()
	d.l.Result(d.now, 0.5, p.Tag, lane.Outcome{Class: hook.Retryable, Hold: time.Hour, RetryAfter: time.Hour})
	d.l.Return(p.Ref)
	d.now = d.now.Add(59 * time.Minute)
	d.quiet()
	d.now = d.now.Add(time.Minute)
	d.send()
}

func TestPauseHoldsAndResumeReleases(t *testing.T) {
	t.Parallel()
	d := drive(t, config())
	d.arrive(2)
	d.l.Pause(d.now)
	d.quiet()
	if d.l.BlockedSince(d.now).IsZero() {
		t.Error("a paused lane is not blocked")
	}
	d.l.Resume(d.now)
	d.send()

	d.open()
	d.l.Pause(d.now)
	d.now = d.now.Add(time.Hour)
	d.quiet() // no probes while paused
	d.l.Resume(d.now)
	if d.l.State() != lane.Open {
		t.Errorf("state after resume = %v, want still open", d.l.State())
	}
	if p := d.send(); p.Kind != hook.Probe {
		t.Errorf("kind = %v, want a probe", p.Kind)
	}
}

func TestManualSend(t *testing.T) {
	t.Parallel()
	d := drive(t, config())
	d.arrive(5)
	d.l.Manual(d.now, lane.Ref{ID: 99})
	dec := d.send()
	if dec.Ref.ID != 99 || dec.Kind != hook.Manual || dec.Tag.First {
		t.Errorf("decision = %+v, want delivery 99 ahead of the others, outside the window", dec)
	}
	d.result(dec, hook.Success)
	d.open()
	d.l.Manual(d.now, lane.Ref{ID: 98, FailedAttempts: 7})
	dec = d.send()
	if dec.Ref.ID != 98 || dec.Kind != hook.Manual || !dec.Tag.Probe {
		t.Errorf("decision on an open lane = %+v, want delivery 98 as the probe, at once", dec)
	}
	d.l.Manual(d.now, lane.Ref{ID: 97})
	d.quiet() // not beside a probe in flight
}

func TestLiveGoesBeforeBacklog(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Limit = 1000
	d := drive(t, cfg)
	d.open()
	d.l.Drop()
	old := d.now
	for i := range 100 {
		d.l.Arrive(lane.Ref{ID: hook.ID(1000 + i), FirstDue: old})
	}
	d.now = d.now.Add(time.Hour)
	d.result(d.send(), hook.Success)
	d.now = d.now.Add(time.Second)
	d.arrive(18)
	var backlog []int
	for i := range 20 {
		d.now = d.now.Add(time.Second) // it has just come back, and is paced
		dec := d.send()
		d.result(dec, hook.Success)
		if dec.Ref.ID >= 1000 {
			backlog = append(backlog, i)
		}
	}
	if diff := cmp.Diff([]int{9, 19}, backlog); diff != "" {
		t.Errorf("places of the backlog among 20 sends (-want +got):\n%s", diff)
	}
}

func TestOldGenerationSteersNothing(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Limit = 10
	d := drive(t, cfg)
	d.arrive(10)
	var flying []lane.Decision
	for range 10 {
		flying = append(flying, d.send())
	}
	for _, f := range flying[:5] {
		d.result(f, hook.Down)
	}
	if d.l.State() != lane.Open {
		t.Fatal("not open")
	}
	for _, f := range flying[5:9] {
		d.result(f, hook.Down)
	}
	d.result(flying[9], hook.Success)
	if d.l.State() != lane.Open {
		t.Error("a success from before the opening closed the lane")
	}
	if d.l.InFlight() != 0 {
		t.Errorf("in flight = %d, want 0", d.l.InFlight())
	}
}

func TestFailureDelaysTheRefill(t *testing.T) {
	t.Parallel()
	d := drive(t, config())
	d.arrive(5)
	dec := d.send()
	c := d.l.Result(d.now, 0.5, dec.Tag, lane.Outcome{Class: hook.Down})
	if c.Refill {
		t.Error("a failure of the destination asks for an instant refill")
	}
	if got := d.l.Wake(d.now).Sub(d.now); got != 100*time.Millisecond {
		t.Errorf("wake in %v, want 100ms", got)
	}
}

func TestRestoreKeepsOpenHoldAndOutage(t *testing.T) {
	t.Parallel()
	d := drive(t, config())
	d.open()
	d.l.Result(d.now, 0, lane.Tag{}, lane.Outcome{Class: hook.Success}) // old generation
	cp := d.l.Checkpoint()
	later := d.now.Add(10 * time.Minute)
	r := lane.Restore(config(), cp, later, 0.5, true)
	if r.State() != lane.Open {
		t.Fatalf("state = %v, want open: a crash never closes a breaker", r.State())
	}
	r.Arrive(lane.Ref{ID: 1, FirstDue: later})
	if dec := r.Next(later, 10); dec.Send {
		t.Error("a probe at once after a restore; the old owner may just have sent one")
	}
	if got := r.Wake(later).Sub(later); got != 30*time.Second {
		t.Errorf("next probe in %v, want 30s: a twentieth of the outage", got)
	}

	cp.NextProbeAt = later.Add(3 * time.Second)
	cp.HoldUntil = later.Add(time.Hour)
	r = lane.Restore(config(), cp, later, 0.5, true)
	r.Arrive(lane.Ref{ID: 1, FirstDue: later})
	if dec := r.Next(later.Add(59*time.Minute), 10); dec.Send {
		t.Error("a Retry-After was forgotten by a restore")
	}
	if dec := r.Next(later.Add(time.Hour), 10); !dec.Send {
		t.Error("no probe after the hold")
	}
	if diff := cmp.Diff(cp.BlockedAt, r.Checkpoint().BlockedAt); diff != "" {
		t.Errorf("blocked since changed (-want +got):\n%s", diff)
	}
}

func TestForgetTakesOut(t *testing.T) {
	t.Parallel()
	d := drive(t, config())
	d.arrive(3)
	if !d.l.Forget(2) || d.l.Forget(2) {
		t.Error("Forget must find a waiting delivery once")
	}
	if a, b := d.send().Ref.ID, d.send().Ref.ID; a != 1 || b != 3 {
		t.Errorf("sent %d and %d, want 1 and 3", a, b)
	}
	if dec := d.quiet(); !dec.Empty {
		t.Errorf("decision = %+v, want empty", dec)
	}
}
