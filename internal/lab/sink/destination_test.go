package sink_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/lab/sink"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// request is one arrival: so long after the start, with this draw.
type request struct {
	at time.Duration
	u  float64
}

// every returns requests at an even pace, with draws of a half.
func every(gap, from time.Duration, n int) []request {
	out := make([]request, n)
	for i := range out {
		out[i] = request{from + time.Duration(i)*gap, 0.5}
	}
	return out
}

// told writes an outcome in a word: a status, with its Retry-After and its
// wait, or that the connection was cut, or that it crashed.
func told(o sink.Outcome) string {
	switch {
	case o.Crash != nil:
		return fmt.Sprintf("crash(%d %s)", o.Crash.Load, o.Crash.Why)
	case o.Status == 0:
		return "cut"
	}
	out := fmt.Sprint(o.Status)
	if o.RetryAfter > 0 {
		out += fmt.Sprintf("/%d", o.RetryAfter)
	}
	if o.Wait > 0 {
		out += "+" + o.Wait.String()
	}
	return out
}

const ms = time.Millisecond

func TestDecide(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		behaviour sink.Behaviour
		requests  []request
		want      string
	}{
		"well": {requests: every(0, 0, 2), want: "200 200"},
		"latency is flat up to the crash": {
			sink.Behaviour{CrashOver: 3, CrashFor: 10 * time.Second, Latency: 200 * ms},
			[]request{{0, 0}, {300 * ms, 0}, {600 * ms, 0}, {999 * ms, 0}, {time.Second, 0}, {10_998 * ms, 0}, {10_999 * ms, 0}},
			"200+200ms 200+200ms 200+200ms crash(4 arrivals) cut cut 200+200ms",
		},
		"a second slides": {
			sink.Behaviour{CrashOver: 3},
			[]request{{0, 0}, {900 * ms, 0}, {950 * ms, 0}, {time.Second, 0}, {1899 * ms, 0}},
			"200 200 200 200 crash(4 arrivals)",
		},
		"as many as allowed for ever": {sink.Behaviour{CrashOver: 10}, every(100*ms, 0, 30), strings.TrimSpace(strings.Repeat("200 ", 30))},
		"what comes to one that is down does not count": {
			sink.Behaviour{CrashOver: 1, CrashFor: time.Second},
			append(every(0, 0, 5), every(0, time.Second, 1)...),
			"200 crash(2 arrivals) cut cut cut 200",
		},
		"a crash forgets what came before it": {
			sink.Behaviour{CrashOver: 2, CrashFor: 100 * ms},
			append(every(0, 0, 3), every(0, 100*ms, 3)...),
			"200 200 crash(3 arrivals) 200 200 crash(3 arrivals)",
		},
		"down with a status": {sink.Behaviour{CrashOver: 1, DownStatus: 503}, every(0, 0, 3), "200 crash(2 arrivals) 503"},
		"refuses at once what is over, and serves the rest": {
			sink.Behaviour{RefuseOver: 2, Latency: 200 * ms, RetryAfter: 9},
			every(250*ms, 0, 10),
			"200+200ms 200+200ms 503 503 200+200ms 200+200ms 503 503 200+200ms 200+200ms",
		},
		"throttles": {
			sink.Behaviour{ThrottleOver: 2, RetryAfter: 5},
			append(every(0, 0, 4), every(0, 500*ms, 2)...),
			"200 200 429/5 429/5 200 429/5",
		},
		"throttles with a burst":   {sink.Behaviour{ThrottleOver: 1, ThrottleBurst: 3}, every(0, 0, 5), "200 200 200 429/1 429/1"},
		"throttles below 1/s":      {sink.Behaviour{ThrottleOver: 0.5}, every(time.Second, 0, 4), "200 429/1 200 429/1"},
		"stray 429 by lot":         {sink.Behaviour{Stray429: 0.01, RetryAfter: 1}, []request{{0, 0.0099}, {0, 0.01}, {time.Hour, 0}}, "429/1 200 429/1"},
		"stray 429s cost no token": {sink.Behaviour{Stray429: 0.1, ThrottleOver: 1, RetryAfter: 2}, []request{{0, 0}, {0, 0.5}, {0, 0.5}}, "429/2 200 429/2"},
		"one 429 so often": {
			sink.Behaviour{One429Every: 38 * time.Second},
			[]request{{0, 0}, {37 * time.Second, 0}, {40 * time.Second, 0}, {41 * time.Second, 0}, {77 * time.Second, 0}, {78 * time.Second, 0}},
			"200 200 429/1 200 200 429/1",
		},
		"a script": {sink.Behaviour{Next: []int{429, 503, 204}, RetryAfter: 5}, every(0, 0, 4), "429/5 503/5 204 200"},
		"the script waits while it is down": {
			sink.Behaviour{Next: []int{503}, DownFor: time.Second}, every(time.Second, 0, 3), "cut 503 200",
		},
		"outage from the start": {sink.Behaviour{DownFor: 30 * time.Second}, every(15*time.Second, 0, 3), "cut cut 200"},
		"outage later": {
			sink.Behaviour{DownFor: 10 * time.Second, After: 20 * time.Second, DownStatus: 502}, every(10*time.Second, 0, 4), "200 200 502 200",
		},
		"flaps": {
			sink.Behaviour{FlapEvery: 40 * time.Second, FlapFor: 10 * time.Second}, every(10*time.Second, 0, 9), "200 200 200 cut 200 200 200 cut 200",
		},
		"fails":             {sink.Behaviour{Fail: 500}, every(time.Hour, 0, 2), "500 500"},
		"fails for a while": {sink.Behaviour{Fail: 503, FailFor: 5 * time.Second, RetryAfter: 2}, every(2500*ms, 0, 3), "503/2 503/2 200"},
		"fails later":       {sink.Behaviour{Fail: 503, FailFor: time.Second, After: time.Second}, every(time.Second, 0, 3), "200 503 200"},
		"fails at times":    {sink.Behaviour{FailRate: 0.3}, []request{{0, 0.29}, {0, 0.3}}, "503 200"},
		"fails or strays": { // of the 70 % that do not fail, 10 % stray
			sink.Behaviour{FailRate: 0.3, Stray429: 0.1}, []request{{0, 0.29}, {0, 0.36}, {0, 0.38}}, "503 429/1 200",
		},
		"gone": {sink.Behaviour{Gone: true, Next: []int{200}}, every(0, 0, 1), "410"},
		"capacity makes a queue": { // two workers of 200 ms each
			sink.Behaviour{Capacity: 10, Workers: 2, Queue: 3, CrashFor: time.Second},
			append(every(0, 0, 6), request{time.Second, 0}),
			"200+200ms 200+200ms 200+400ms 200+400ms 200+600ms crash(6 queue) 200+200ms",
		},
		"capacity is used in full, with the latency on top": {
			sink.Behaviour{Capacity: 10, Workers: 1, Queue: 1, Latency: 50 * ms}, every(100*ms, 0, 4), "200+150ms 200+150ms 200+150ms 200+150ms",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := tc.behaviour.Check(); err != nil {
				t.Fatal(err)
			}
			d := sink.NewDestination(tc.behaviour, start)
			var got []string
			for _, r := range tc.requests {
				got = append(got, told(d.Decide(start.Add(r.at), r.u)))
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCrashTakesWhatIsInFlight: an answer that is due after the crash is never
// sent, one that was sent before has been.
func TestCrashTakesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	d := sink.NewDestination(sink.Behaviour{CrashOver: 2, CrashFor: ms, Latency: time.Second}, start)
	first := d.Decide(start, 0)
	second := d.Decide(start.Add(500*ms), 0)
	third := d.Decide(start.Add(1001*ms), 0)
	if got := d.Settle(first, start.Add(time.Second)); got != 200 {
		t.Errorf("answered before the crash: %d, want 200", got)
	}
	if o := d.Decide(start.Add(1100*ms), 0); o.Crash == nil {
		t.Fatalf("third within a second: %+v, want a crash", o)
	}
	later := start.Add(2100 * ms) // it is up again by then
	for i, o := range []sink.Outcome{second, third} {
		if got := d.Settle(o, later); got != 0 {
			t.Errorf("request %d was in flight during the crash and got %d, want none", i+2, got)
		}
	}
	if o := d.Decide(later, 0); o.Status != 200 {
		t.Errorf("after the crash: %+v, want 200", o)
	}
}

// TestOutageTakesWhatIsInFlight: so does an outage that begins meanwhile.
func TestOutageTakesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	d := sink.NewDestination(sink.Behaviour{DownFor: time.Minute, After: time.Second, Latency: 2 * time.Second}, start)
	o := d.Decide(start, 0)
	if got := d.Settle(o, start.Add(o.Wait)); got != 0 {
		t.Errorf("due within the outage: %d, want none", got)
	}
}

// TestAdopt: a change of the latency does not bring a crashed destination back
// and forgets no arrivals.
func TestAdopt(t *testing.T) {
	t.Parallel()
	b := sink.Behaviour{CrashOver: 1, CrashFor: time.Minute}
	d := sink.NewDestination(b, start)
	d.Decide(start, 0)
	b.Latency = time.Second
	d.Adopt(b, start)
	if o := d.Decide(start, 0); o.Crash == nil {
		t.Errorf("second within a second: %+v, want a crash", o)
	}
	d.Adopt(b, start)
	if o := d.Decide(start.Add(time.Second), 0); o.Status != 0 {
		t.Errorf("crashed: %+v, want none", o)
	}
}

// TestForksShareNothing: what one path gets does not count against another's.
func TestForksShareNothing(t *testing.T) {
	t.Parallel()
	a := sink.NewDestination(sink.Behaviour{CrashOver: 1, ThrottleOver: 1, Capacity: 1, Workers: 1}, start)
	a.Decide(start, 0)
	b := a.Fork()
	if o := b.Decide(start, 0); o.Status != 200 || o.Wait != time.Second {
		t.Errorf("first of the other: %+v, want 200 after 1s", o)
	}
	if o := a.Decide(start, 0); o.Crash == nil {
		t.Errorf("second of the first: %+v, want a crash", o)
	}
	if o := b.Decide(start.Add(time.Second), 0); o.Status == 0 {
		t.Errorf("the other crashed too")
	}
}

// TestNeverMoreThanAllowed: whatever comes, no more are served within any
// second than the limit says, and whoever keeps below it is never refused.
func TestNeverMoreThanAllowed(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	for range 50 {
		limit := 1 + rng.IntN(40)
		d := sink.NewDestination(sink.Behaviour{RefuseOver: float64(limit)}, start)
		var served []time.Time
		within := func(now time.Time) (n int) {
			for _, at := range served {
				if now.Sub(at) < time.Second {
					n++
				}
			}
			return n
		}
		now := start
		for range 500 {
			now = now.Add(time.Duration(rng.ExpFloat64() * float64(time.Second) / float64(limit) / 1.5))
			before := within(now)
			if ok := d.Decide(now, 0).Status == 200; ok != (before < limit) {
				t.Fatalf("limit %d, %d served within the second: served %v", limit, before, ok)
			} else if ok {
				served = append(served, now)
			}
		}
	}
}

func TestWindowForgets(t *testing.T) {
	t.Parallel()
	var w sink.Window
	most := 0
	for i := range 200_000 { // at 10,000 per second
		most = max(most, w.Add(start.Add(time.Duration(i)*100*time.Microsecond)))
	}
	if most != 10_000 {
		t.Errorf("%d within a second, want 10000", most)
	}
	if w.Memory() > 50_000 {
		t.Errorf("room for %d is kept for 10,000", w.Memory())
	}
	w.Add(start.Add(time.Hour))
	if w.Memory() > 256 {
		t.Errorf("room for %d is kept for one", w.Memory())
	}
}
