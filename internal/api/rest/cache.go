package rest

import (
	"maps"
	"sync"
	"time"
)

// cacheFor is how long what was read about keys and tenants is believed: a
// revoked key ends on every node within a second.
const cacheFor = 900 * time.Millisecond

const (
	maxCachedKeys    = 4096
	maxCachedTenants = 4096
)

// freshCache remembers values for a short time and, until it is full, that they
// were there at all. Safe for concurrent use.
type freshCache[K comparable, V any] struct {
	max int
	ttl time.Duration

	mu sync.Mutex
	m  map[K]cached[V]
}

type cached[V any] struct {
	value V
	read  time.Time
}

func newFreshCache[K comparable, V any](limit int, ttl time.Duration) *freshCache[K, V] {
	return &freshCache[K, V]{max: limit, ttl: ttl, m: map[K]cached[V]{}}
}

// fresh returns a value that was read less than ttl ago.
func (c *freshCache[K, V]) fresh(k K, now time.Time) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.m[k]
	age := now.Sub(e.read)
	return e.value, ok && age >= 0 && age < c.ttl
}

// known reports whether k was there once, however long ago.
func (c *freshCache[K, V]) known(k K) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.m[k]
	return ok
}

// put remembers a value. read is when reading it began, not when it ended:
// otherwise a change in between would be hidden for longer than ttl.
func (c *freshCache[K, V]) put(k K, v V, read time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.m) >= c.max {
		c.makeRoom(read)
	}
	c.m[k] = cached[V]{v, read}
}

// makeRoom drops what is stale, or half of it when nothing is.
func (c *freshCache[K, V]) makeRoom(now time.Time) {
	maps.DeleteFunc(c.m, func(_ K, e cached[V]) bool { return now.Sub(e.read) >= c.ttl })
	if len(c.m) < c.max {
		return
	}
	for k := range c.m {
		if len(c.m) <= c.max/2 {
			return
		}
		delete(c.m, k)
	}
}

func (c *freshCache[K, V]) forget(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.m, k)
}

func (c *freshCache[K, V]) forgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.m)
}

// forgetIf drops the values that match.
func (c *freshCache[K, V]) forgetIf(match func(V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.m, func(_ K, e cached[V]) bool { return match(e.value) })
}
