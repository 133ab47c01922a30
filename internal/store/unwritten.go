package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Most deliveries succeed at once. The store on Postgres waits for that and
// writes their row with its result, instead of writing it twice: until then the
// row of the event, which names them, is what keeps them, and Unwritten is what
// the store knows of them. Whoever wants to see the rows has them written first.
const (
	// unwrittenFor is how long a row may be missing while the store has other
	// things to write anyway.
	unwrittenFor = time.Second
	// maxUnwritten bounds how many may be missing.
	maxUnwritten = 8192
	// maxOverdue bounds how many are written at once because they have waited long
	// enough: whoever waits for that commit did not ask for them.
	maxOverdue = 2048
)

// Target is a delivery as its event names it: new, and due when accepted.
type Target struct {
	ID, Tenant, Event, Endpoint hook.ID

	Due  time.Time
	Size int

	since time.Time // of the commit that accepted it
}

// TargetOf returns the target that stands for the delivery; false when the
// delivery is one that waits, so that its row is wanted at once.
func TargetOf(d *hook.Delivery, now time.Time) (Target, bool) {
	p := &d.Progress
	isNew := d.State == hook.Pending && d.Attempts == 0 && d.ReplayID == 0 && d.Restore == nil &&
		p.Run == 1 && p.RunDueAt.Equal(d.DueAt) && p.Charged == 0 && p.BackoffSteps == 0 && p.FailedAttempts == 0 && p.Throttles == 0
	if !isNew || d.DueAt.After(now) {
		return Target{}, false
	}
	return Target{
		ID: d.ID, Tenant: d.TenantID, Event: d.EventID, Endpoint: d.EndpointID, Due: d.DueAt, Size: d.Size, since: now,
	}, true
}

// SeenAt returns the target as one that was first heard of at the given moment.
func (t Target) SeenAt(now time.Time) Target {
	t.since = now
	return t
}

// Delivery returns the delivery that the target stands for.
func (t *Target) Delivery() hook.Delivery {
	return hook.Delivery{
		ID: t.ID, TenantID: t.Tenant, EventID: t.Event, EndpointID: t.Endpoint, DueAt: t.Due, Size: t.Size,
		Progress: hook.Progress{Run: 1, RunDueAt: t.Due},
	}
}

// AppendTargets appends what the row of an event keeps of its targets.
func AppendTargets(dst []byte, e *hook.Event, targets []Target) []byte {
	for i := range targets {
		t := &targets[i]
		dst = binary.AppendVarint(dst, int64(t.ID-e.ID))
		dst = binary.AppendVarint(dst, int64(t.Endpoint))
		dst = binary.AppendVarint(dst, t.Due.UnixMicro()-e.CreatedAt.UnixMicro())
		dst = binary.AppendVarint(dst, int64(t.Size))
	}
	return dst
}

var errTargets = errors.New("the event's targets are cut short")

// ParseTargets reads what AppendTargets wrote.
func ParseTargets(b []byte, e *hook.Event) (out []Target, err error) {
	for len(b) > 0 {
		var v [4]int64
		for i := range v {
			value, n := binary.Varint(b)
			if n <= 0 {
				return nil, fmt.Errorf("event %d: %w", e.ID, errTargets)
			}
			v[i], b = value, b[n:]
		}
		out = append(out, Target{
			ID: e.ID + hook.ID(v[0]), Tenant: e.TenantID, Event: e.ID, Endpoint: hook.ID(v[1]),
			Due: time.UnixMicro(e.CreatedAt.UnixMicro() + v[2]).UTC(), Size: int(v[3]),
		})
	}
	return out, nil
}

// Unwritten holds the targets without a row. The store's writer changes it, and
// only after a commit; anybody may ask.
type Unwritten struct {
	mu        sync.Mutex
	targets   map[hook.ID]Target
	order     []hook.ID       // of their commits; those that were written since are skipped
	endpoints map[hook.ID]int // how many each of them has
}

// NewUnwritten returns an empty set.
func NewUnwritten() *Unwritten {
	return &Unwritten{targets: make(map[hook.ID]Target), endpoints: make(map[hook.ID]int)}
}

// Get returns the target of a delivery; false when it has a row, or is unknown.
func (u *Unwritten) Get(id hook.ID) (Target, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t, ok := u.targets[id]
	return t, ok
}

// Len returns how many there are.
func (u *Unwritten) Len() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.targets)
}

// Committed takes note of a commit: these targets came without their rows, and
// the rows of those deliveries were written.
func (u *Unwritten) Committed(added []Target, written []hook.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, id := range written {
		t, ok := u.targets[id]
		if !ok {
			continue
		}
		delete(u.targets, id)
		u.endpoints[t.Endpoint]--
		if u.endpoints[t.Endpoint] == 0 {
			delete(u.endpoints, t.Endpoint)
		}
	}
	for i := range added {
		t := &added[i]
		u.targets[t.ID] = *t
		u.endpoints[t.Endpoint]++
		u.order = append(u.order, t.ID)
	}
	u.skipWritten()
}

// skipWritten drops the head of order as far as it was written, and all of that
// kind when they are most of it.
func (u *Unwritten) skipWritten() {
	gone := func(id hook.ID) bool { _, ok := u.targets[id]; return !ok }
	n := 0
	for n < len(u.order) && gone(u.order[n]) {
		n++
	}
	u.order = shift(u.order, n)
	if len(u.order) > 64 && len(u.order) > 2*len(u.targets) {
		u.order = slices.DeleteFunc(u.order, gone)
	}
}

// Overdue returns the targets that should be written now, not too many at once:
// those that have waited long enough, and the oldest ones when there are too
// many. Of very many it returns half, so that they cannot grow without end.
func (u *Unwritten) Overdue(now time.Time) (out []Target) {
	u.mu.Lock()
	defer u.mu.Unlock()
	excess := len(u.targets) - maxUnwritten
	most := max(maxOverdue, excess/2)
	for _, id := range u.order {
		t, ok := u.targets[id]
		if !ok {
			continue
		}
		if len(out) == most || now.Sub(t.since) < unwrittenFor && len(out) >= excess {
			break
		}
		out = append(out, t)
	}
	return out
}

// Scope says whose rows are wanted; 0 means any.
type Scope struct{ Tenant, Endpoint, Event, Delivery hook.ID }

// Holds reports whether the row of the target is wanted.
func (s Scope) Holds(t *Target) bool {
	among := func(wanted, id hook.ID) bool { return wanted == 0 || wanted == id }
	return among(s.Tenant, t.Tenant) && among(s.Endpoint, t.Endpoint) && among(s.Event, t.Event) && among(s.Delivery, t.ID)
}

// Scope returns which new deliveries the filter may match; false when it
// matches none.
func (f *DeliveryFilter) Scope() (Scope, bool) {
	if f.Retrying || len(f.Reasons) > 0 || len(f.States) > 0 && !slices.Contains(f.States, hook.Pending) {
		return Scope{}, false
	}
	s := Scope{Tenant: f.Tenant, Event: f.Event}
	if len(f.Endpoints) == 1 {
		s.Endpoint = f.Endpoints[0]
	}
	return s, true
}

// Matching returns the targets in the scope, oldest first.
func (u *Unwritten) Matching(s Scope) (out []Target) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s.Endpoint != 0 && u.endpoints[s.Endpoint] == 0 {
		return nil
	}
	if s.Delivery != 0 {
		if t, ok := u.targets[s.Delivery]; ok && s.Holds(&t) {
			out = append(out, t)
		}
		return out
	}
	for _, id := range u.order {
		if t, ok := u.targets[id]; ok && s.Holds(&t) {
			out = append(out, t)
		}
	}
	return out
}

// Since returns the endpoints with targets from the given id on.
func (u *Unwritten) Since(id hook.ID) (endpoints []hook.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, t := range u.targets {
		if t.ID >= id && !slices.Contains(endpoints, t.Endpoint) {
			endpoints = append(endpoints, t.Endpoint)
		}
	}
	return endpoints
}

// Older returns those of the targets that were accepted before the given moment,
// and the others.
func Older(targets []Target, than time.Time) (older, younger []Target) {
	for i := range targets {
		if targets[i].since.Before(than) {
			older = append(older, targets[i])
		} else {
			younger = append(younger, targets[i])
		}
	}
	return older, younger
}

// Unknown returns the targets of the given endpoints but for the deliveries that
// are known, oldest first. No endpoint means all.
func (u *Unwritten) Unknown(endpoints, known []hook.ID) (out []Target) {
	u.mu.Lock()
	defer u.mu.Unlock()
	wanted := make(map[hook.ID]bool, len(endpoints))
	for _, id := range endpoints {
		if u.endpoints[id] > 0 {
			wanted[id] = true
		}
	}
	if len(u.targets) == 0 || len(wanted) == 0 && len(endpoints) > 0 {
		return nil
	}
	knows := make(map[hook.ID]bool, len(known))
	for _, id := range known {
		knows[id] = true
	}
	for _, id := range u.order {
		t, ok := u.targets[id]
		if ok && !knows[id] && (len(endpoints) == 0 || wanted[t.Endpoint]) {
			out = append(out, t)
		}
	}
	return out
}

// Oldest returns the least event with a delivery that has no row, or the given
// one if that is less.
func (u *Unwritten) Oldest(least hook.ID) hook.ID {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, t := range u.targets {
		least = min(least, t.Event)
	}
	return least
}
