package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/storetest"
)

// moody is a store whose reads fail or dawdle at random, beside commits that
// do.
type moody struct {
	*storetest.Faulty
	mu   sync.Mutex
	rng  *rand.Rand
	calm bool
}

var errMood = errors.New("read failed")

func (m *moody) mood() error {
	m.mu.Lock()
	calm, fails, takes := m.calm, m.rng.IntN(10) == 0, time.Duration(m.rng.IntN(50))*time.Millisecond
	m.mu.Unlock()
	if calm {
		return nil
	}
	time.Sleep(takes)
	if fails {
		return errMood
	}
	return nil
}

func (m *moody) settleDown() {
	m.mu.Lock()
	m.calm = true
	m.mu.Unlock()
	m.SetPlan(nil)
}

// Reads dawdle before or after: what they return may be old.
func (m *moody) ReadAhead(ctx context.Context, e hook.ID, now time.Time, n int) ([]hook.Delivery, error) {
	rows, err := m.Faulty.ReadAhead(ctx, e, now, n)
	return rows, errors.Join(err, m.mood())
}

func (m *moody) NewestDue(ctx context.Context, e hook.ID, now time.Time, n int) ([]hook.Delivery, error) {
	rows, err := m.Faulty.NewestDue(ctx, e, now, n)
	return rows, errors.Join(err, m.mood())
}

func (m *moody) NextDue(ctx context.Context, e hook.ID, now time.Time) (time.Time, error) {
	next, err := m.Faulty.NextDue(ctx, e, now)
	return next, errors.Join(err, m.mood())
}

func (m *moody) Destinations(ctx context.Context, ids []hook.ID) ([]store.Destination, error) {
	rows, err := m.Faulty.Destinations(ctx, ids)
	return rows, errors.Join(err, m.mood())
}

// chaos is a rig under random faults, wishes and weather.
type chaos struct {
	*rig
	rng       *rand.Rand
	store     *moody
	endpoints []hook.Endpoint
	ids       []hook.ID
	weather   sync.Mutex
	bad       int // tenths of requests that fail
}

func (c *chaos) answer(arrival) egress.Result {
	c.weather.Lock()
	bad, roll, takes := c.bad, c.rng.IntN(10), time.Duration(c.rng.IntN(400))*time.Millisecond
	kind := c.rng.IntN(4)
	c.weather.Unlock()
	time.Sleep(takes)
	if roll >= bad {
		return egress.Result{Status: 200}
	}
	switch kind {
	case 0:
		return withHeader(egress.Result{Status: 429}, "Retry-After", "2")
	case 1:
		return egress.Result{Status: 500}
	default:
		return egress.Result{Reason: hook.ConnectRefused}
	}
}

func (c *chaos) roll(n int) int {
	c.weather.Lock()
	defer c.weather.Unlock()
	return c.rng.IntN(n)
}

// step does one thing that a publisher, a person or the weather might do.
func (c *chaos) step() {
	e := c.endpoints[c.roll(len(c.endpoints))]
	if c.roll(30) == 0 {
		c.restart()
	}
	switch c.roll(12) {
	case 0, 1, 2, 3:
		c.ids = append(c.ids, c.publishAt(e, 1+c.roll(20), c.rig.now().Add(time.Duration(c.roll(2000))*time.Millisecond))...)
	case 4:
		c.wish(e, func(e *hook.Endpoint) { e.State = hook.Paused })
	case 5, 6:
		c.wish(e, func(e *hook.Endpoint) { e.State = hook.Active })
	case 7:
		c.wish(e, func(e *hook.Endpoint) { e.ResetWantedAt = c.rig.now() })
	case 8:
		c.wish(e, func(e *hook.Endpoint) { e.ProbeWantedAt = c.rig.now() })
	case 9:
		c.touch(func(id hook.ID) (store.DeliveryRow, error) {
			return c.db.CancelDelivery(c.ctx(), 0, id, c.rig.now(), c.audit())
		})
	case 10:
		c.touch(func(id hook.ID) (store.DeliveryRow, error) {
			return c.db.RetryDelivery(c.ctx(), 0, id, c.rig.now(), c.audit())
		})
	default:
		c.weather.Lock()
		c.bad = []int{0, 3, 10}[c.rng.IntN(3)]
		c.weather.Unlock()
	}
	time.Sleep(time.Duration(c.roll(1500)) * time.Millisecond)
}

// touch applies a wish to some delivery.
func (c *chaos) touch(wish func(hook.ID) (store.DeliveryRow, error)) {
	if len(c.ids) == 0 {
		return
	}
	row, err := wish(c.ids[c.roll(len(c.ids))])
	if err == nil {
		c.d.DeliveryChanged(row.EndpointID)
	} else if !errors.Is(err, hook.ErrStateConflict) {
		c.t.Fatal(err)
	}
}

// check compares store, log and what the destination saw.
func (c *chaos) check() {
	c.t.Helper()
	if n := c.d.InFlight(); n != 0 {
		c.t.Errorf("%d slots in use at rest", n)
	}
	if n := c.d.Miscounted(); n != 0 {
		c.t.Errorf("%d lanes have miscounted what waits", n)
	}
	seen := make(map[string]int)
	arrivals := make(map[hook.ID]int)
	for _, a := range c.sink.seen() {
		key := fmt.Sprintf("delivery %d attempt %d", a.delivery, a.attempt)
		seen[key]++
		arrivals[a.delivery]++
		if seen[key] > 1 {
			c.t.Errorf("%s arrived twice", key)
		}
	}
	for id, d := range c.rows() {
		if d.State == hook.Pending {
			c.t.Errorf("delivery %d is pending, due %v, %d attempts, restore %v", id, d.DueAt, d.Attempts, d.Restore)
		}
		if d.Attempts != arrivals[id] {
			c.t.Errorf("delivery %d counts %d attempts, the destination saw %d", id, d.Attempts, arrivals[id])
		}
	}
}

// TestChaos: faults, wishes, weather and orderly restarts at random, without a
// crash. In the end every delivery has ended, and every attempt the destination
// saw is recorded, once.
func TestChaos(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &chaos{rng: rand.New(rand.NewPCG(seed, 1))}
				c.rig = newRig(t, c.answer,
					settings(func(cfg *dispatch.Config) { cfg.Window, cfg.MaxInFlight, cfg.Seed = 16, 12, seed+1 }),
					func(r *rig) {
						r.wrap = func(db store.DB) store.DB {
							plan := storetest.Seeded(seed, storetest.Rates{Before: 0.1, After: 0.1, Delay: 0.2, MaxDelay: 4 * time.Second})
							c.store = &moody{Faulty: storetest.NewFaulty(db, plan), rng: rand.New(rand.NewPCG(seed, 2))}
							return c.store
						}
					})
				defer c.close()
				for range 4 {
					c.endpoints = append(c.endpoints, c.endpoint(`{"concurrency":4,"breaker":{"consecutive":3,"max_hold":"720h"},
						"retry":{"max_attempts":50,"max_elapsed":"720h","backoff":{"kind":"exponential","base":"1s","multiplier":1.1}}}`))
				}
				for range 150 {
					c.step()
				}
				c.store.settleDown()
				c.weather.Lock()
				c.bad = 0
				c.weather.Unlock()
				for _, e := range c.endpoints {
					c.wish(e, func(e *hook.Endpoint) { e.State = hook.Active })
				}
				time.Sleep(6 * time.Hour)
				c.check()
			})
		})
	}
}
