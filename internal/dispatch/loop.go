package dispatch

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/window"
)

// loop runs the lanes of the shards whose number it is congruent to. All state
// below the inbox belongs to its one goroutine; everything else reaches it as
// mail.
type loop struct {
	d   *Dispatcher
	rng *rand.Rand

	mu    sync.Mutex
	inbox mail
	wake  alarm

	shards    map[int]int64  // owned shards and their epochs
	unsettled map[int]int    // attempts per owned shard that are not settled
	leaving   map[int]func() // shards being handed over; called when drained
	runners   map[hook.ID]*runner
	unsaved   map[hook.ID]*store.LaneSave // newest checkpoints that are not stored yet
	wakes     wakeHeap
	landed    []*flight             // to be used again
	dirty     []*runner             // to be pumped before the next sleep
	starved   map[hook.ID][]*runner // could send if there were a slot, by tenant
	ended     []hook.ID             // tenants whose slots are given back in this turn
	isStarved bool                  // counted in slots.starved
	draining  bool
	reads     workQueue
	loads     workQueue
	toLoad    []*runner // lanes whose endpoints are to be read
	toRead    []*runner // lanes that want to read ahead
	readAt    time.Time // the latest round of such reads
	readSoon  bool      // the next one is arranged for
}

// mail is what has arrived for a loop since it last looked.
type mail struct {
	arrivals []arrival
	results  []*flight
	settled  []*store.Settle
	saved    []*store.LaneSave
	calls    []func() // everything that is rare
}

// arrival is a delivery that was just committed, with its event still in
// memory.
type arrival struct {
	delivery *hook.Delivery
	event    *hook.Event
}

func newLoop(d *Dispatcher, n uint64) *loop {
	l := &loop{
		d: d, rng: rand.New(rand.NewPCG(d.cfg.Seed, n)),
		wake:      newAlarm(),
		shards:    make(map[int]int64),
		unsettled: make(map[int]int),
		leaving:   make(map[int]func()),
		runners:   make(map[hook.ID]*runner),
		unsaved:   make(map[hook.ID]*store.LaneSave),
		starved:   make(map[hook.ID][]*runner),
	}
	l.reads = workQueue{loop: l, limit: 4}
	l.loads = workQueue{loop: l, limit: 2}
	return l
}

// alarm wakes a goroutine that waits for it, or will: once, however often it rang
// meanwhile.
type alarm chan struct{}

func newAlarm() alarm { return make(alarm, 1) }

func (a alarm) ring() {
	select {
	case a <- struct{}{}:
	default:
	}
}

// post runs fn in the loop, soon.
func (l *loop) post(fn func()) {
	l.mu.Lock()
	l.inbox.calls = append(l.inbox.calls, fn)
	l.mu.Unlock()
	l.wake.ring()
}

// postAfter is post after a while.
func (l *loop) postAfter(wait time.Duration, fn func()) {
	time.AfterFunc(wait, func() { l.post(fn) })
}

// deliver adds a part of a committed batch to the inbox.
func (l *loop) deliver(m *mail) {
	if len(m.arrivals)+len(m.settled)+len(m.saved) == 0 {
		return
	}
	l.mu.Lock()
	l.inbox.arrivals = append(l.inbox.arrivals, m.arrivals...)
	l.inbox.settled = append(l.inbox.settled, m.settled...)
	l.inbox.saved = append(l.inbox.saved, m.saved...)
	l.mu.Unlock()
	l.wake.ring()
}

func (l *loop) answered(f *flight) {
	l.mu.Lock()
	l.inbox.results = append(l.inbox.results, f)
	l.mu.Unlock()
	l.wake.ring()
}

// run turns until ctx ends.
func (l *loop) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var set time.Time // when the timer fires; zero: nobody waits for it
	var spare mail
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
			set = time.Time{}
		}
		l.mu.Lock()
		m := l.inbox
		l.inbox = spare.reset()
		l.mu.Unlock()

		l.turn(time.Now(), &m)
		spare = m
		if len(l.wakes) > 0 && !l.wakes[0].wakeAt.Equal(set) {
			set = l.wakes[0].wakeAt
			timer.Reset(time.Until(set))
		}
	}
}

// reset empties the slices and keeps their memory for the next turn.
func (m *mail) reset() mail {
	clear(m.arrivals)
	clear(m.results)
	clear(m.settled)
	clear(m.saved)
	clear(m.calls)
	return mail{
		arrivals: m.arrivals[:0], results: m.results[:0], settled: m.settled[:0],
		saved: m.saved[:0], calls: m.calls[:0],
	}
}

// turn handles the mail and the timers that are due, then lets every lane that
// was touched send what it may.
func (l *loop) turn(now time.Time, m *mail) {
	for _, fn := range m.calls {
		fn()
	}
	for _, a := range m.arrivals {
		l.arrive(now, a)
	}
	for _, f := range m.results {
		l.result(now, f)
		*f = flight{} // nothing keeps it
		l.landed = append(l.landed, f)
	}
	l.settled(now, m.settled)
	l.saved(m.saved)
	for shard := range l.leaving {
		l.handOverIfDrained(shard)
	}
	for len(l.wakes) > 0 && !l.wakes[0].wakeAt.After(now) {
		l.touch(l.wakes[0])
		heap.Pop(&l.wakes)
	}
	l.pumpAll(now)
}

// touch marks a lane to be pumped at the end of this turn.
func (l *loop) touch(r *runner) {
	if !r.dirty {
		r.dirty = true
		l.dirty = append(l.dirty, r)
	}
}

func (l *loop) pumpAll(now time.Time) {
	// A lane that was fed may not want its slot any more: then it is another's turn.
	for l.feedStarved(); len(l.dirty) > 0; l.feedStarved() {
		l.pumpDirty(now)
	}
	l.reads.start()
	l.startReads()
	l.startLoads()
	if starving := len(l.starved) > 0; starving != l.isStarved {
		l.isStarved = starving
		if starving {
			l.d.slots.starved.Add(1)
			l.wake.ring() // a slot may have come free before we were counted
		} else {
			l.d.slots.starved.Add(-1)
		}
	}
}

func (l *loop) pumpDirty(now time.Time) {
	for i := range len(l.dirty) {
		r := l.dirty[i]
		r.dirty = false
		if !r.dropped {
			l.pump(now, r)
		}
	}
	clear(l.dirty)
	l.dirty = l.dirty[:0]
}

// feedStarved lets lanes try again for which there are slots now. With very many
// that wait, those of a tenant that has its share cost nothing.
func (l *loop) feedStarved() {
	for tenant, waiting := range l.starved {
		rest := l.d.slots.feed(tenant, waiting, func(r *runner) {
			r.starved = false
			l.touch(r)
		})
		clear(waiting[len(rest):])
		if l.starved[tenant] = rest; len(rest) == 0 {
			delete(l.starved, tenant)
		}
	}
}

// arrive takes a delivery straight from its commit.
func (l *loop) arrive(now time.Time, a arrival) {
	if r := l.runner(a.delivery.EndpointID, a.delivery.TenantID); r != nil {
		l.admit(now, r, a.delivery, a.event, window.Arrived)
		l.touch(r)
	}
}

// lookForWork makes the lane of an endpoint read what is due.
func (l *loop) lookForWork(endpoint hook.ID) {
	if r := l.runner(endpoint, 0); r != nil {
		r.win.Announced(time.Now())
		l.touch(r)
	}
}

// announced makes lanes read deliveries that another node has just accepted for
// them. A lane that has many to read reads the others when they have rows.
func (l *loop) announced(announced []store.Announced) {
	now := time.Now()
	for _, n := range announced {
		r := l.runner(n.Endpoint, 0)
		switch {
		case r == nil:
			continue
		case len(r.announced) < l.d.cfg.Window:
			r.announced = append(r.announced, n)
		default:
			r.win.Announced(now)
		}
		l.touch(r)
	}
}

// wakeHeap orders lanes by the time they want to be looked at.
type wakeHeap []*runner

func (h wakeHeap) Len() int           { return len(h) }
func (h wakeHeap) Less(i, j int) bool { return h[i].wakeAt.Before(h[j].wakeAt) }
func (h wakeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].wakeIndex, h[j].wakeIndex = i, j
}

// Push implements heap.Interface.
func (h *wakeHeap) Push(x any) {
	r := x.(*runner)
	r.wakeIndex = len(*h)
	*h = append(*h, r)
}

// Pop implements heap.Interface.
func (h *wakeHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	r.wakeIndex = -1
	return r
}

// setWake sets when the lane is looked at again; zero means never by itself.
func (l *loop) setWake(r *runner, at time.Time) {
	switch {
	case at.IsZero() && r.wakeIndex < 0:
	case at.IsZero():
		heap.Remove(&l.wakes, r.wakeIndex)
	case r.wakeIndex < 0:
		r.wakeAt = at
		heap.Push(&l.wakes, r)
	case !at.Equal(r.wakeAt):
		r.wakeAt = at
		heap.Fix(&l.wakes, r.wakeIndex)
	}
}

// workQueue runs reads of the store beside the loop, at most limit at a time: a
// take-over of very many lanes must not start as many goroutines.
type workQueue struct {
	loop    *loop
	limit   int
	running int
	jobs    []job
}

// job is one read, in the time that it may take. What it returns runs in the
// loop.
type job func(ctx context.Context) (then func())

func (q *workQueue) add(j job) { q.jobs = append(q.jobs, j) }

func (q *workQueue) start() {
	for q.running < q.limit && len(q.jobs) > 0 {
		j := q.jobs[0]
		q.jobs[0] = nil
		q.jobs = q.jobs[1:]
		q.running++
		q.loop.d.work.Go(func() { q.run(j) })
	}
}

func (q *workQueue) run(j job) {
	ctx, cancel := context.WithTimeout(q.loop.d.attempts, readTimeout)
	defer cancel()
	then := j(ctx)
	q.loop.post(func() {
		q.running--
		then()
	})
}
