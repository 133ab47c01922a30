package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// bench is an endpoint alone, with whoever tests it in the place of a sender.
type bench struct {
	w        *world
	d        *destination
	answers  map[int]int // by status
	until    float64
	answered func()
}

func newBench(t *testing.T, s Scenario) *bench {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatalf("Check: %v", err)
	}
	st, err := ParseStrategy("law")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(&s, &st, 1)
	return &bench{w: w, d: w.dests[0], answers: make(map[int]int)}
}

func (b *bench) accept(bool)     {}
func (b *bench) restart(float64) {}
func (b *bench) asked() *float64 { return &b.until }
func (b *bench) stored() *shelf  { return nil }
func (b *bench) limit() float64  { return 0 }

func (b *bench) result(r *request) {
	b.answers[r.status]++
	b.w.heard(r)
	if b.answered != nil {
		b.answered()
	}
}

// sendAt lets a request leave at a time.
func (b *bench) sendAt(at float64) {
	b.w.at(at, func() {
		b.w.send(request{event: b.w.newEvent(b, b.w.now, false), from: b, to: b.d})
	})
}

// play does everything up to a time.
func (b *bench) play(until float64) {
	for {
		t, ok := b.w.agenda.next()
		if ok && t.at > until {
			b.w.agenda.push(t)
		}
		if !ok || t.at > until {
			b.w.now = until
			return
		}
		b.w.now = t.at
		b.w.perform(t)
	}
}

// onCliff is an endpoint that bears 20 requests in a second.
func onCliff(change func(*Scenario)) Scenario {
	return atEdge("edge", "", func(s *Scenario) {
		s.Capacity, s.Outages, s.Again = 20, nil, Again{}
		if change != nil {
			change(s)
		}
	})
}

// TestCliffCrashesAtOneMore: as many as it bears in any one second are served
// for ever, at once or evenly; one more takes it down for ten seconds, with
// everything it was serving.
func TestCliffCrashesAtOneMore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		times   func(i int) float64
		n       int
		crashes int
	}{
		"twenty at once, every second":    {func(i int) float64 { return float64(i / 20) }, 400, 0},
		"twenty-one at once":              {func(int) float64 { return 0 }, 21, 1},
		"evenly":                          {func(i int) float64 { return float64(i) * 0.05 }, 400, 0},
		"evenly, a little faster":         {func(i int) float64 { return float64(i) * 0.0499 }, 40, 1},
		"ten and eleven over the edge":    {func(i int) float64 { return 0.9 + 0.2*float64(i/10) }, 21, 1},
		"one more just after the second":  {func(i int) float64 { return 1.0001 * float64(i/20) }, 21, 0},
		"one more just before its end":    {func(i int) float64 { return 0.9999 * float64(i/20) }, 21, 1},
		"twice, with the time down apart": {func(i int) float64 { return 12 * float64(i/21) }, 42, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, onCliff(nil))
			for i := range tc.n {
				b.sendAt(tc.times(i))
			}
			b.play(100)
			if b.w.metrics.crashes != tc.crashes {
				t.Errorf("%d crashes, want %d", b.w.metrics.crashes, tc.crashes)
			}
			if sum := b.answers[200] + b.answers[503] + b.answers[0]; sum != tc.n || tc.crashes == 0 && sum > b.answers[200] {
				t.Errorf("answers %v of %d requests", b.answers, tc.n)
			}
		})
	}
}

// TestCliffIsDownForItsTime: after a crash everything is refused until it is
// over, and then a whole second's worth is served again.
func TestCliffIsDownForItsTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, onCliff(func(s *Scenario) { s.Latency = Duration(200 * time.Millisecond) }))
	for range 21 {
		b.sendAt(1)
	}
	b.play(2)
	if b.answers[0] != 21 || !b.d.down { // those in service are reset with it
		t.Fatalf("answers %v, down %v; want 21 broken connections", b.answers, b.d.down)
	}
	b.sendAt(10.9)
	b.play(11)
	if b.answers[503] != 1 {
		t.Errorf("answers %v, want a 503 while it is down", b.answers)
	}
	for range 20 {
		b.sendAt(11.1)
	}
	b.play(20)
	if b.answers[200] != 20 || b.d.down {
		t.Errorf("answers %v, down %v; want 20 served after ten seconds", b.answers, b.d.down)
	}
}

// TestCliffHangs: what is too much gets no answer, nor does what was being served, and
// whoever comes while it lasts. Then it is there again.
func TestCliffHangs(t *testing.T) {
	t.Parallel()
	b := newBench(t, onCliff(func(s *Scenario) {
		s.Latency, s.Cliff = Duration(200*time.Millisecond), Cliff{Mode: CliffHang, For: Duration(10 * time.Second)}
	}))
	for range 21 {
		b.sendAt(1)
	}
	b.sendAt(10.9)
	b.sendAt(11.1)
	b.play(14)
	if b.answers[200] != 1 || len(b.answers) != 1 {
		t.Errorf("answers %v before the timeout, want one 200, after the ten seconds", b.answers)
	}
	b.play(40)
	if b.answers[0] != 22 || b.w.metrics.crashes != 1 {
		t.Errorf("answers %v and %d crashes, want 22 timeouts and one", b.answers, b.w.metrics.crashes)
	}
}

// TestCliffLatencyIsFlat: latency tells nothing, up to the last request.
func TestCliffLatencyIsFlat(t *testing.T) {
	t.Parallel()
	b := newBench(t, onCliff(func(s *Scenario) { s.Latency = Duration(300 * time.Microsecond) }))
	var last float64
	b.answered = func() { last = b.w.now }
	for range 20 {
		b.sendAt(1)
	}
	b.play(5)
	if got := last - 1; math.Abs(got-0.0013) > 1e-9 {
		t.Errorf("the last of 20 took %v s, want 0.3 ms and a network of 1 ms", got)
	}
}

// TestCliffRefuses: what is too much gets 503 at once, and the rest is served.
func TestCliffRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, onCliff(func(s *Scenario) { s.Cliff = Cliff{Mode: CliffRefuse} }))
	for i := range 300 { // thirty per second
		b.sendAt(float64(i) / 30)
	}
	b.play(20)
	if b.answers[200] < 195 || b.answers[200] > 205 || b.answers[200]+b.answers[503] != 300 || b.w.metrics.crashes > 0 {
		t.Errorf("answers %v, %d crashes; want 20 per second served, the others 503, none", b.answers, b.w.metrics.crashes)
	}
}

// TestEdgeOfAWindow: as many in any of its seconds as it bears in all of them, and no more.
func TestEdgeOfAWindow(t *testing.T) {
	t.Parallel()
	e := newEdge(5, 2)
	for i := range 10 {
		if !e.bears(1 + 0.1*float64(i)) {
			t.Fatalf("request %d of ten is too much", i+1)
		}
	}
	for at, want := range map[float64]bool{2: false, 5.95: false} {
		if e.bears(at) != want {
			t.Errorf("the eleventh after %gs: borne %v, want %v", at-1, !want, want)
		}
	}
	if !e.bears(6) || e.bears(6.05) {
		t.Error("five seconds after the first of them there is room for one, and no more")
	}
}

// TestEdgeResized: a new capacity counts what came in the last second.
func TestEdgeResized(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ from, sent, to, more int }{
		"halved, full":  {20, 20, 10, 0},
		"halved, empty": {20, 0, 10, 10},
		"halved, some":  {20, 4, 10, 6},
		"doubled":       {20, 20, 40, 20},
		"doubled, some": {20, 7, 40, 33},
	} {
		e := newEdge(1, float64(tc.from))
		for i := range tc.sent {
			e.bears(1 + float64(i)*0.001)
		}
		e.resize(float64(tc.to))
		more := 0
		for e.bears(1.5) {
			more++
		}
		if more != tc.more {
			t.Errorf("%s: it bears %d more, want %d", name, more, tc.more)
		}
	}
}

// TestColdCliff: what the endpoint bears grows with the time since it came back, until its next
// fall, and its latency is the same.
func TestColdCliff(t *testing.T) {
	t.Parallel()
	b := newBench(t, onCliff(func(s *Scenario) { s.Warmup = Warmup{From: 0.25, Over: Duration(time.Minute)} }))
	bears := func() (n int) {
		for b.d.edge.bears(b.w.now) {
			n++
		}
		return n
	}
	if n, took := bears(), b.d.serviceTime(); n != 20 || took != 0.0003 {
		t.Errorf("before any fall it bears %d, at %gs each; want 20, 0.3 ms", n, took)
	}
	for _, at := range []float64{100, 200} {
		b.play(at)
		b.d.fall()
		b.d.rise()
		for _, tc := range []struct {
			after float64
			want  int
		}{{0, 5}, {20, 10}, {60, 20}} {
			b.play(at + tc.after)
			if n, took := bears(), b.d.serviceTime(); n != tc.want || took != 0.0003 {
				t.Errorf("%gs after it came back it bears %d, at %gs each; want %d, 0.3 ms", tc.after, n, took, tc.want)
			}
		}
	}
}

// TestStrayShare: so many answers are 429, whatever the rate.
func TestStrayShare(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []float64{1, 50} {
		s := stray("stray", 0.01, 50)
		b := newBench(t, s)
		const n = 10_000
		for i := range n {
			b.sendAt(float64(i) / perSecond)
		}
		b.play(n)
		if got := b.answers[429]; got < 65 || got > 140 || got+b.answers[200] != n {
			t.Errorf("at %v per second: answers %v, want about 100 of 429", perSecond, b.answers)
		}
	}
}

// TestSingle429: exactly the next request is throttled, and what is sent before
// its Retry-After has passed is a broken hold.
func TestSingle429(t *testing.T) {
	t.Parallel()
	b := newBench(t, quiet("quiet", time.Minute))
	b.d.single = 1
	b.sendAt(1)
	b.sendAt(1.5) // too early
	b.sendAt(2.1) // late enough: the answer came after some milliseconds
	b.play(3)
	if b.answers[429] != 1 || b.answers[200] != 2 || b.w.metrics.brokenHolds != 1 {
		t.Errorf("answers %v, %d broken holds; want one 429, two of 200, one", b.answers, b.w.metrics.brokenHolds)
	}
}

// TestFlapsByItself: it is down for its share of the time, without any request,
// and none of it is a crash.
func TestFlapsByItself(t *testing.T) {
	t.Parallel()
	b := newBench(t, flapping("flap", time.Minute))
	b.d.flap(rand.New(rand.NewPCG(1, 3000)))
	down := 0
	const hours = 10
	for i := range hours * 3600 {
		b.play(float64(i))
		if b.d.down {
			down++
		}
	}
	share := float64(down) / (hours * 3600)
	if share < 0.11 || share > 0.18 || b.w.metrics.crashes > 0 { // 10 s of 70
		t.Errorf("down for %.3f of the time with %d crashes, want about a seventh and none", share, b.w.metrics.crashes)
	}
}

// TestShelf: what waits on disk comes back in its order, with its poison, and
// what was taken takes no room.
func TestShelf(t *testing.T) {
	t.Parallel()
	var s shelf
	const n = 3*shelfPiece + 5
	for i := range n {
		s.push(float64(i), i%3 == 0)
	}
	for i := range n - 2 {
		if created, poison := s.pop(); created != float64(i) || poison != (i%3 == 0) {
			t.Fatalf("event %d is %v, %v", i, created, poison)
		}
	}
	left := 0
	s.each(func(created float64, _ bool) {
		left++
		if created < n-2 {
			t.Errorf("%v is still there", created)
		}
	})
	if left != 2 || s.len() != 2 || len(s.pieces) != 1 {
		t.Errorf("%d left, length %d, %d pieces; want 2, 2, 1", left, s.len(), len(s.pieces))
	}
}

// TestLongBacklog: what does not fit into the window comes from disk, all of it
// and once.
func TestLongBacklog(t *testing.T) {
	t.Parallel()
	s := onCliff(func(s *Scenario) {
		s.Outages = []Outage{{At: Duration(time.Minute), For: Duration(10 * time.Minute)}}
		s.Poison = 0.01
	})
	st, err := ParseStrategy("law")
	if err != nil {
		t.Fatal(err)
	}
	st.Policy.RateLimit.PerSecond, st.Policy.RateLimit.Burst = 18, 1
	w := newWorld(&s, &st, 1)
	sender, _ := w.places[0].send.(*law)
	sender.window = 64
	longest := 0
	w.observe = func(m Moment) {
		longest = max(longest, m.Lane.Queued())
	}
	if err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := w.metrics.result(1)
	if !r.Drain.Known() || r.Dead > 0 || r.Crashes > 0 || r.Backlog < 5000 {
		t.Errorf("drain %v, %v dead, %d crashes, backlog %d", r.Drain, r.Dead, r.Crashes, r.Backlog)
	}
	delivered := 0
	for _, n := range r.Trace.Delivered {
		delivered += n
	}
	if want := w.metrics.goodEvents - w.metrics.pending; delivered != want {
		t.Errorf("%d delivered, want %d: each once", delivered, want)
	}
	if longest > 1000 || len(w.events) > 2000 {
		t.Errorf("%d in the lane and room for %d events, want a small part of the backlog", longest, len(w.events))
	}
}

// TestFoundCapacity: a larger capacity counts as found after a minute above the
// old one.
func TestFoundCapacity(t *testing.T) {
	t.Parallel()
	s := atEdge("grown", "", func(s *Scenario) { s.Again.Capacity = 2 })
	m := &metrics{w: &world{s: &s}}
	m.second.recovery = 100
	m.delivered = slices.Concat(
		slices.Repeat([]int{150}, 100), // before the recovery: nothing of it counts
		slices.Repeat([]int{100}, 200), slices.Repeat([]int{150}, 10), slices.Repeat([]int{90}, 100),
	)
	if got := m.found(); got.Known() {
		t.Errorf("found after %v s, want never: ten seconds are a peak", got)
	}
	m.delivered = append(m.delivered, slices.Repeat([]int{150}, 100)...)
	// 310 s at or below the old capacity, then 60 of it until the mean is 120.
	if got := m.found(); got < 310+25 || got > 310+35 {
		t.Errorf("found after %v s, want about 340", got)
	}
}

// TestOptimumKnowsOfFlaps: no sender can be blamed for the time that an endpoint
// was down by itself, nor for what came in meanwhile.
func TestOptimumKnowsOfFlaps(t *testing.T) {
	t.Parallel()
	b := newBench(t, flapping("flap", time.Minute)) // bears 200/s, and 100/s come in
	m, d := b.w.metrics, &span{recovery: 100, backlog: 3000}
	for _, tc := range []struct {
		name  string
		flaps []period
		want  float64
	}{
		{"none", nil, 30},
		{"one before and one after", []period{{50, 60}, {130, 140}}, 30},
		{"one in between", []period{{110, 120}}, 30 + 10 + 10},
		{"one that is on at the recovery", []period{{95, 105}}, 30 + 5 + 5},
		{"one within what another costs", []period{{110, 120}, {140, 150}}, 30 + 20 + 20},
	} {
		m.flaps = tc.flaps
		if got := m.optimum(d, b.w.s.spare()); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: %v s, want %v", tc.name, got, tc.want)
		}
	}
}
