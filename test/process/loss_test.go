package process_test

import (
	"testing"
	"time"
)

// TestLosses: an endpoint that loses a share of its requests whatever it is sent gets all
// the others in time. What is lost waits for its own next attempt, and nothing else waits.
func TestLosses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sink   []string
		live   float64
		lasts  time.Duration
		most   int64 // waiting
		inFull bool
	}{
		"20 % for a moment": {[]string{"--fail-rate", "20%", "--latency", "200ms"}, 40, 45 * time.Second, 450, false},
		"10 %":              {[]string{"--fail-rate", "10%", "--latency", "50ms"}, 50, 4 * time.Minute, 500, true},
		"a third":           {[]string{"--fail-rate", "33%", "--latency", "50ms"}, 30, 4 * time.Minute, 1500, true},
		"3 % swallowed":     {[]string{"--swallow", "3%", "--latency", "50ms"}, 50, 4 * time.Minute, 700, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.inFull {
				inFull(t)
			}
			s := serve(t)
			d := startSink(t, c.sink...)
			s.endpoint(d.url+"/hook", nil)
			accepted, stop := traffic(t, func(int) string { return s.url }, c.live)
			var most int64
			for began := time.Now(); time.Since(began) < c.lasts; time.Sleep(500 * time.Millisecond) {
				n := accepted()
				most = max(most, n-d.report().OK)
			}
			stop()
			t.Logf("at most %d waiting; %+v", most, d.report())
			switch {
			case timesJudged() && most >= c.most:
				t.Errorf("%d were waiting, want fewer than %d", most, c.most)
			case most >= d.report().OK: // on a busy machine, too, most arrive
				t.Errorf("%d were waiting, and %d have arrived", most, d.report().OK)
			}
		})
	}
}
