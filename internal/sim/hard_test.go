package sim_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/sim"
)

// within is the law under a rate that an operator has set: it never reaches a
// cliff that is higher.
func within(t *testing.T, perSecond string) sim.Strategy {
	t.Helper()
	p, _, err := sim.ReadPolicy([]byte("rate_limit: {burst: 1, per_second: " + perSecond + "}"))
	if err != nil {
		t.Fatalf("ReadPolicy: %v", err)
	}
	return sim.Law("within "+perSecond, p)
}

// TestTwoOutages: the second one comes an hour after a restart, to a lane that a
// new owner has restored, and each is measured by itself.
func TestTwoOutages(t *testing.T) {
	t.Parallel()
	s := scenario(t, "cliff-c100-0.3ms-r50-30s")
	var lanes []*lane.Lane
	var restarted, opened time.Duration
	r := sim.Watch(s, within(t, "90"), firstSeed, func(m sim.Moment) {
		if !slices.Contains(lanes, m.Lane) {
			lanes = append(lanes, m.Lane)
			restarted = m.At
		}
		if len(lanes) == 2 && opened == 0 && m.Lane.State() != lane.Closed {
			opened = m.At
		}
	})
	if len(lanes) != 2 {
		t.Fatalf("%d owners, want 2", len(lanes))
	}
	if hour := opened - restarted; hour < 59*time.Minute || hour > 61*time.Minute {
		t.Errorf("the second outage begins %v after the restart, want an hour", hour)
	}
	// 1,500 events wait each time, and a recovery takes its minute.
	check(t, sim.Summarise([]sim.Result{r}),
		"recrashes==0,first_crashes_max==0,second_crashes_max==0,crashes_between_max==0,undrained==0,dead==0,broken_holds==0,"+
			"first_drain>1.1,first_drain<2.5,second_drain>1.1,second_drain<2.5,first_waste<=0.05,second_waste<=0.05")
	for name, o := range map[string]sim.Recovery{"first": r.First, "second": *r.Second} {
		if o.Backlog < 1350 || o.Backlog > 1650 {
			t.Errorf("%s: %d events waited, want about 1,500", name, o.Backlog)
		}
	}
	if n := len(r.Trace.Outages); n != 2 {
		t.Errorf("%d outages to be drawn, want 2", n)
	}
}

// TestCapacityChanges: what was safe in the first outage is too much for half of
// the capacity.
func TestCapacityChanges(t *testing.T) {
	t.Parallel()
	r := sim.Run(scenario(t, "halved"), within(t, "80"), firstSeed)
	if r.First.Crashes != 0 || !(r.Second.Crashes > 0) || r.Between != 0 {
		t.Errorf("%v crashes, %d, then %v; want none, none, some", r.First.Crashes, r.Between, r.Second.Crashes)
	}
}

// TestSharedHost: twenty lanes that are safe alone crash the host that they
// share, and all they send arrives at one place.
func TestSharedHost(t *testing.T) {
	t.Parallel()
	s := scenario(t, "host-20")
	s.Outages[0].For, s.Horizon, s.Again = sim.Duration(time.Minute), sim.Duration(20*time.Minute), sim.Again{}
	st := within(t, "20") // a fifth of what the host bears, each
	together := sim.Run(s, st, firstSeed)
	if together.Crashes == 0 || together.Crashes > 10 {
		t.Errorf("%d crashes of the host, want some, and at most ten", together.Crashes)
	}
	if b := together.Backlog; b < 2700 || b > 3300 {
		t.Errorf("%d events wait, want about 3,000: a minute of all lanes together", b)
	}
	s.Endpoints, s.Shared = 1, false
	s.Load /= 20
	if alone := sim.Run(s, st, firstSeed); alone.Crashes > 0 || !alone.Drain.Known() {
		t.Errorf("one lane alone: %d crashes, drain %v; want none, and an end", alone.Crashes, alone.Drain)
	}
}

// TestStrayRefusalsOfAFastEndpoint: what waited for one leaves together, so that hardly
// ever some of it is there when the next one comes.
func TestStrayRefusalsOfAFastEndpoint(t *testing.T) {
	t.Parallel()
	s := scenario(t, "stray-0.3")
	s.Capacity, s.Load, s.Latency = 5000, 0.01, sim.Duration(time.Millisecond)
	s.BatchAt, s.Horizon = sim.Duration(2*time.Minute), sim.Duration(10*time.Second)
	results, err := sim.RunMany(t.Context(), s, strategy(t, "law"), sim.Seeds(firstSeed, 25), 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	var most []int
	for _, r := range results {
		most = append(most, r.Waiting)
	}
	slices.Sort(most)
	if median := most[len(most)/2]; median > 75 {
		t.Errorf("at most %d were waiting in the median of 130 s, want 75: a second's worth is 50, as it comes by chance", median)
	}
}

// sameMeasure: what could not be measured is as unknown as another.
var sameMeasure = cmp.Comparer(func(a, b sim.Measure) bool { return a == b || math.IsNaN(float64(a)) && math.IsNaN(float64(b)) })

// TestHardSeeds: the same seed gives the same run at these endpoints too, and
// another seed another one.
func TestHardSeeds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cliff-c20-50ms-r80-30s", "flap", "stray-0.3", "host-20", "idle-429-two"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, st := scenario(t, name), strategy(t, "law")
			if name == "stray-0.3" {
				s.BatchAt = sim.Duration(2 * time.Minute)
			}
			s.Horizon = sim.Duration(time.Minute)
			seeds := sim.Seeds(firstSeed, 2)
			parallel, err := sim.RunMany(t.Context(), s, st, seeds, 2, nil)
			if err != nil {
				t.Fatal(err)
			}
			alone := sim.Run(s, st, seeds[1])
			alone.Trace = nil
			if diff := cmp.Diff(alone, parallel[1], sameMeasure); diff != "" {
				t.Errorf("it differs between Run and RunMany:\n%s", diff)
			}
			parallel[0].Trace, parallel[0].Seed = nil, parallel[1].Seed
			if cmp.Equal(parallel[0], parallel[1], sameMeasure) {
				t.Error("two seeds gave the same run")
			}
		})
	}
}

// TestClassicsAtCliffs: retries that are spread as they may be crash a cliff
// again and again, a limit of requests in flight included.
func TestClassicsAtCliffs(t *testing.T) {
	t.Parallel()
	s := scenario(t, "cliff-c100-0.3ms-r50-30s")
	for _, name := range []string{"exp-nojitter", "full-5+hold", "full-5+cap10", "full-5+cap10+hold"} {
		check(t, play(t, s, name, 1), "first_crashes>=5,undrained>=1")
	}
}

// TestGoalsOfTwoOutages: what a run did not come to misses every goal, and the
// worst run counts where the name says so.
func TestGoalsOfTwoOutages(t *testing.T) {
	t.Parallel()
	s := scenario(t, "cliff-c100-0.3ms-r50-30s")
	s.Horizon = sim.Duration(5 * time.Minute)
	crashed := sim.Run(s, strategy(t, "exp-nojitter"), firstSeed)
	calm := sim.Result{First: sim.Recovery{Drain: 1, DrainSeconds: 30}, Second: &sim.Recovery{Drain: 1.5, DrainSeconds: 45}}
	few := calm
	few.Crashes, few.First.Crashes = 2, 2
	for name, tc := range map[string]struct {
		results []sim.Result
		goals   string
		missed  []string
	}{
		"all well": {
			[]sim.Result{calm, calm},
			"first_crashes==0,first_crashes_max==0,second_crashes_max==0,second_drain<=1.5,undrained==0", nil,
		},
		"the worst of three": {
			[]sim.Result{calm, few, calm},
			"first_crashes==0,first_crashes_max==0,recrashes_max<=1,second_crashes==0",
			[]string{"first_crashes_max==0: it is 2", "recrashes_max<=1: it is 2"},
		},
		"no second outage": {
			[]sim.Result{{First: calm.First}},
			"second_crashes_max==0,second_drain<=2,undrained==0",
			[]string{"second_crashes_max==0: it is -", "second_drain<=2: it is -"},
		},
		"ten crashes": {
			[]sim.Result{calm, crashed, calm},
			"first_crashes==0,second_crashes==0,second_crashes_max==0,second_drain<=2,second_drain_max<=2,undrained==0,found_max<=1h",
			[]string{
				"second_crashes_max==0: it is never", "second_drain_max<=2: it is never", "undrained==0: it is 2",
				"found_max<=1h: it is never",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			goals, err := sim.ParseGoals(tc.goals)
			if err != nil {
				t.Fatal(err)
			}
			u := sim.Summarise(tc.results)
			got := u.Missed(goals)
			if len(got) != len(tc.missed) {
				t.Fatalf("missed %q, want %q", got, tc.missed)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tc.missed[i]) {
					t.Errorf("missed %q, want %q", got[i], tc.missed[i])
				}
			}
		})
	}
}

// TestCliffGoals: the goals follow from capacity, load and outage.
func TestCliffGoals(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"cliff-c100-0.3ms-r50-30s":  {"first_crashes==0", "second_crashes==0", "second_crashes_max<=2", "first_drain<=3", "second_drain<=2.5", "first_waste<=0.05"},
		"cliff-c1000-200ms-r30-30s": {"first_crashes==0", "second_crashes==0"},
		"cliff-c20-50ms-r80-30s":    {"first_crashes_max<=3", "second_crashes==0"},
		"cliff-c100-50ms-r80-10m":   {"first_crashes_max<=2", "first_drain<=1.8", "second_drain<=1.5"},
		"cliff-c1000-0.3ms-r50-4h":  {"first_crashes_max<=2", "second_crashes_max==0", "first_drain<=1.8", "second_drain<=1.4"},
		"refuse-c20":                {"first_waste<=0.05", "undrained==0"},
		"refuse-5s":                 {"recrashes_max==0", "first_drain<=3", "second_drain<=3"},
		"halved":                    {"second_crashes_max<=2"},
		"doubled":                   {"found_max<=1h"},
		"hang":                      {"first_crashes_max<=3", "first_drain<=2", "second_crashes_max==0", "second_drain<=1.4"},
		"host-20":                   {"first_crashes_max<=3", "first_drain<=2", "second_crashes_max==0", "second_drain<=1.4"},
		"flap":                      {"drain<=3", "drain_max<=4"},
		"stray-1":                   {"max_waiting<=300", "broken_holds==0"},
		"idle-429-two":              {"drain_seconds_max<=3s"},
	} {
		goals := strings.Split(scenario(t, name).Goals, ",")
		for _, goal := range want {
			if !slices.Contains(goals, goal) {
				t.Errorf("%s: goals %q, want %q among them", name, goals, goal)
			}
		}
	}
}
