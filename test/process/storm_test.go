package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// traffic publishes at a steady rate until it is stopped, and returns how many
// events were accepted. A server that is away is passed over.
func traffic(t *testing.T, url func(n int) string, perSecond float64) (accepted func() int64, stop func()) {
	t.Helper()
	return trafficOf(t, url, perSecond, func(int) string { return "order.paid" })
}

// trafficOf is traffic whose events are of several types.
func trafficOf(t *testing.T, url func(n int) string, perSecond float64, kind func(n int) string) (accepted func() int64, stop func()) {
	t.Helper()
	var n atomic.Int64
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-t.Context().Done():
				return
			case <-quit: // the last event is not cut short: it may have been accepted
				return
			case <-tick.C:
			}
			next := func(try int) string { return url(i + try) }
			if _, err := publishTo(t.Context(), next, kind(i), fmt.Sprintf("%s-%d", t.Name(), i)); err == nil {
				n.Add(1)
			}
		}
	}()
	return n.Load, sync.OnceFunc(func() { close(quit); <-done })
}

// recovery is one run of an outage and the drain after it.
type recovery struct {
	capacity float64
	live     float64
	workers  int
	sink     []string      // more flags of the destination
	policy   object        // of the endpoint
	warm     time.Duration // traffic before the outage; 0: the endpoint is new
	outage   time.Duration
	answer   time.Duration // how long a failing destination takes to answer
	nodes    int           // on Postgres; 0: one on SQLite
	long     bool          // takes minutes
	inOutage func(*storm)  // called as the outage begins, and may take all of it
	inDrain  func(*storm)  // called as it ends
}

// besideTraffic is how much of a drain has live traffic beside it where times
// are not judged. The backlog alone drains in seconds, beside traffic in a
// minute, and on a machine that cannot keep up not at all.
const besideTraffic = 10 * time.Second

// storm is a recovery under way, and what has come of it.
type storm struct {
	t        *testing.T
	nodes    []*server
	dsn      string
	d        *destination
	endpoint string

	began    time.Time // the outage
	ended    time.Time
	report   sinkReport
	accepted int64
	optimum  time.Duration // of the drain
	drain    time.Duration
}

// newStorm starts so many nodes on Postgres, or for 0 one server on SQLite.
func newStorm(t *testing.T, nodes int) *storm {
	t.Helper()
	s := &storm{t: t}
	if nodes == 0 {
		s.nodes = []*server{serve(t)}
		return s
	}
	s.nodes, s.dsn = cluster(t, nodes, shortLease...)
	eventually(t, time.Minute, "the nodes share the shards", func() bool { return shared(t, s.dsn, nodes) })
	return s
}

// run lets it happen.
func (c recovery) run(t *testing.T) *storm {
	t.Helper()
	s := c.start(t)
	accepted, stop := traffic(t, func(n int) string { return s.nodes[n%len(s.nodes)].url }, c.live)
	c.pass(accepted, time.Now(), c.warm)
	s.began = time.Now()
	s.d.tell(object{"fail": 503, "latency": c.answer.String()})
	if c.inOutage != nil {
		c.inOutage(s)
	}
	c.pass(accepted, s.began, c.outage)
	s.ended = time.Now()
	s.d.tell(object{"fail": 0, "latency": "0s"})
	backlog := float64(accepted() - s.d.report().UniqueIDs)
	s.optimum = time.Duration(backlog / (c.capacity - c.live) * float64(time.Second))
	if c.inDrain != nil {
		c.inDrain(s)
	}
	if !timesJudged() {
		time.Sleep(besideTraffic)
		stop()
	}
	eventually(t, 4*s.optimum+5*time.Minute, "the backlog is drained", func() bool {
		time.Sleep(200 * time.Millisecond)
		return float64(accepted()-s.d.report().UniqueIDs) <= max(20, 3*c.live)
	})
	s.drain = time.Since(s.ended)
	if timesJudged() {
		time.Sleep(3 * time.Second)
	}
	stop()
	eventually(t, 5*time.Minute, "everything is delivered", func() bool { return s.d.report().UniqueIDs >= accepted() })
	s.report, s.accepted = s.d.report(), accepted()
	return s
}

// pass waits until so much time has passed, and on a busy machine until half of
// what should be published in it is: a backlog of few events proves little.
func (c recovery) pass(accepted func() int64, from time.Time, lasts time.Duration) {
	const patience = 3 * time.Minute
	before, due := accepted(), time.Until(from.Add(lasts))
	time.Sleep(due)
	for enough := int64(c.live * max(due, 0).Seconds() / 2); accepted()-before < enough && time.Since(from) < patience; {
		time.Sleep(100 * time.Millisecond)
	}
}

// start brings up the servers and the destination.
func (c recovery) start(t *testing.T) *storm {
	t.Helper()
	s := newStorm(t, c.nodes)
	args := append([]string{
		"--capacity", fmt.Sprintf("%g/s", c.capacity), "--workers", fmt.Sprint(c.workers),
		"--crash-over", fmt.Sprintf("%g/s", 3*c.capacity), "--crash-for", "10s",
	}, c.sink...)
	s.d = startSink(t, args...)
	if c.warm == 0 {
		s.d.tell(object{"fail": 503})
	}
	extra := object{}
	if c.policy != nil {
		extra["policy"] = c.policy
	}
	s.endpoint, _ = s.nodes[0].endpoint(s.d.url+"/hook", extra)
	return s
}

// drained says how long the drain took.
func (s *storm) drained() string {
	return fmt.Sprintf("drained in %.1f s, the optimum is %.1f s", s.drain.Seconds(), s.optimum.Seconds())
}

// checkDrain: it was close to the optimum, or took the minute that a drain takes
// where there is no need of more haste.
func (s *storm) checkDrain() {
	s.t.Helper()
	if most := max(s.optimum*3/2, 90*time.Second); timesJudged() && s.drain > most {
		s.t.Errorf("%s; want at most %v", s.drained(), most)
	}
}

// checkUnharmed: the destination was not crashed, and nothing was lost.
func (s *storm) checkUnharmed() {
	s.t.Helper()
	if s.report.Crashes > 0 {
		s.t.Errorf("the destination crashed %d more times", s.report.Crashes)
	}
	if s.report.UniqueIDs != s.accepted {
		s.t.Errorf("%d events arrived, %d were accepted", s.report.UniqueIDs, s.accepted)
	}
}

// laneView is what the API says of a lane.
type laneView struct {
	State         string
	OpenedAt      time.Time `json:"opened_at"`
	HoldUntil     time.Time `json:"hold_until"`
	PacedBy       string    `json:"paced_by"`
	Limit         float64
	RatePerSecond float64 `json:"rate_per_second"`
}

func (s *server) lane(endpoint string) laneView {
	s.t.Helper()
	var v laneView
	s.api("GET", "/endpoints/"+endpoint+"/lane", nil, &v)
	return v
}

// opened waits until the lane is open and returns since when, and when all that
// was on its way by then had come: what comes later are probes.
func (s *storm) opened() (at, settled time.Time) {
	s.t.Helper()
	var v laneView
	eventually(s.t, time.Minute, "the lane opens", func() bool {
		v = s.nodes[0].lane(s.endpoint)
		return v.State == "open"
	})
	time.Sleep(time.Second)
	eventually(s.t, time.Minute, "nothing is in flight", func() bool { return s.d.report().InFlight == 0 })
	return v.OpenedAt, time.Now()
}

// owner returns which node owns the lane of the only endpoint; nil: none does.
func (s *storm) owner() *server {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close(s.t.Context())
	const owner = `SELECT n.name FROM endpoints e JOIN shards s ON s.shard = e.shard JOIN nodes n ON n.id = s.owner_id
WHERE s.expires_at > clock_timestamp()`
	var name string
	if err := conn.QueryRow(s.t.Context(), owner).Scan(&name); err != nil {
		return nil
	}
	for _, n := range s.nodes {
		kept, err := os.ReadFile(filepath.Join(n.dir, "node.name"))
		if err == nil && strings.TrimSpace(string(kept)) == name {
			return n
		}
	}
	s.t.Fatalf("the lane is owned by %q, which is none of the nodes", name)
	return nil
}

// killOwner kills the node that owns the lane, waits until another does, and
// returns when that was.
func (s *storm) killOwner() time.Time {
	s.t.Helper()
	old := s.owner()
	if old == nil {
		s.t.Fatal("nobody owns the lane")
	}
	old.kill()
	eventually(s.t, time.Minute, "another node owns the lane", func() bool {
		now := s.owner()
		return now != nil && now != old
	})
	return time.Now()
}

// TestRecoveryAfterAnOutage: a destination that crashes when it is overrun
// comes back after an outage, with live traffic at half its capacity. It is not
// crashed again, is drained close to the optimum, and few attempts are wasted.
func TestRecoveryAfterAnOutage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]recovery{
		"sqlite":              {capacity: 100, live: 50, workers: 20, warm: 8 * time.Second, outage: 12 * time.Second},
		"three nodes":         {capacity: 100, live: 50, workers: 20, warm: 8 * time.Second, outage: 12 * time.Second, nodes: 3},
		"sqlite, longer":      {capacity: 100, live: 50, workers: 20, warm: 20 * time.Second, outage: 30 * time.Second, long: true},
		"three nodes, longer": {capacity: 100, live: 50, workers: 20, warm: 20 * time.Second, outage: 30 * time.Second, nodes: 3, long: true},
		"brand-new endpoint":  {capacity: 100, live: 50, workers: 20, outage: 30 * time.Second, long: true},
		"small destination":   {capacity: 5, live: 2.5, workers: 1, warm: 20 * time.Second, outage: 30 * time.Second, long: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.long {
				inFull(t)
			}
			s := c.run(t)
			t.Logf("%d accepted, %d crashes, %s, %d wasted attempts, %d at most in flight",
				s.accepted, s.report.Crashes, s.drained(), s.report.Failed, s.report.MaxFlight)
			s.checkUnharmed()
			s.checkDrain()
			// Noticing the outage takes five failures, beside what is in flight, and
			// finding its end a probe every two seconds or so, however few events there are.
			least := 5 + float64(s.report.MaxFlight) + s.ended.Sub(s.began).Seconds()/leastGap.Seconds()
			if limit := max(0.05*float64(s.accepted), least); float64(s.report.Failed) > limit {
				t.Errorf("%d wasted attempts, want at most %.0f", s.report.Failed, limit)
			}
		})
	}
}

// TestFailOverDuringARecovery kills the owner of the lane while the backlog
// drains: the new one neither crashes the destination nor loses anything.
func TestFailOverDuringARecovery(t *testing.T) {
	t.Parallel()
	c := recovery{capacity: 100, live: 50, workers: 20, warm: 8 * time.Second, outage: 12 * time.Second, nodes: 3}
	c.inDrain = func(s *storm) {
		eventually(t, time.Minute, "the drain has begun", func() bool { return s.nodes[0].lane(s.endpoint).State == "closed" })
		time.Sleep(4 * time.Second)
		began := time.Now()
		s.killOwner()
		t.Logf("another node owns the lane %v after the kill", time.Since(began))
	}
	s := c.run(t)
	t.Logf("%d accepted, %d crashes, %d arrived again, %s, %d at most in flight",
		s.accepted, s.report.Crashes, s.report.Dup, s.drained(), s.report.MaxFlight)
	s.checkUnharmed()
}

// TestFailOverDuringAnOutage kills the owner of an open lane: the next owner
// goes on probing where it stopped, never two at a time.
func TestFailOverDuringAnOutage(t *testing.T) {
	t.Parallel()
	c := recovery{
		capacity: 100, live: 20, workers: 20, warm: 5 * time.Second, outage: 20 * time.Second, nodes: 3,
		answer: 300 * time.Millisecond, // so that two probes at a time would meet
	}
	var settled, killed, taken time.Time
	c.inOutage = func(s *storm) {
		_, settled = s.opened()
		s.awaitProbe()
		killed = time.Now()
		taken = s.killOwner()
		s.awaitProbe()
	}
	s := c.run(t)
	probes := between(s.d.arrivals(), settled, s.ended)
	t.Logf("%d accepted, %d crashes, %s; %d probes before the kill, %d after the take-over %v later",
		s.accepted, s.report.Crashes, s.drained(), len(between(probes, settled, killed)), len(between(probes, taken, s.ended)), taken.Sub(killed))
	s.checkUnharmed()
	if n := losses(s.nodes); n > 0 { // by another than the one that was killed: then two owners may meet
		t.Logf("shards were lost %d times: the machine is too busy to tell more", n)
		return
	}
	checkProbes(t, probes)
}

// awaitProbe waits until another probe has failed.
func (s *storm) awaitProbe() {
	s.t.Helper()
	before := s.d.report().Failed
	eventually(s.t, time.Minute, "the destination is probed", func() bool { return s.d.report().Failed > before })
}
