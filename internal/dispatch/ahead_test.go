package dispatch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// together reads for several lanes at once, as a store does that is a network
// away, and counts what is asked of it.
type together struct {
	store.DB
	rounds, single, apart atomic.Int64
	fail                  atomic.Int64 // so many reads fail

	mu    sync.Mutex
	asked []store.Wanted
}

// wanted returns what was asked for so far.
func (s *together) wanted() []store.Wanted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *together) ReadDue(ctx context.Context, w store.Wanted) (map[hook.ID]store.Due, []hook.Event, error) {
	s.rounds.Add(1)
	s.mu.Lock()
	s.asked = append(s.asked, w)
	s.mu.Unlock()
	if s.fail.Add(-1) >= 0 {
		return nil, nil, errors.New("the store is away")
	}
	out := make(map[hook.ID]store.Due)
	for _, e := range w.Endpoints {
		rows, err := s.DB.ReadAhead(ctx, e, w.Now, w.Limit+len(w.Known))
		if err != nil {
			return nil, nil, err
		}
		rows = slices.DeleteFunc(rows, func(d hook.Delivery) bool { return slices.Contains(w.Known, d.ID) })
		next, err := s.NextDue(ctx, e, w.Now)
		if err != nil {
			return nil, nil, err
		}
		out[e] = store.Due{Deliveries: rows[:min(len(rows), w.Limit)], Next: next}
	}
	var events []hook.Event
	for _, n := range w.Announced {
		row, err := s.DeliveryByID(ctx, 0, n.Delivery)
		if err != nil {
			return nil, nil, err
		}
		if row.State != hook.Pending || slices.Contains(w.Known, n.Delivery) {
			continue
		}
		due := out[n.Endpoint]
		due.Deliveries = append(due.Deliveries, row.Delivery)
		out[n.Endpoint] = due
		event, err := s.DB.Event(ctx, 0, n.Event)
		if err != nil {
			return nil, nil, err
		}
		events = append(events, event)
	}
	return out, events, nil
}

func (s *together) ReadAhead(ctx context.Context, e hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	s.apart.Add(1)
	return s.DB.ReadAhead(ctx, e, now, limit)
}

func (s *together) Event(ctx context.Context, tenant, id hook.ID) (hook.Event, error) {
	s.single.Add(1)
	return s.DB.Event(ctx, tenant, id)
}

// TestLanesReadTogether: what other nodes have accepted for many lanes is read
// in a few rounds, payloads included.
func TestLanesReadTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &together{}
		r := newRig(t, func(arrival) egress.Result { return egress.Result{Status: 200} }, func(r *rig) {
			r.wrap = func(inner store.DB) store.DB {
				db.DB = inner
				return db
			}
		})
		defer r.close()
		const lanes, each = 40, 5
		var endpoints []hook.Endpoint
		var ids []hook.ID
		for range lanes {
			e := r.setState(r.endpoint(""), hook.Paused)
			ids = append(ids, r.publish(e, each)...)
			endpoints = append(endpoints, e)
		}
		r.restart() // a new owner has nothing of them in memory
		time.Sleep(time.Second)
		db.rounds.Store(0)
		db.single.Store(0)
		for _, e := range endpoints {
			r.setState(e, hook.Active)
			r.d.DeliveryChanged(e.ID) // what is in memory does not count
		}
		time.Sleep(10 * time.Second)
		if got := r.count(ids); got[hook.Delivered] != lanes*each {
			t.Errorf("deliveries by state %v, want all %d delivered", got, lanes*each)
		}
		rounds, alone, payloads := db.rounds.Load(), db.apart.Load(), db.single.Load()
		if rounds < 1 || rounds > lanes/2 || alone > 0 || payloads > 0 {
			t.Errorf("%d rounds of reads for %d lanes, %d lanes and %d payloads read alone; want a few rounds and nothing alone",
				rounds, lanes, alone, payloads)
		}
	})
}
