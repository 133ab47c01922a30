package process_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
)

// stores runs a test on both stores at a time.
func stores(t *testing.T, test func(t *testing.T, args ...string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, "--database-url", pgtest.DSN(t))
	})
}

// load publishes from several clients, each of which pauses after each event,
// until it is stopped.
type load struct {
	mu     sync.Mutex
	ids    []string
	wg     sync.WaitGroup
	cancel context.CancelFunc
}

func publishFrom(t *testing.T, clients int, pause time.Duration, url func(client int) string, eventType func(n int) string) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel}
	for c := range clients {
		l.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id, err := publishOne(ctx, url(c), eventType(n), fmt.Sprintf("client-%d-%d", c, n))
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("publish: %v", err)
					}
					return
				}
				l.mu.Lock()
				l.ids = append(l.ids, id)
				l.mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	return l
}

// more waits until so many more events are accepted: how long that takes is a
// matter of the machine.
func (l *load) more(t *testing.T, n int) {
	t.Helper()
	accepted := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.ids)
	}
	enough := accepted() + n
	eventually(t, time.Minute, fmt.Sprintf("%d more events are accepted", n), func() bool { return accepted() >= enough })
}

// stop returns the ids of all events that were accepted.
func (l *load) stop() []string {
	l.cancel()
	l.wg.Wait()
	return l.ids
}

const kills = 20

// TestKillNine kills the server 20 times at random moments under load: nothing
// that was accepted is lost, and no more arrives twice than was unsettled at a
// kill.
func TestKillNine(t *testing.T) { //nolint:tparallel // beside nothing else: it takes all the machine has
	stores(t, func(t *testing.T, args ...string) {
		const maxInFlight = 32
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		r := receive(t)
		s := serve(t, append(args, "--dispatch-max-in-flight", fmt.Sprint(maxInFlight))...)
		for i := range 4 {
			path := fmt.Sprintf("/%d", i)
			_, secret := s.endpoint(r.url+path, object{"types": []string{fmt.Sprintf("kind%d.*", i)}})
			r.expect(path, secret)
			r.on(path, func() int {
				time.Sleep(time.Duration(1+i*5) * time.Millisecond)
				if i == 3 && rand.IntN(50) == 0 {
					return 503
				}
				return 200
			})
		}
		l := publishFrom(t, 8, 0, func(int) string { return s.url }, func(n int) string { return fmt.Sprintf("kind%d.x", n%4) })
		var slowest time.Duration
		for range kills {
			time.Sleep(time.Duration(200+rng.IntN(800)) * time.Millisecond)
			s.kill()
			began := time.Now()
			s.start()
			first := func() bool {
				for i := range 4 {
					if len(r.since(fmt.Sprintf("/%d", i), began)) > 0 {
						return true
					}
				}
				return false
			}
			eventually(t, time.Minute, "a delivery after a restart", first)
			slowest = max(slowest, time.Since(began))
		}
		ids := l.stop()
		lost := ids
		missing := func() bool {
			lost = ids
			for i := range 4 {
				lost = r.missing(fmt.Sprintf("/%d", i), lost)
			}
			return len(lost) > 0
		}
		for deadline := time.Now().Add(5 * time.Minute); missing() && time.Now().Before(deadline); {
			time.Sleep(100 * time.Millisecond)
		}
		again := 0
		for i := range 4 {
			_, a := r.delivered(fmt.Sprintf("/%d", i))
			again += a
		}
		t.Logf("%d accepted, %d lost, %d arrived again in %d kills, slowest restart to first delivery %v", len(ids), len(lost), again, kills, slowest)
		if len(lost) > 0 {
			t.Errorf("lost: %v", lost)
		}
		if again > kills*maxInFlight {
			t.Errorf("%d events arrived again, want at most %d per kill", again, maxInFlight)
		}
		if n := r.badSignatures(); n > 0 {
			t.Errorf("%d signatures were refused by the official library", n)
		}
		s.reconcile()
	})
}

// figures are those of product's statistics that reconcile compares.
type figures struct {
	Events, Accepted, Attempts, Failed, Delivered, Dead, Cancelled, Reopened int
}

// reconcile waits until nothing is pending and checks that the figures are those
// of the rows: everything that is committed was counted once.
func (s *server) reconcile() {
	s.t.Helper()
	count := func(status string) (n int) {
		var out struct{ Count int }
		s.api("GET", "/deliveries/count?status="+status, nil, &out)
		return out.Count
	}
	eventually(s.t, 3*time.Minute, "nothing is pending", func() bool { return count("pending") == 0 })
	var want figures
	for cursor := ""; ; {
		var page struct {
			Data []struct {
				Status   string
				Attempts int
			}
			NextCursor *string `json:"next_cursor"`
		}
		s.api("GET", "/deliveries?limit=250"+cursor, nil, &page)
		for _, d := range page.Data {
			want.Attempts += d.Attempts
			switch d.Status {
			case "delivered":
				want.Delivered++
			case "dead":
				want.Dead++
			case "cancelled":
				want.Cancelled++
			}
		}
		want.Accepted += len(page.Data)
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(*page.NextCursor)
	}
	want.Events = want.Accepted                  // each has one delivery
	want.Failed = want.Attempts - want.Delivered // of an endpoint that takes all in the end
	for _, path := range []string{"/v1/stats", "/v1/tenants/default/stats"} {
		var out struct{ Totals figures }
		got := func() figures {
			s.ask("GET", path+"?window=6h", nil, &out)
			return out.Totals
		}
		// They are added up every few seconds.
		for deadline := time.Now().Add(time.Minute); got() != want && time.Now().Before(deadline); {
			time.Sleep(time.Second)
		}
		if out.Totals != want {
			s.t.Errorf("%s: figures %+v, rows %+v", path, out.Totals, want)
		}
	}
}

// TestGracefulStop: SIGTERM under load loses nothing and repeats nothing.
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, args ...string) {
		r := receive(t)
		s := serve(t, append(args, longLease...)...)
		s.endpoint(r.url+"/", nil)
		r.on("/", func() int { time.Sleep(20 * time.Millisecond); return 200 })
		l := publishFrom(t, 4, 10*time.Millisecond, func(int) string { return s.url }, func(int) string { return "order.paid" })
		for range 5 {
			l.more(t, 50)
			s.stop()
			s.start()
		}
		ids := l.stop()
		eventually(t, 3*time.Minute, "everything accepted is delivered", func() bool { return len(r.missing("/", ids)) == 0 })
		if _, again := r.delivered("/"); again > 0 {
			t.Errorf("%d of %d events arrived again without a fault", again, len(ids))
		}
	})
}
