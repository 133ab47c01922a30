package dispatch_test

import (
	"context"
	"slices"
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
}

func (s *together) ReadDue(ctx context.Context, endpoints, known []hook.ID, now time.Time, limit int) (map[hook.ID]store.Due, error) {
	s.rounds.Add(1)
	out := make(map[hook.ID]store.Due)
	for _, e := range endpoints {
		rows, err := s.DB.ReadAhead(ctx, e, now, limit+len(known))
		if err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(d hook.Delivery) bool { return slices.Contains(known, d.ID) })
		next, err := s.NextDue(ctx, e, now)
		if err != nil {
			return nil, err
		}
		out[e] = store.Due{Deliveries: rows[:min(len(rows), limit)], Next: next}
	}
	return out, nil
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
		time.Sleep(time.Second)
		db.rounds.Store(0)
		db.single.Store(0)
		for _, e := range endpoints {
			r.setState(e, hook.Active)
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
