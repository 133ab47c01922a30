package process_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/store/pgtest"
)

// destination is a `breakwater sink` that crashes when it is overrun.
type destination struct {
	t   *testing.T
	url string
}

type sinkReport struct {
	Requests  int64 `json:"requests"`
	OK        int64 `json:"ok"`
	Failed    int64 `json:"failed"`
	Throttled int64 `json:"throttled"`
	Crashes   int64 `json:"crashes"`
	Dup       int64 `json:"duplicates"`
	UniqueIDs int64 `json:"unique_ids"`
	MaxFlight int64 `json:"max_in_flight"`
}

func startSink(t *testing.T, args ...string) *destination {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"sink", "--listen", "127.0.0.1:0"}, args...)...)
	stderr, err := cmd.StderrPipe() // its counts go to stdout
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stderr)
	line, err := out.ReadString('\n')
	url := strings.TrimSuffix(strings.TrimSpace(line[strings.LastIndex(line, "http://"):]), "/")
	if err != nil || !strings.HasPrefix(url, "http://") {
		t.Fatalf("sink did not start: %v %q", err, line)
	}
	go func() {
		for {
			if _, err := out.ReadString('\n'); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return &destination{t: t, url: url}
}

func (d *destination) tell(what object) {
	d.t.Helper()
	if err := call(d.t.Context(), http.MethodPost, d.url+"/_sink", what, nil); err != nil {
		d.t.Fatal(err)
	}
}

func (d *destination) report() sinkReport {
	d.t.Helper()
	var r sinkReport
	if err := call(d.t.Context(), http.MethodGet, d.url+"/_sink", nil, &r); err != nil {
		d.t.Fatal(err)
	}
	return r
}

// traffic publishes at a steady rate until it is stopped, and returns how many
// events were accepted.
func traffic(t *testing.T, url func(n int) string, perSecond float64) (accepted func() int64, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var n atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := publishOne(ctx, url(i), "order.paid", fmt.Sprintf("%s-%d", t.Name(), i)); err == nil {
				n.Add(1)
			}
		}
	}()
	return n.Load, func() { cancel(); <-done }
}

// recovery is one run of an outage and the drain after it.
type recovery struct {
	capacity float64
	live     float64
	workers  int
	warm     time.Duration // traffic before the outage; 0: the endpoint is new
	outage   time.Duration
	nodes    int // on Postgres; 0: one on SQLite
	during   func(nodes []*server)
}

// run returns the sink's report, the events accepted, and drain over optimum.
func (c recovery) run(t *testing.T) (sinkReport, int64, float64) {
	t.Helper()
	var nodes []*server
	if c.nodes == 0 {
		nodes = []*server{serve(t)}
	} else {
		dsn := pgtest.DSN(t)
		for range c.nodes {
			nodes = append(nodes, serve(t, "--database-url", dsn, "--lease-ttl", "5s", "--lease-renew", "1s"))
		}
		eventually(t, 30*time.Second, "the nodes share the shards", func() bool { return shared(t, dsn, c.nodes) })
	}
	d := startSink(t, "--capacity", fmt.Sprintf("%g/s", c.capacity), "--workers", fmt.Sprint(c.workers), "--crash-over", fmt.Sprintf("%g/s", 3*c.capacity), "--crash-for", "10s")
	if c.warm == 0 {
		d.tell(object{"fail": 503})
	}
	nodes[0].endpoint(d.url+"/hook", nil)
	accepted, stop := traffic(t, func(n int) string { return nodes[n%min(len(nodes), 2)].url }, c.live)
	time.Sleep(c.warm)
	d.tell(object{"fail": 503})
	time.Sleep(c.outage)
	d.tell(object{"fail": 0})
	recovered := time.Now()
	backlog := float64(accepted() - d.report().UniqueIDs)
	optimum := backlog / (c.capacity - c.live)
	if c.during != nil {
		over := make(chan struct{})
		go func() {
			defer close(over)
			c.during(nodes)
		}()
		defer func() { <-over }()
	}
	eventually(t, time.Duration(4*optimum*float64(time.Second))+time.Minute, "the backlog is drained", func() bool {
		time.Sleep(200 * time.Millisecond)
		return float64(accepted()-d.report().OK) <= max(20, 3*c.live)
	})
	drain := time.Since(recovered).Seconds() / optimum
	time.Sleep(3 * time.Second)
	stop()
	eventually(t, 30*time.Second, "everything is delivered", func() bool { return d.report().OK >= accepted() })
	return d.report(), accepted(), drain
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
			r, accepted, drain := c.run(t)
			waste := float64(r.Failed) / float64(accepted)
			t.Logf("%d accepted, %d crashes, drained in %.2f x the optimum, %.3f wasted attempts per event, %d at most in flight", accepted, r.Crashes, drain, waste, r.MaxFlight)
			if r.Crashes > 0 {
				t.Errorf("the destination crashed %d more times", r.Crashes)
			}
			if drain > 1.5 {
				t.Errorf("drained in %.2f x the optimum, want at most 1.5", drain)
			}
			// Noticing the outage takes five failures and finding its end a probe
			// every two seconds or so, however few events there are.
			least := (5 + c.outage.Seconds()/1.6) / float64(accepted)
			if limit := max(0.05, least); waste > limit {
				t.Errorf("%.3f wasted attempts per event, want at most %.3f", waste, limit)
			}
			if r.UniqueIDs != accepted {
				t.Errorf("%d events arrived, %d were accepted", r.UniqueIDs, accepted)
			}
		})
	}
}

// TestFailOverDuringARecovery kills a node while the backlog drains: the
// destination is not crashed by the new owner.
func TestFailOverDuringARecovery(t *testing.T) {
	t.Parallel()
	c := recovery{capacity: 100, live: 50, workers: 20, warm: 20 * time.Second, outage: 30 * time.Second, nodes: 3}
	c.during = func(nodes []*server) {
		time.Sleep(5 * time.Second)
		nodes[2].kill()
	}
	r, accepted, drain := c.run(t)
	t.Logf("%d accepted, %d crashes, drained in %.2f x the optimum", accepted, r.Crashes, drain)
	if r.Crashes > 0 {
		t.Errorf("the destination crashed %d more times", r.Crashes)
	}
}
