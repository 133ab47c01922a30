package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/store/pgtest"
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
	return n.Load, func() { close(quit); <-done }
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
	inOutage func(*storm)  // called as the outage begins, and may take all of it
	inDrain  func(*storm)  // called as it ends
}

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
	drain    float64 // over the optimum
}

// run lets it happen.
func (c recovery) run(t *testing.T) *storm {
	t.Helper()
	s := c.start(t)
	accepted, stop := traffic(t, func(n int) string { return s.nodes[n%len(s.nodes)].url }, c.live)
	time.Sleep(c.warm)
	s.began = time.Now()
	s.d.tell(object{"fail": 503, "latency": c.answer.String()})
	if c.inOutage != nil {
		c.inOutage(s)
	}
	time.Sleep(time.Until(s.began.Add(c.outage)))
	s.ended = time.Now()
	s.d.tell(object{"fail": 0, "latency": "0s"})
	backlog := float64(accepted() - s.d.report().UniqueIDs)
	optimum := backlog / (c.capacity - c.live)
	if c.inDrain != nil {
		c.inDrain(s)
	}
	eventually(t, time.Duration(4*optimum*float64(time.Second))+time.Minute, "the backlog is drained", func() bool {
		time.Sleep(200 * time.Millisecond)
		return float64(accepted()-s.d.report().UniqueIDs) <= max(20, 3*c.live)
	})
	s.drain = time.Since(s.ended).Seconds() / optimum
	time.Sleep(3 * time.Second)
	stop()
	eventually(t, 60*time.Second, "everything is delivered", func() bool { return s.d.report().UniqueIDs >= accepted() })
	s.report, s.accepted = s.d.report(), accepted()
	return s
}

// start brings up the servers and the destination.
func (c recovery) start(t *testing.T) *storm {
	t.Helper()
	s := &storm{t: t}
	if c.nodes == 0 {
		s.nodes = []*server{serve(t)}
	} else {
		s.dsn = pgtest.DSN(t)
		for range c.nodes {
			s.nodes = append(s.nodes, serve(t, "--database-url", s.dsn, "--lease-ttl", "5s", "--lease-renew", "1s"))
		}
		eventually(t, 30*time.Second, "the nodes share the shards", func() bool { return shared(t, s.dsn, c.nodes) })
	}
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
	Limit         float64
	RatePerSecond float64 `json:"rate_per_second"`
}

func (s *server) lane(endpoint string) laneView {
	s.t.Helper()
	var v laneView
	s.api("GET", "/endpoints/"+endpoint+"/lane", nil, &v)
	return v
}

// opened waits until the lane is open and returns since when.
func (s *storm) opened() time.Time {
	s.t.Helper()
	var v laneView
	eventually(s.t, 20*time.Second, "the lane opens", func() bool {
		v = s.nodes[0].lane(s.endpoint)
		return v.State == "open"
	})
	return v.OpenedAt
}

// probes returns what came to the destination while the lane was open. Whatever
// was on its way when it opened has come within a second; no probe has.
func (s *storm) probes(opened time.Time) []arrival {
	s.t.Helper()
	return between(s.d.arrivals(), opened.Add(time.Second), s.ended)
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
	eventually(s.t, 20*time.Second, "another node owns the lane", func() bool {
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
		"sqlite":             {capacity: 100, live: 50, workers: 20, warm: 20 * time.Second, outage: 30 * time.Second},
		"three nodes":        {capacity: 100, live: 50, workers: 20, warm: 20 * time.Second, outage: 30 * time.Second, nodes: 3},
		"brand-new endpoint": {capacity: 100, live: 50, workers: 20, outage: 30 * time.Second},
		"small destination":  {capacity: 5, live: 2.5, workers: 1, warm: 20 * time.Second, outage: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.run(t)
			waste := float64(s.report.Failed) / float64(s.accepted)
			t.Logf("%d accepted, %d crashes, drained in %.2f x the optimum, %.3f wasted attempts per event, %d at most in flight",
				s.accepted, s.report.Crashes, s.drain, waste, s.report.MaxFlight)
			s.checkUnharmed()
			if s.drain > 1.5 {
				t.Errorf("drained in %.2f x the optimum, want at most 1.5", s.drain)
			}
			// Noticing the outage takes five failures and finding its end a probe
			// every two seconds or so, however few events there are.
			least := (5 + c.outage.Seconds()/leastGap.Seconds()) / float64(s.accepted)
			if limit := max(0.05, least); waste > limit {
				t.Errorf("%.3f wasted attempts per event, want at most %.3f", waste, limit)
			}
		})
	}
}

// TestFailOverDuringARecovery kills the owner of the lane while the backlog
// drains: the new one neither crashes the destination nor loses anything.
func TestFailOverDuringARecovery(t *testing.T) {
	t.Parallel()
	c := recovery{capacity: 100, live: 50, workers: 20, warm: 15 * time.Second, outage: 25 * time.Second, nodes: 3}
	c.inDrain = func(s *storm) {
		eventually(t, 20*time.Second, "the drain has begun", func() bool { return s.nodes[0].lane(s.endpoint).State == "closed" })
		time.Sleep(4 * time.Second)
		began := time.Now()
		s.killOwner()
		t.Logf("another node owns the lane %v after the kill", time.Since(began))
	}
	s := c.run(t)
	t.Logf("%d accepted, %d crashes, %d arrived again, drained in %.2f x the optimum, %d at most in flight",
		s.accepted, s.report.Crashes, s.report.Dup, s.drain, s.report.MaxFlight)
	s.checkUnharmed()
}

// TestFailOverDuringAnOutage kills the owner of an open lane: the next owner
// goes on probing where it stopped, never two at a time.
func TestFailOverDuringAnOutage(t *testing.T) {
	t.Parallel()
	c := recovery{
		capacity: 100, live: 20, workers: 20, warm: 8 * time.Second, outage: 30 * time.Second, nodes: 3,
		answer: 300 * time.Millisecond, // so that two probes at a time would meet
	}
	var opened, killed, taken time.Time
	c.inOutage = func(s *storm) {
		opened = s.opened()
		time.Sleep(6 * time.Second)
		killed = time.Now()
		taken = s.killOwner()
	}
	s := c.run(t)
	probes := s.probes(opened)
	before, after := len(between(probes, opened, killed)), len(between(probes, taken, s.ended))
	t.Logf("%d accepted, %d crashes, drained in %.2f x the optimum; %d probes before the kill, %d after the take-over %v later",
		s.accepted, s.report.Crashes, s.drain, before, after, taken.Sub(killed))
	s.checkUnharmed()
	checkProbes(t, probes)
	if before == 0 || after == 0 {
		t.Errorf("%d probes before the kill and %d after it, want some of both", before, after)
	}
}
