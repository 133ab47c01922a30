package process_test

import (
	"testing"
	"time"
)

// fullFive is the preset full-5 with its concurrency of ten, and shorter waits:
// a tenth of a second at least, one, two, four and eight at most.
func fullFive() object {
	return object{
		"preset": "full-5", "concurrency": 10,
		"retry": object{"min_delay": "100ms", "backoff": object{"base": "1s"}},
	}
}

// TestFullFiveLadder: events that always fail get five attempts, spread over
// the ladder of the preset, and are given up as exhausted. Others are not held
// up by them, and never are more than ten in flight.
func TestFullFiveLadder(t *testing.T) {
	t.Parallel()
	const poisoned, healthy = 12, 500
	s := serve(t)
	d := startSink(t, "--latency", "50ms")
	s.endpoint(d.url+"/poison", object{"types": []string{"poison.*"}, "policy": fullFive()})
	s.endpoint(d.url+"/well", object{"types": []string{"well.*"}, "policy": fullFive()})
	if err := call(t.Context(), "POST", d.url+"/_sink/poison", object{"fail": 500}, nil); err != nil {
		t.Fatal(err)
	}
	s.publish("poison.x", poisoned)
	s.publish("well.x", healthy)
	dead := func() int {
		var out struct{ Count int }
		s.api("GET", "/deliveries/count?status=dead&reason=exhausted", nil, &out)
		return out.Count
	}
	eventually(t, 3*time.Minute, "the poisoned events are given up", func() bool { return dead() == poisoned })
	tally := func(path string) (r sinkReport) {
		t.Helper()
		if err := call(t.Context(), "GET", d.url+"/_sink"+path, nil, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	eventually(t, time.Minute, "the healthy events arrive", func() bool { return tally("/well").OK == healthy })

	most := map[string]int64{}
	for _, path := range []string{"/poison", "/well"} {
		most[path] = tally(path).MaxFlight
		if most[path] > 10 {
			t.Errorf("%d at a time at %s, want at most 10", most[path], path)
		}
	}
	attempts := map[string][]time.Time{}
	for _, a := range d.arrivals() {
		if a.Path == "/poison" {
			attempts[a.Event] = append(attempts[a.Event], a.At)
		}
	}
	t.Logf("most in flight: %v; attempts of one event: %v", most, firstOf(attempts))
	if len(attempts) != poisoned {
		t.Errorf("%d poisoned events arrived, want %d", len(attempts), poisoned)
	}
	// The wait counts from the answer, 50 ms after the arrival. A busy machine
	// makes it longer, never shorter.
	const answer = 50 * time.Millisecond
	late := within(3 * time.Second)
	for event, at := range attempts {
		if len(at) != 5 {
			t.Errorf("%s got %d attempts, want 5", event, len(at))
			continue
		}
		for n, ceiling := 1, time.Second; n < 5; n, ceiling = n+1, 2*ceiling {
			if gap := at[n].Sub(at[n-1]) - answer; gap < 100*time.Millisecond || gap > ceiling+late {
				t.Errorf("%s: retry %d came after %v, want 100ms to %v", event, n, gap, ceiling)
			}
		}
	}
}

// firstOf returns the waits between the attempts of any one event.
func firstOf(attempts map[string][]time.Time) (gaps []time.Duration) {
	for _, at := range attempts {
		for n := 1; n < len(at); n++ {
			gaps = append(gaps, at[n].Sub(at[n-1]).Round(time.Millisecond))
		}
		return gaps
	}
	return nil
}

// TestFullFiveAfterAnOutage: with a fixed limit of ten and the breaker of the
// preset, a destination that takes ten at a time is not crashed, loses no event
// to the outage, and sees one probe at a time while it lasts.
func TestFullFiveAfterAnOutage(t *testing.T) {
	t.Parallel()
	c := recovery{
		capacity: 100, live: 40, workers: 10, sink: []string{"--queue", "1"}, policy: fullFive(),
		warm: 5 * time.Second, outage: 10 * time.Second, answer: 100 * time.Millisecond,
	}
	leastProbes := 2
	if timesJudged() {
		c.outage, leastProbes = 25*time.Second, 5
	}
	var opened, settled time.Time
	c.inOutage = func(s *storm) {
		opened, settled = s.opened()
		for range leastProbes {
			s.awaitProbe()
		}
		if took := time.Since(s.began); timesJudged() && took > c.outage {
			t.Errorf("%d probes took %v, want one every two seconds or so", leastProbes, took)
		}
	}
	s := c.run(t)
	all := s.d.arrivals()
	probes := between(all, settled, s.ended)
	var spent int // on noticing
	for _, a := range between(all, s.began, settled) {
		if a.Status == 503 {
			spent++
		}
	}
	t.Logf("%d accepted, %d crashes, %s, %d at most in flight, open after %d failures, %d probes",
		s.accepted, s.report.Crashes, s.drained(), s.report.MaxFlight, spent, len(probes))
	s.checkUnharmed()
	if s.report.MaxFlight > 10 {
		t.Errorf("%d in flight, want at most 10", s.report.MaxFlight)
	}
	// Five in a row open it, and nine more may be on their way by then. A probe
	// may have come before all that is known.
	if most := 14 + int(settled.Sub(opened)/leastGap); spent < 5 || spent > most {
		t.Errorf("the lane opened after %d failures, want 5 to %d", spent, most)
	}
	checkProbes(t, probes)
	s.checkDrain()
	var out struct{ Count int }
	s.nodes[0].api("GET", "/deliveries/count?status=dead", nil, &out)
	if out.Count > 0 {
		t.Errorf("%d events were given up because of the outage", out.Count)
	}
}
