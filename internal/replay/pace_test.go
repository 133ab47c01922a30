package replay_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/replay"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var begin = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// course is a replay that is stepped every second, with a destination that
// answers what was fed one second later.
type course struct {
	pacer replay.Pacer
	now   time.Time
	job   hook.ReplayJob
	lane  replay.LaneState
	// answer gets what was fed and says what became of it.
	answer  func(c *hook.ReplayCounts, fed int)
	unheard int
	fed     []int // by second
	states  []string
}

func newCourse() *course {
	return &course{
		now: begin, answer: delivered,
		job: hook.ReplayJob{
			ID: 1, State: hook.ReplayRunning, PerMinute: 100, CurrentPerMinute: 100, Ramp: 2, MaxMultiple: 10,
			PauseErrorPercent: 10, EndID: 1 << 60, Total: 1 << 30, PacedAt: begin, StartedAt: begin,
		},
	}
}

func delivered(c *hook.ReplayCounts, fed int) {
	c.Answers += int64(fed)
	c.Delivered += int64(fed)
}

// failing answers with an error until the delivery is dead.
func failing(c *hook.ReplayCounts, fed int) {
	c.Answers += int64(fed)
	c.Errors += int64(fed)
	c.Failed += int64(fed)
}

func silent(*hook.ReplayCounts, int) {}

// pass runs the course for a while.
func (c *course) pass(d time.Duration) {
	for range int(d / time.Second) {
		c.now = c.now.Add(time.Second)
		c.answer(&c.job.Counts, c.unheard)
		c.unheard = 0
		v := c.pacer.Step(c.now, c.job, c.lane)
		if was := c.status(); v.Changed {
			c.job = v.Job
			if c.status() != was {
				c.states = append(c.states, c.status())
			}
		}
		if v.Feed > 0 {
			c.job.Counts.Fed += int64(v.Feed)
			c.job.PacedAt = v.PacedAt
			c.unheard = v.Feed
		}
		c.fed = append(c.fed, v.Feed)
	}
}

func (c *course) status() string {
	if c.job.PauseReason != "" {
		return string(c.job.PauseReason)
	}
	return c.job.State.String()
}

// perMinute sums up what was fed.
func (c *course) perMinute() (out []int) {
	for i, n := range c.fed {
		if i%60 == 0 {
			out = append(out, 0)
		}
		out[len(out)-1] += n
	}
	return out
}

func (c *course) want(t *testing.T, status string, fed ...int) {
	t.Helper()
	if c.status() != status {
		t.Errorf("the replay is %s, want %s", c.status(), status)
	}
	if diff := cmp.Diff(fed, c.perMinute()); fed != nil && diff != "" {
		t.Errorf("fed per minute (-want +got):\n%s", diff)
	}
}

func TestPaceDoublesAfterCleanMinutes(t *testing.T) {
	t.Parallel()
	c := newCourse()
	c.pass(7 * time.Minute)
	c.want(t, "running", 100, 200, 400, 800, 1000, 1000, 1000)
	// Within a minute it is spread, not sent in one go.
	for i, n := range c.fed[:60] {
		if n > 2 {
			t.Errorf("%d were fed in second %d of the first minute", n, i)
		}
	}
}

// TestPaceKeepsItsEstimate: 50,000 at the default pace take as long as the
// preview says, and never more than the pace of their minute.
func TestPaceKeepsItsEstimate(t *testing.T) {
	t.Parallel()
	const letters = 50_000
	estimate := policy.Pace{PerMinute: 100, Ramp: 2, MaxMultiple: 10}.Estimate(letters, 100)
	if estimate != 3150*time.Second {
		t.Fatalf("the estimate is %v", estimate)
	}
	c := newCourse()
	for c.job.Counts.Fed < letters && c.now.Sub(begin) < 2*estimate {
		pace := c.job.CurrentPerMinute
		c.pass(time.Second)
		if fed := c.fed[len(c.fed)-1]; fed > pace/60+1 {
			t.Fatalf("%d were fed within a second at a pace of %d a minute", fed, pace)
		}
	}
	if took := c.now.Sub(begin); took < estimate-2*time.Second || took > estimate+2*time.Second {
		t.Errorf("took %v, estimated %v", took, estimate)
	}
	if got, want := c.perMinute()[:6], []int{100, 200, 400, 800, 1000, 1000}; !cmp.Equal(got, want) {
		t.Errorf("fed per minute %v, want %v", got, want)
	}
}

func TestPaceWaitsForAnswers(t *testing.T) {
	t.Parallel()
	c := newCourse()
	c.answer = silent
	c.pass(4 * time.Minute)
	c.want(t, "running", 100, 100, 0, 0)
	if c.job.CurrentPerMinute != 100 {
		t.Errorf("the pace grew to %d without an answer", c.job.CurrentPerMinute)
	}
	c.answer = func(counts *hook.ReplayCounts, _ int) { delivered(counts, 1) } // it catches up slowly
	c.pass(time.Minute)
	if got := c.perMinute()[4]; got > 60 || got < 55 {
		t.Errorf("%d were fed while one was answered every second", got)
	}
	if c.job.CurrentPerMinute != 100 {
		t.Errorf("the pace grew to %d while it was held back", c.job.CurrentPerMinute)
	}
}

func TestPaceOfSmallReplays(t *testing.T) {
	t.Parallel()
	c := newCourse()
	c.job.PerMinute, c.job.CurrentPerMinute, c.job.MaxMultiple = 1, 1, 3
	c.pass(5 * time.Minute)
	c.want(t, "running", 1, 1, 2, 3, 3) // the first answer comes in the second minute
}

func TestPaceAlarms(t *testing.T) {
	t.Parallel()
	one := func(answers, errors, refused int64) func(*hook.ReplayCounts, int) {
		return func(c *hook.ReplayCounts, _ int) {
			c.Answers, c.Errors, c.Refused = c.Answers+answers, c.Errors+errors, c.Refused+refused
		}
	}
	for name, tc := range map[string]struct {
		answer func(*hook.ReplayCounts, int)
		lane   replay.LaneState
		want   string
	}{
		"all well":              {delivered, replay.LaneReady, "running"},
		"exactly the limit":     {one(20, 2, 0), replay.LaneReady, "running"},
		"above the limit":       {one(20, 3, 0), replay.LaneReady, "error_rate"},
		"too few to tell":       {one(9, 9, 0), replay.LaneReady, "running"},
		"half refused":          {one(20, 0, 10), replay.LaneReady, "running"},
		"most refused":          {one(20, 0, 11), replay.LaneReady, "stuck"},
		"few refused":           {one(9, 0, 9), replay.LaneReady, "running"},
		"the lane is open":      {delivered, replay.LaneOpen, "breaker"},
		"the endpoint is off":   {delivered, replay.LaneHeld, "endpoint_held"},
		"the endpoint is gone":  {delivered, replay.LaneGone, "cancelled"},
		"the lane starts again": {delivered, replay.LaneSettling, "running"},
	} {
		c := newCourse()
		c.pass(time.Second)
		before := c.job.Counts.Fed
		c.lane = tc.lane
		c.answer = tc.answer
		c.pass(time.Second)
		c.want(t, tc.want)
		if fed := c.job.Counts.Fed - before; (fed > 0) != (tc.want == "running" && tc.lane == replay.LaneReady) {
			t.Errorf("%s: %d were fed", name, fed)
		}
		if paused := c.job.State == hook.ReplayPaused; paused && !c.job.PausedAt.Equal(c.now) {
			t.Errorf("%s: paused at %v", name, c.job.PausedAt)
		}
	}
}

func TestPaceResumes(t *testing.T) {
	t.Parallel()
	c := newCourse()
	c.pass(3 * time.Minute) // at 800 by now
	c.lane = replay.LaneOpen
	c.pass(10 * time.Minute)
	c.want(t, "breaker")
	c.lane = replay.LaneSettling
	c.pass(time.Minute)
	c.want(t, "breaker")
	c.lane = replay.LaneReady
	c.pass(time.Second)
	c.want(t, "running")
	c.fed = nil
	c.pass(3 * time.Minute)
	c.want(t, "running", 100, 200, 400)
	if diff := cmp.Diff([]string{"breaker", "running"}, c.states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	// A short dip is over before the minute that showed it.
	c.lane = replay.LaneOpen
	c.pass(time.Second)
	c.lane = replay.LaneReady
	c.pass(58 * time.Second)
	c.want(t, "breaker")
	c.pass(2 * time.Second)
	c.want(t, "running")
}

func TestPaceGivesUp(t *testing.T) {
	t.Parallel()
	c := newCourse()
	c.answer = failing
	c.pass(time.Hour)
	c.want(t, "stuck")
	if diff := cmp.Diff([]string{"error_rate", "running", "error_rate", "running", "stuck"}, c.states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if n := c.job.Counts.Fed; n > 60 {
		t.Errorf("%d were fed to a destination that fails everything", n)
	}

	// One delivery in between is a sign of life.
	c = newCourse()
	c.answer = func(counts *hook.ReplayCounts, fed int) {
		failing(counts, fed)
		if fed > 0 {
			counts.Delivered++
		}
	}
	c.pass(time.Hour)
	if c.status() == "stuck" || len(c.states) < 10 {
		t.Errorf("states %v", c.states)
	}

	// An endpoint that is turned off and on again says nothing about it.
	c = newCourse()
	c.answer = silent
	for range 5 {
		c.lane = replay.LaneHeld
		c.pass(time.Minute)
		c.lane = replay.LaneReady
		c.pass(2 * time.Second)
	}
	c.want(t, "running")
}

func TestPaceFinishes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		total         int64
		counts        hook.ReplayCounts
		want          string
		total2, skips int64
	}{
		"all delivered":       {5, hook.ReplayCounts{Fed: 5, Delivered: 4, Failed: 1}, "done", 5, 0},
		"some left":           {5, hook.ReplayCounts{Fed: 5, Delivered: 4}, "running", 5, 0},
		"some skipped":        {5, hook.ReplayCounts{Fed: 2, Skipped: 3, Delivered: 2}, "done", 5, 3},
		"some not seen again": {5, hook.ReplayCounts{Fed: 2, Skipped: 1, Delivered: 2}, "done", 5, 3},
		"never counted":       {-1, hook.ReplayCounts{Fed: 2, Skipped: 1, Delivered: 2}, "done", 3, 1},
		"nothing at all":      {0, hook.ReplayCounts{}, "done", 0, 0},
	} {
		c := newCourse()
		c.answer = silent
		c.lane = replay.LaneOpen // nothing more is sent, so it does not matter
		c.job.Total, c.job.Counts, c.job.Cursor = tc.total, tc.counts, c.job.EndID
		c.pass(time.Second)
		c.want(t, tc.want)
		if c.job.Total != tc.total2 || c.job.Counts.Skipped != tc.skips {
			t.Errorf("%s: total %d, skipped %d; want %d, %d", name, c.job.Total, c.job.Counts.Skipped, tc.total2, tc.skips)
		}
		if c.job.FinishedAt.IsZero() == (tc.want == "done") {
			t.Errorf("%s: finished at %v", name, c.job.FinishedAt)
		}
	}
}

// TestPaceAfterStandstill checks that time in which nobody fed is not made up
// for.
func TestPaceAfterStandstill(t *testing.T) {
	t.Parallel()
	c := newCourse()
	c.pass(time.Minute)
	c.now = c.now.Add(time.Hour)
	c.pacer = replay.Pacer{} // another node
	c.pass(time.Second)
	if n := c.fed[len(c.fed)-1]; n > 7 {
		t.Errorf("%d were fed at once after an hour", n)
	}
}

// TestPaceLaws drives a replay through any weather.
func TestPaceLaws(t *testing.T) {
	t.Parallel()
	lanes := []replay.LaneState{replay.LaneReady, replay.LaneReady, replay.LaneReady, replay.LaneSettling, replay.LaneOpen, replay.LaneHeld}
	rapid.Check(t, func(t *rapid.T) {
		c := newCourse()
		c.job.PerMinute = rapid.IntRange(1, 3000).Draw(t, "per minute")
		c.job.CurrentPerMinute = c.job.PerMinute
		c.job.MaxMultiple = float64(rapid.IntRange(1, 20).Draw(t, "max multiple"))
		c.job.Ramp = rapid.Float64Range(1, 10).Draw(t, "ramp")
		ceiling := int(float64(c.job.PerMinute) * c.job.MaxMultiple)
		answers := []func(*hook.ReplayCounts, int){delivered, delivered, failing, silent}
		for range 12 {
			c.lane = rapid.SampledFrom(lanes).Draw(t, "lane")
			c.answer = rapid.SampledFrom(answers).Draw(t, "answer")
			if rapid.IntRange(0, 5).Draw(t, "restart") == 0 {
				c.pacer = replay.Pacer{}
			}
			for range rapid.IntRange(1, 90).Draw(t, "seconds") {
				was := c.job
				c.pass(time.Second)
				fed := c.fed[len(c.fed)-1]
				if fed > 0 && (c.lane != replay.LaneReady || was.State != hook.ReplayRunning) {
					t.Fatalf("%d were fed while %s on lane %d", fed, was.State, c.lane)
				}
				if now := c.job.CurrentPerMinute; now < c.job.PerMinute || now > ceiling {
					t.Fatalf("pace %d, want %d to %d", now, c.job.PerMinute, ceiling)
				}
				if was.State == hook.ReplayPaused && was.PauseReason.NeedsPerson() {
					return
				}
			}
		}
		// No minute is fed faster than the ceiling, but for the two seconds that
		// a late step may catch up with.
		sum := 0
		for i, n := range c.fed {
			sum += n
			if i >= 60 {
				sum -= c.fed[i-60]
			}
			if most := ceiling*62/60 + 1; sum > most {
				t.Fatalf("%d were fed within a minute, at most %d may be", sum, most)
			}
		}
	})
}

func TestLaneStates(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		endpoint hook.EndpointState
		lane     *lane.Checkpoint
		want     replay.LaneState
	}{
		"never used":      {hook.Active, nil, replay.LaneReady},
		"closed":          {hook.Active, &lane.Checkpoint{ClosedAt: begin.Add(-time.Minute)}, replay.LaneReady},
		"never opened":    {hook.Active, &lane.Checkpoint{}, replay.LaneReady},
		"closed just now": {hook.Active, &lane.Checkpoint{ClosedAt: begin.Add(-time.Second)}, replay.LaneReady},
		"slow start":      {hook.Active, &lane.Checkpoint{SlowStart: true, ClosedAt: begin.Add(-time.Second)}, replay.LaneSettling},
		// A lane leaves slow start only under load: without any it would keep a
		// replay waiting for ever.
		"idle since":       {hook.Active, &lane.Checkpoint{SlowStart: true, ClosedAt: begin.Add(-time.Minute)}, replay.LaneReady},
		"new, little used": {hook.Active, &lane.Checkpoint{SlowStart: true, Limit: 10}, replay.LaneReady},
		"asked to wait":    {hook.Active, &lane.Checkpoint{HoldUntil: begin.Add(time.Second)}, replay.LaneSettling},
		"has waited":       {hook.Active, &lane.Checkpoint{HoldUntil: begin}, replay.LaneReady},
		"open":             {hook.Active, &lane.Checkpoint{Open: true, SlowStart: true}, replay.LaneOpen},
		"paused":           {hook.Paused, nil, replay.LaneHeld},
		"disabled":         {hook.Disabled, &lane.Checkpoint{Open: true}, replay.LaneHeld},
	} {
		d := store.Destination{Endpoint: hook.Endpoint{State: tc.endpoint}, Lane: tc.lane}
		if got := replay.StateOf(begin, &d); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
