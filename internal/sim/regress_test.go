package sim_test

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/sim"
)

// TestPoisonLockOut: events that always fail once kept a healthy endpoint shut.
// Retried, they clustered in the emptying backlog, tripped the ratio, and probe
// after probe took one of them.
func TestPoisonLockOut(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"poison-5", "poison-20"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scenario(t, name)
			recovery := time.Duration(s.Outages[0].At + s.Outages[0].For)
			for _, seed := range sim.Seeds(firstSeed, 3) {
				var openedAt, longest time.Duration // open since; 0: closed
				probes := 0
				r := sim.Watch(s, strategy(t, "law"), seed, func(m sim.Moment) {
					if m.Sent != nil && m.Sent.Tag.Probe {
						probes++
						if m.Sent.Ref.FailedAttempts > 0 && m.Lane.HasFresh() {
							t.Errorf("seed %d, %v: a probe carries an event with %d failures while a fresh one waits", seed, m.At, m.Sent.Ref.FailedAttempts)
						}
					}
					switch {
					case m.Lane.State() == lane.Closed:
						openedAt = 0
					case openedAt == 0:
						openedAt = m.At
					}
					if openedAt > 0 && m.At > recovery {
						longest = max(longest, m.At-max(openedAt, recovery))
					}
				})
				if longest > 2*time.Minute {
					t.Errorf("seed %d: open for %v after the recovery, want at most 2m", seed, longest)
				}
				if probes == 0 || !r.Drain.Known() || r.Crashes > 0 {
					t.Errorf("seed %d: %d probes, drain %v, %d crashes; want some, a drain, none", seed, probes, r.Drain, r.Crashes)
				}
			}
		})
	}
}

// TestBaseLatencyRatchet: the estimate of the uncongested latency was once
// measured before the endpoint's queue was empty. It rose, the limit followed
// it, and hours into a drain the endpoint crashed. Minutes do not show it.
//
// The endpoint has two servers, fewer than the least limit of three. So there
// is a queue of our own even at the floor, which must not pass for an endpoint
// that got slower.
func TestBaseLatencyRatchet(t *testing.T) {
	t.Parallel()
	const seeds, groups = 20, 2
	for g := range groups { // side by side
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for _, seed := range sim.Seeds(firstSeed+uint64(g*seeds/groups), seeds/groups) {
				watchRatchet(t, seed)
			}
		})
	}
}

func watchRatchet(t *testing.T, seed uint64) {
	t.Helper()
	s := scenario(t, "drain-4h")
	// The law may take half as much again for the latency without load.
	high := time.Duration(s.Latency+s.Network) * 3 / 2
	var most time.Duration
	inFlight := 0
	r := sim.Watch(s, strategy(t, "law"), seed, func(m sim.Moment) {
		inFlight = max(inFlight, m.Lane.InFlight())
		most = max(most, m.Lane.Checkpoint().BaseLatency)
	})
	if r.Crashes > 0 {
		t.Errorf("seed %d: %d re-crashes", seed, r.Crashes)
	}
	if most > high {
		t.Errorf("seed %d: the base reaches %v, at most %v: a ratchet", seed, most, high)
	}
	if inFlight > 22 { // 2 in service and 20 waiting are safe
		t.Errorf("seed %d: %d requests in flight to an endpoint with two servers", seed, inFlight)
	}
	if r.DrainSeconds < 4*3600 || !r.Drain.Known() {
		t.Errorf("seed %d: the drain took %v s, want one of over four hours", seed, r.DrainSeconds)
	}
}

// TestFlapsAreNotTakenForTheLoad: endpoints that flapped at nearly the same load a
// few times, or before the lane knew what they are used to, once took five times as
// long as they had to: for a ceiling that was none, because every recovery began
// with a sixteenth, or because the limit in flight was counted up from one each time.
func TestFlapsAreNotTakenForTheLoad(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{
		300029, 300040, 300044, 300095, 900003, 970071, 970095,
		2200140, 2200170, 2200215, 2200260, 2200302, 2200319, 2200407, 5600059,
	} {
		if r := sim.Run(scenario(t, "flap"), strategy(t, "law"), seed); r.Drain > 3 {
			t.Errorf("seed %d: drained in %.2f times the optimum, want at most 3", seed, r.Drain)
		}
	}
}

// TestFlapsAtACliff: an endpoint that flaps and also has a cliff once crashed for ever.
// Its outages below the cliff made the lane forget it, and nothing was learnt any more.
func TestFlapsAtACliff(t *testing.T) {
	t.Parallel()
	for _, seed := range sim.Seeds(firstSeed, 8) {
		if r := sim.Run(scenario(t, "flap-cliff"), strategy(t, "law"), seed); r.Drain > 3 || r.Crashes > 6 {
			t.Errorf("seed %d: drained in %.2f times the optimum with %d crashes, want at most 3, and 6", seed, r.Drain, r.Crashes)
		}
	}
}

// TestRefusalsOverSeconds: the backlog of an endpoint that refuses what is too much in some
// seconds once never ended: each recovery was refused by what the one before had sent.
func TestRefusalsOverSeconds(t *testing.T) {
	t.Parallel()
	s := scenario(t, "refuse-5s")
	check(t, play(t, s, "law", 8), s.Goals)
}

// TestHangs: an endpoint that answers nothing when it is overrun, and is up again before
// anybody's timeout, was once overrun again and again, by a lane that never opened.
func TestHangs(t *testing.T) {
	t.Parallel()
	for name, seeds := range map[string]int{"hang": 8, "hang-80": 8, "host-hangs": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scenario(t, name)
			check(t, play(t, s, "law", seeds), s.Goals)
		})
	}
}

// TestHostsThatBroke: endpoints of one host that answers what is too much with 503 once
// overran it together, again and again, and those of a small server, each with a few
// requests in flight, crashed it, ten times of ten; when their owner died they forgot
// that they are neighbours, and what had broken their host. And an endpoint that asks for twenty seconds when its limit
// is exceeded was held most of the time, for ever.
func TestHostsThatBroke(t *testing.T) {
	t.Parallel()
	for name, seeds := range map[string]int{"host-refuses": 12, "host-queue": 12, "host-killed": 12, "host-20-killed": 3, "hold-20s": 12} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scenario(t, name)
			check(t, play(t, s, "law", seeds), s.Goals)
		})
	}
}

// TestOwnerKilledInTheDrain: the new owner once forgot what came in while there was
// none, and in the end hurried the endpoint over its cliff; and took an endpoint that
// died meanwhile (the second outage of the latter two) for one that refuses.
func TestOwnerKilledInTheDrain(t *testing.T) {
	t.Parallel()
	s := scenario(t, "cliff-killed")
	for _, seed := range []uint64{1500001, 1500002, 1500009, 1500016} {
		check(t, sim.Summarise([]sim.Result{sim.Run(s, strategy(t, "law"), seed)}),
			"first_crashes_max==0,first_drain<=2.9,second_crashes_max<=2,second_drain<=3,undrained==0,dead==0")
	}
}
