package sink

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/receiver"
)

// statusHungUp is counted when the sender did not wait for the answer; nobody
// gets to see it.
const statusHungUp = 499

// verdict is how a station wants a request answered.
type verdict struct {
	status     int // 0: reset the connection
	retryAfter int // seconds, 0: no header
	throttled  bool
	slowBody   bool
}

// station is one behaviour and its live state. Its mutex is never held while
// it waits.
type station struct {
	behaviour Behaviour
	from      time.Time // when failing is counted from
	secrets   []string
	verifier  *receiver.Verifier // nil: signatures are not checked
	model     *serverModel       // nil: no capacity model
	outage    *outage

	mu       sync.Mutex
	rng      *rand.Rand
	arrivals window // for CrashOver
	admitted bucket // for RateLimit
}

func newStation(b Behaviour, secrets []string, now time.Time) (*station, error) {
	b, err := b.withDefaults()
	if err != nil {
		return nil, err
	}
	st := &station{
		behaviour: b, from: now, secrets: secrets, outage: &outage{},
		rng: rand.New(rand.NewPCG(uint64(now.UnixNano()), 1)),
	}
	if len(secrets) > 0 {
		st.verifier, err = receiver.New(receiver.Config{Secrets: secrets, MaxBody: maxBody})
		if err != nil {
			return nil, fmt.Errorf("secrets: %w", err)
		}
	}
	if b.Capacity > 0 {
		st.model = newServerModel(b)
	}
	return st, nil
}

// answer decides about one request, waiting as long as the behaviour says.
func (st *station) answer(ctx context.Context, counts *counters) verdict {
	b := &st.behaviour
	now := time.Now()
	epoch, down := st.outage.state(now)
	if down {
		return verdict{}
	}
	v, crashed := st.judge(now)
	if crashed || st.model != nil && v.status < 300 && !st.model.enter() {
		st.crash(now, counts)
		return verdict{}
	}
	if st.model != nil && v.status < 300 {
		st.model.work(ctx)
	}
	pause(ctx, b.Latency)
	if ctx.Err() != nil {
		return verdict{status: statusHungUp}
	}
	if later, _ := st.outage.state(time.Now()); later != epoch {
		return verdict{} // a crash takes what is in flight with it
	}
	return v
}

// judge applies the rules that look at arrivals and time only.
func (st *station) judge(now time.Time) (v verdict, crashed bool) {
	b := &st.behaviour
	st.mu.Lock()
	defer st.mu.Unlock()
	if b.CrashOver > 0 && float64(st.arrivals.add(now)) > b.CrashOver {
		st.arrivals = window{}
		return v, true
	}
	if b.Gone {
		return verdict{status: http.StatusGone}, false
	}
	if status := b.failing(st.from, now, st.rng.Float64()); status != 0 {
		return verdict{status: status, retryAfter: b.RetryAfter}, false
	}
	if b.RateLimit > 0 && !st.admitted.take(now, b.RateLimit, b.burst()) {
		return verdict{status: http.StatusTooManyRequests, retryAfter: max(b.RetryAfter, 1), throttled: true}, false
	}
	return verdict{status: http.StatusOK, slowBody: b.SlowBody}, false
}

// crash takes the station down, unless it is down already.
func (st *station) crash(now time.Time, counts *counters) {
	if st.outage.crash(now, st.behaviour.CrashFor) {
		counts.crashes.Add(1)
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// outage is when a station is down. The epoch counts crashes, so that a
// request can tell that one happened while it waited.
type outage struct {
	mu    sync.Mutex
	epoch int
	until time.Time
}

func (o *outage) state(now time.Time) (epoch int, down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.epoch, now.Before(o.until)
}

func (o *outage) crash(now time.Time, d time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Before(o.until) {
		return false
	}
	o.epoch++
	o.until = now.Add(d)
	return true
}

// serverModel is a server with a fixed number of workers and a bounded queue.
type serverModel struct {
	service time.Duration
	seats   chan struct{} // workers and queue
	workers chan struct{}
}

func newServerModel(b Behaviour) *serverModel {
	return &serverModel{
		service: time.Duration(float64(b.Workers) / b.Capacity * float64(time.Second)),
		seats:   make(chan struct{}, b.Workers+b.Queue),
		workers: make(chan struct{}, b.Workers),
	}
}

// enter takes a seat, or reports that there is none. Whoever has one must
// call work.
func (m *serverModel) enter() bool {
	select {
	case m.seats <- struct{}{}:
		return true
	default:
		return false
	}
}

// work waits for a worker, keeps it busy and gives worker and seat back.
func (m *serverModel) work(ctx context.Context) {
	defer func() { <-m.seats }()
	select {
	case m.workers <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-m.workers }()
	pause(ctx, m.service)
}

// windowSlots divide the last second.
const windowSlots = 20

// window counts what happened in the last second, to a twentieth.
type window struct {
	slots [windowSlots]int
	at    int64 // slot number of the newest
	sum   int
}

func (w *window) count(now time.Time) int {
	at := now.UnixNano() / (int64(time.Second) / windowSlots)
	for step := max(w.at+1, at-windowSlots+1); step <= at; step++ {
		i := step % windowSlots
		w.sum -= w.slots[i]
		w.slots[i] = 0
	}
	w.at = max(w.at, at)
	return w.sum
}

func (w *window) add(now time.Time) int {
	w.count(now)
	w.slots[w.at%windowSlots]++
	w.sum++
	return w.sum
}
