package process_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSlowEndpointLeavesOthersAlone: one endpoint hangs 20 s on each of 10,000
// events; the deliveries to 20 healthy ones beside it arrive while it does. Where
// times are judged they take about as long as without it.
func TestSlowEndpointLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	n := neighbours{r: receive(t), s: serve(t, "--policy-limits-max-timeout", hangFor.String())}
	for i := range healthyEndpoints {
		n.s.endpoint(fmt.Sprintf("%s/%d", n.r.url, i), object{"types": []string{fmt.Sprintf("healthy%d.*", i)}})
	}
	slow := receive(t) // another host: connections are capped per host
	n.s.endpoint(slow.url+"/slow", object{"types": []string{"slow.*"}, "policy": object{"concurrency": 1000, "timeout": object{"total": hangFor.String()}}})
	ended := make(chan struct{})
	defer close(ended)
	slow.on("/slow", func() int { // the next one takes its place: it is busy for minutes
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
		}
		return 200
	})

	alone := n.measure(t)
	n.s.publish("slow.x", 10_000)
	const busy = 50
	eventually(t, time.Minute, "the slow endpoint is busy", func() bool { return slow.inFlight("/slow") > busy })
	beside := n.measure(t)
	if now := slow.inFlight("/slow"); now <= busy {
		t.Errorf("%d requests hang at the slow endpoint, want it to be busy all the time", now)
	}
	t.Logf("median of healthy endpoints: %v alone, %v beside the slow one", alone, beside)
	if most := max(3*alone, 100*time.Millisecond); timesJudged() && beside > most {
		t.Errorf("the median beside the slow endpoint is %v, want at most %v; it is %v without it", beside, most, alone)
	}
}

const healthyEndpoints = 20

// neighbours are healthy endpoints beside a slow one.
type neighbours struct {
	r *receiver
	s *server
}

// measure publishes to all of them, waits until everything has arrived, and
// returns the median of how long that took.
func (n neighbours) measure(t *testing.T) time.Duration {
	t.Helper()
	const perEndpoint, pause = 20, 150 * time.Millisecond
	began := make(map[string]time.Time)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range healthyEndpoints {
		wg.Go(func() {
			for k := range perEndpoint {
				at := time.Now()
				id, err := publishOne(t.Context(), n.s.url, fmt.Sprintf("healthy%d.x", i), fmt.Sprintf("%d-%d-%d", i, k, at.UnixNano()))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				began[id] = at
				mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	wg.Wait()
	var took []time.Duration
	eventually(t, 2*time.Minute, "all healthy deliveries arrive", func() bool {
		took = took[:0]
		for i := range healthyEndpoints {
			for _, a := range n.r.since(fmt.Sprintf("/%d", i), time.Time{}) {
				if from, ok := began[a.id]; ok {
					took = append(took, a.at.Sub(from))
				}
			}
		}
		return len(took) >= len(began)
	})
	slices.Sort(took)
	return took[len(took)/2]
}

// TestBacklogStaysOnDisk: 30,000 events wait for a dead endpoint. A window of them
// is in memory, and no more when the endpoint is back: the rest is read from the
// disk, a window at a time.
func TestBacklogStaysOnDisk(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, args ...string) {
		const (
			events, window, payloads = 30_000, 64, 8        // MiB
			mostGrown                = (payloads + 4) << 20 // 30,000 deliveries and their events take more than twice as much
			mostMemory               = 200 << 20
		)
		r := receive(t)
		s := serve(t, append(append(args, longLease...), "--dispatch-window", fmt.Sprint(window), "--dispatch-payload-memory", fmt.Sprint(payloads, " MiB"))...)
		var down atomic.Bool
		down.Store(true)
		dead, _ := s.endpoint(r.url+"/dead", object{"types": []string{"dead.*"}})
		s.endpoint(r.url+"/alive", object{"types": []string{"alive.*"}})
		r.on("/dead", func() int {
			if down.Load() {
				return 503
			}
			return 200
		})
		s.publish("nobodys.x", 5000) // whatever accepting takes is there by now
		before, began := s.liveHeap(), time.Now()
		checkMemory := func(when string) {
			t.Helper()
			grown, rss := s.liveHeap()-before, s.rss()
			t.Logf("memory %s: %d MiB more live, %d MiB resident", when, grown>>20, rss>>20)
			if grown > mostGrown || rss > mostMemory {
				t.Errorf("memory %s: %d KiB more live, %d resident; want at most %d and %d", when, grown>>10, rss>>10, mostGrown>>10, mostMemory>>10)
			}
		}
		s.publish("dead.x", events)
		checkMemory("with all of them waiting")
		// Five in a row open the lane while others are on their way; then it probes.
		most := 5 + r.mostInFlight("/dead") + int(time.Since(began)/leastGap) + 1
		if n := len(r.since("/dead", time.Time{})); n > most {
			t.Errorf("%d requests to a dead endpoint, want at most %d", n, most)
		}

		s.kill()
		s.start()
		id, err := publishOne(t.Context(), s.url, "alive.x", "after-restart")
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, time.Minute, "the live event arrives", func() bool { return len(r.missing("/alive", []string{id})) == 0 })
		var out struct{ Count int }
		s.api("GET", "/deliveries/count?status=pending&endpoint="+dead, nil, &out)
		if out.Count != events {
			t.Errorf("%d pending after the restart, want %d", out.Count, events)
		}

		down.Store(false)
		const enough = 16 * window // all of it takes as long as the machine is slow: too long for a busy one
		eventually(t, 5*time.Minute, "a backlog of many windows drains", func() bool { u, _ := r.delivered("/dead"); return u >= enough })
		checkMemory("in the drain")
		if _, again := r.delivered("/dead"); again > 0 {
			t.Errorf("%d events arrived again, and nobody was killed after the first", again)
		}
	})
}

// TestStart: the server is up, soon where times are judged, with nothing but an empty folder, and what
// the README shows works.
func TestStart(t *testing.T) {
	t.Parallel()
	r := receive(t)
	began := time.Now()
	s := serve(t)
	if took := time.Since(began); timesJudged() && took > 2*time.Second {
		t.Errorf("start took %v", took)
	}
	id, secret := s.endpoint(r.url+"/hook", object{"types": []string{"order.*"}})
	r.expect("/hook", secret)
	if !strings.HasPrefix(id, "ep_") || !strings.HasPrefix(secret, "whsec_") {
		t.Fatalf("endpoint %q with secret %q", id, secret)
	}
	event, err := publishOne(t.Context(), s.url, "order.paid", "k")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the event arrives", func() bool { return len(r.missing("/hook", []string{event})) == 0 })
	if r.badSignatures() > 0 {
		t.Error("the official library refuses the signature")
	}
	var list struct {
		Data []struct{ ID, Status string }
	}
	eventually(t, time.Minute, "the delivery is settled", func() bool {
		s.api("GET", "/deliveries?event="+event, nil, &list)
		return len(list.Data) == 1 && list.Data[0].Status == "delivered"
	})
	var attempts struct {
		Data []struct {
			Kind       string
			StatusCode int `json:"status_code"`
		}
	}
	s.api("GET", "/deliveries/"+list.Data[0].ID+"/attempts", nil, &attempts)
	if len(attempts.Data) != 1 || attempts.Data[0].Kind != "first" || attempts.Data[0].StatusCode != 200 {
		t.Errorf("attempts = %+v, want one first attempt with 200", attempts.Data)
	}
	s.stop()
}
