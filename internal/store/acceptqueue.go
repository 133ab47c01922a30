package store

import (
	"cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Load is what accepts weigh: rows to write, an event and its deliveries each,
// and the bytes of payloads.
type Load struct {
	Rows  int
	Bytes int64
}

// LoadOf returns the load of one event with so many deliveries.
func LoadOf(deliveries, payload int) Load { return Load{Rows: 1 + deliveries, Bytes: int64(payload)} }

// Plus returns the sum of two loads.
func (l Load) Plus(m Load) Load { return Load{Rows: l.Rows + m.Rows, Bytes: l.Bytes + m.Bytes} }

func (l Load) minus(m Load) Load { return Load{Rows: l.Rows - m.Rows, Bytes: l.Bytes - m.Bytes} }

// within reports whether l is at most m in both respects.
func (l Load) within(m Load) bool { return l.Rows <= m.Rows && l.Bytes <= m.Bytes }

func (l Load) or(m Load) Load {
	return Load{Rows: cmp.Or(l.Rows, m.Rows), Bytes: cmp.Or(l.Bytes, m.Bytes)}
}

// cost is the load as one number: a page of payload takes about as long to
// write as a row.
func (l Load) cost() int { return l.Rows + int(l.Bytes>>12) }

func (a *Accept) load() Load { return LoadOf(len(a.Deliveries), len(a.Event.Payload)) }

// turn is what a tenant may write before it is the next one's turn.
const turn = 32

// acceptQueue holds the accepts that wait, each tenant's in the order they
// came, and lets tenants take turns: what one tenant brings at once, however
// much, does not hold up what another brings after it.
type acceptQueue struct {
	most    Load
	load    Load // of all that wait or have room reserved
	waiting int  // accepts
	tenants map[hook.ID]*tenantQueue
	// The tenants with accepts that wait, as a list: the first has its turn.
	first, last *tenantQueue
	spare       []*tenantQueue // for tenants to come
}

type tenantQueue struct {
	tenant  hook.ID
	load    Load // waiting or reserved
	accepts []queuedAccept
	head    int  // of accepts; those before have left
	credit  int  // what it may still write in its turn
	begun   bool // its turn has begun
	after   *tenantQueue
}

func newAcceptQueue(most Load) acceptQueue {
	return acceptQueue{most: most, tenants: make(map[hook.ID]*tenantQueue)}
}

// reserve keeps room for a tenant, if there is some: a tenant may have as much
// waiting as is left free for all. One alone gets half of the queue, two a third
// each, and whoever comes next always finds room.
func (q *acceptQueue) reserve(tenant hook.ID, l Load) bool {
	t := q.tenants[tenant]
	mine := l
	if t != nil {
		mine = mine.Plus(t.load)
	}
	if !mine.within(q.most.minus(q.load)) {
		return false
	}
	if t == nil {
		t = q.newTenant(tenant)
	}
	t.load, q.load = mine, q.load.Plus(l)
	return true
}

func (q *acceptQueue) newTenant(tenant hook.ID) *tenantQueue {
	t := &tenantQueue{}
	if n := len(q.spare); n > 0 {
		t, q.spare = q.spare[n-1], q.spare[:n-1]
	}
	t.tenant = tenant
	q.tenants[tenant] = t
	return t
}

// release gives room back: what was reserved has left the queue, or never came.
func (q *acceptQueue) release(tenant hook.ID, l Load) {
	t := q.tenants[tenant]
	t.load, q.load = t.load.minus(l), q.load.minus(l)
	if t.load != (Load{}) || len(t.accepts) > 0 {
		return
	}
	delete(q.tenants, tenant)
	const maxSpare, maxKept = 64, 1024
	if len(q.spare) < maxSpare && cap(t.accepts) <= maxKept {
		*t = tenantQueue{accepts: t.accepts}
		q.spare = append(q.spare, t)
	}
}

// add queues accepts for which l was reserved.
func (q *acceptQueue) add(tenant hook.ID, l Load, accepts []*Accept, tk *ticket) {
	t := q.tenants[tenant]
	if len(t.accepts) == 0 {
		q.line(t)
	}
	if t.head > len(t.accepts)/2 {
		t.accepts, t.head = shift(t.accepts, t.head), 0
	}
	var actual Load
	for _, a := range accepts {
		t.accepts = append(t.accepts, queuedAccept{a, tk})
		actual = actual.Plus(a.load())
	}
	q.waiting += len(accepts)
	t.load, q.load = t.load.Plus(actual).minus(l), q.load.Plus(actual).minus(l)
}

// line puts a tenant at the end of the line.
func (q *acceptQueue) line(t *tenantQueue) {
	t.after = nil
	if q.first == nil {
		q.first = t
	} else {
		q.last.after = t
	}
	q.last = t
}

// unline takes the first tenant out of the line.
func (q *acceptQueue) unline() *tenantQueue {
	t := q.first
	q.first, t.after = t.after, nil
	return t
}

// next returns the accept whose turn it is; nil when none waits. A tenant's turn
// ends when its credit does not do for its next accept; it keeps what is left, so
// that the largest accept gets its turn in time.
func (q *acceptQueue) next() *queuedAccept {
	for q.first != nil {
		t := q.first
		if !t.begun {
			t.begun, t.credit = true, t.credit+turn
		}
		if a := &t.accepts[t.head]; q.first == q.last || a.load().cost() <= t.credit {
			return a
		}
		t.begun = false
		q.line(q.unline())
	}
	return nil
}

// pop takes the accept that next returned.
func (q *acceptQueue) pop() queuedAccept {
	t := q.first
	a := t.accepts[t.head]
	l := a.load()
	t.accepts[t.head] = queuedAccept{}
	t.head++
	t.credit = max(t.credit-l.cost(), 0)
	q.waiting--
	if t.head == len(t.accepts) {
		t.accepts, t.head, t.credit, t.begun = t.accepts[:0], 0, 0, false
		q.unline()
	}
	q.release(t.tenant, l)
	return a
}

// take removes what one commit takes: at most so many accepts and so much load,
// but always one, since an event and its deliveries are stored together.
func (q *acceptQueue) take(n int, most Load) []queuedAccept {
	out := make([]queuedAccept, 0, min(n, q.waiting))
	var sum Load
	for len(out) < n {
		a := q.next()
		if a == nil {
			break
		}
		sum = sum.Plus(a.load())
		if len(out) > 0 && !sum.within(most) {
			break
		}
		out = append(out, q.pop())
	}
	return out
}
