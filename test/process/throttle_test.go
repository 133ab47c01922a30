package process_test

import (
	"sync"
	"testing"
	"time"
)

// TestThrottlingDestination: a destination that takes 20 requests per second
// and answers 429 above that gets 10 live events per second and a batch of 600.
// Its rate is found, it hardly ever has to say 429, and what it asks for then
// is kept to.
func TestThrottlingDestination(t *testing.T) {
	t.Parallel()
	const rate, live, batch, find = 20.0, 10.0, 600, time.Minute
	s := serve(t)
	d := startSink(t, "--throttle-over", "20/s", "--throttle-burst", "20", "--retry-after", "2", "--latency", "20ms")
	endpoint, _ := s.endpoint(d.url+"/hook", nil)
	accepted, stop := traffic(t, func(int) string { return s.url }, live)
	time.Sleep(2 * time.Second)
	s.publish("order.paid", batch)
	began := time.Now()
	backlog := func() int64 { return batch + accepted() - d.report().OK }

	time.Sleep(find)
	t.Logf("after %v: %+v, %d waiting, lane %+v", find, d.report(), backlog(), s.lane(endpoint))
	from, before := time.Now(), d.report().OK
	if backlog() < rate { // nothing is left to measure with
		from, before = began, 0
	}
	halt := sync.OnceFunc(stop)
	for backlog() >= rate && time.Since(from) < time.Minute {
		time.Sleep(time.Second)
		if time.Since(from) > 10*time.Second { // enough of both; now the rest of the backlog
			halt()
		}
	}
	perSecond := float64(d.report().OK-before) / time.Since(from).Seconds()
	halt()
	total := batch + accepted()
	eventually(t, 45*time.Second, "everything is delivered", func() bool { return d.report().UniqueIDs >= total })

	r := d.report()
	share := float64(r.Throttled) / float64(total)
	t.Logf("%d accepted, %.1f per second with a backlog, %d answers of 429 (%.2f %%), %d requests within a Retry-After; %v in all",
		total, perSecond, r.Throttled, 100*share, r.BrokenHolds, time.Since(began))
	if perSecond < 0.7*rate {
		t.Errorf("%.1f per second, want at least 70 %% of %g", perSecond, rate)
	}
	if r.Throttled == 0 || share > 0.02 {
		t.Errorf("%.2f %% of the events got a 429, want some, and at most 2 %%", 100*share)
	}
	if r.BrokenHolds > 0 {
		t.Errorf("%d requests came before a Retry-After had passed", r.BrokenHolds)
	}
	if r.UniqueIDs != total || r.Dup > 0 {
		t.Errorf("%d events arrived, %d again; %d were accepted", r.UniqueIDs, r.Dup, total)
	}
}
