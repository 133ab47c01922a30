package process_test

import (
	"testing"
	"time"
)

// TestThrottlingDestination: a destination that takes 20 requests per second
// and answers 429 above that gets 10 live events per second and a batch. Its
// rate is found, it hardly ever has to say 429, and what it asks for then is
// kept to.
func TestThrottlingDestination(t *testing.T) {
	t.Parallel()
	const rate, live = 20.0, 10.0
	batch, find := 300, 5*time.Second
	if timesJudged() {
		batch, find = 600, time.Minute
	}
	s := serve(t)
	d := startSink(t, "--throttle-over", "20/s", "--throttle-burst", "20", "--retry-after", "2", "--latency", "20ms")
	endpoint, _ := s.endpoint(d.url+"/hook", nil)
	accepted, stop := traffic(t, func(int) string { return s.url }, live)
	time.Sleep(2 * time.Second)
	s.publish("order.paid", batch)
	began := time.Now()
	total := func() int64 { return int64(batch) + accepted() }
	backlog := func() float64 { return float64(total() - d.report().OK) }

	eventually(t, time.Minute, "a rate is found", func() bool { return s.lane(endpoint).PacedBy == "throttle" || backlog() < rate })
	time.Sleep(find)
	t.Logf("after %v: %+v, %g waiting, lane %+v", time.Since(began), d.report(), backlog(), s.lane(endpoint))
	from, before := time.Now(), d.report().OK
	if backlog() < rate { // nothing is left to measure with
		from, before = began, 0
	}
	for backlog() >= rate && time.Since(from) < 10*time.Second {
		time.Sleep(500 * time.Millisecond)
	}
	perSecond := float64(d.report().OK-before) / time.Since(from).Seconds()
	stop()
	eventually(t, 3*time.Minute, "everything is delivered", func() bool { return d.report().UniqueIDs >= total() })

	r := d.report()
	share := float64(r.Throttled) / float64(total())
	t.Logf("%d accepted, %.1f per second with a backlog, %d answers of 429 (%.2f %%), %d requests within a Retry-After; %v in all",
		total(), perSecond, r.Throttled, 100*share, r.BrokenHolds, time.Since(began))
	// Where nothing is judged by its time: a busy machine sends less, lets what it
	// sent arrive together, and hears late of what it is asked for.
	mostShare, early := 0.2, r.MaxFlight
	if timesJudged() {
		mostShare, early = 0.02, 0
	}
	if least := 0.7 * rate; timesJudged() && perSecond < least {
		t.Errorf("%.1f per second, want at least %g", perSecond, least)
	}
	if share > mostShare || r.Throttled == 0 && timesJudged() {
		t.Errorf("%.2f %% of the events got a 429, want some, and at most %g %%", 100*share, 100*mostShare)
	}
	if r.BrokenHolds > early {
		t.Errorf("%d requests came before a Retry-After had passed, want at most %d", r.BrokenHolds, early)
	}
	if r.UniqueIDs != total() || r.Dup > 0 {
		t.Errorf("%d events arrived, %d again; %d were accepted", r.UniqueIDs, r.Dup, total())
	}
}
