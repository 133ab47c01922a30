package receiver

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// DefaultTTL is how long an id is remembered: as long as Breakwater goes on
// trying by default.
const DefaultTTL = 7 * 24 * time.Hour

// DefaultMemory is how many ids a Memory remembers, about 15 MB of them.
const DefaultMemory = 100_000

// Memory is a [Deduper] that forgets with its process. It is for tests, and for
// work that may be done again after a restart. It is safe for concurrent use.
type Memory struct {
	flights flights
	ttl     time.Duration
	max     int

	mu    sync.Mutex
	marks map[string]time.Time // when an id was completed
	order *list.List           // ids, first completed first
}

// NewMemory returns a Memory that keeps ids for ttl, and of more than max the
// latest. A ttl of zero or less means 7 days, a max of zero or less 100,000.
func NewMemory(ttl time.Duration, max int) *Memory { //nolint:revive // the name of the parameter is part of the documentation
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	if max <= 0 {
		max = DefaultMemory
	}
	return &Memory{ttl: ttl, max: max, marks: make(map[string]time.Time), order: list.New()}
}

// Once runs fn unless id was completed within the TTL. While another call holds
// the id it waits, until ctx ends.
func (m *Memory) Once(ctx context.Context, id string, fn func(context.Context) error) (ran bool, err error) {
	if err := checkID(id); err != nil {
		return false, err
	}
	return m.flights.do(ctx, id, func() (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if m.completed(id) {
			return false, nil
		}
		if err := fn(ctx); err != nil {
			return true, err
		}
		m.complete(id)
		return true, nil
	})
}

func (m *Memory) completed(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(time.Now().Add(-m.ttl))
	_, ok := m.marks[id]
	return ok
}

func (m *Memory) complete(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.marks[id] = now
	m.order.PushBack(id)
	m.forget(now.Add(-m.ttl))
}

// forget drops ids that were completed at or before the given time, and the
// oldest while there are too many.
func (m *Memory) forget(before time.Time) {
	for first := m.order.Front(); first != nil; first = m.order.Front() {
		id, _ := first.Value.(string)
		if m.order.Len() <= m.max && m.marks[id].After(before) {
			return
		}
		m.order.Remove(first)
		delete(m.marks, id)
	}
}
