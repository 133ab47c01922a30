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
						if m.Sent.Ref.Fails > 0 && m.Lane.HasFresh() {
							t.Errorf("seed %d, %v: a probe carries an event with %d failures while a fresh one waits", seed, m.At, m.Sent.Ref.Fails)
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
// The endpoint has two servers, fewer than the least limit of three. So the
// law sees now and then a slow round at the floor, believes that the endpoint
// got slower, and takes a base that is too high. Its base probes must correct
// that within minutes.
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
	recovery := time.Duration(s.Outages[0].At + s.Outages[0].For)
	// The law may take half as much again for the latency without load.
	high := time.Duration(s.Latency+s.Network) * 3 / 2
	var most, last, since, longest, above, watched time.Duration
	inFlight := 0
	r := sim.Watch(s, strategy(t, "law"), seed, func(m sim.Moment) {
		inFlight = max(inFlight, m.Lane.InFlight())
		switch {
		case m.At < last+time.Second/2:
			return // the base moves once per round, and a round takes a second
		case m.Lane.State() != lane.Closed || m.At < recovery:
			last, since = m.At, m.At
			return
		}
		base := m.Lane.Checkpoint().BaseLatency
		most = max(most, base)
		watched += m.At - last
		if base > high {
			above += m.At - last
			longest = max(longest, m.At-since)
		} else {
			since = m.At
		}
		last = m.At
	})
	if r.Crashes > 0 {
		t.Errorf("seed %d: %d re-crashes", seed, r.Crashes)
	}
	if longest > 10*time.Minute || above > watched/3 || most > 4*high {
		t.Errorf("seed %d: the base is above %v for up to %v, %v of %v in all, and reaches %v: a ratchet", seed, high, longest, above, watched, most)
	}
	if inFlight > 22 { // 2 in service and 20 waiting are safe
		t.Errorf("seed %d: %d requests in flight to an endpoint with two servers", seed, inFlight)
	}
	if r.DrainSeconds < 4*3600 || !r.Drain.Known() {
		t.Errorf("seed %d: the drain took %v s, want one of over four hours", seed, r.DrainSeconds)
	}
}
