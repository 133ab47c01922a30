package replay_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// events stores n events of a type that nobody gets, numbered from 0, and returns
// their ids.
func (r *rig) events(typ string, n int) []hook.ID {
	r.t.Helper()
	rev, err := r.db.ConfigRev(r.ctx(), r.tenant.ID)
	r.must(err)
	b := &store.Batch{Node: r.node.ID, Now: r.now()}
	ids := make([]hook.ID, n)
	for i := range ids {
		ids[i] = r.id()
		b.Accepts = append(b.Accepts, &store.Accept{ConfigRev: rev, Event: hook.Event{
			ID: ids[i], TenantID: r.tenant.ID, Type: typ, CreatedAt: r.now(), ContentType: "application/json", Payload: fmt.Appendf(nil, `{"n":%d}`, i),
		}})
	}
	r.must(r.db.Commit(r.ctx(), b))
	time.Sleep(time.Second)
	return ids
}

// backfill creates a replay of dead letters and of events that e has no delivery of.
func (r *rig) backfill(e hook.Endpoint, since time.Time, m hook.MissingFilter) hook.ReplayJob {
	r.t.Helper()
	j := hook.ReplayJob{
		ID: r.id(), TenantID: r.tenant.ID, EndpointID: e.ID,
		Filter:    hook.ReplayFilter{Endpoint: e.ID, States: []hook.DeliveryState{hook.Dead}, Since: since, Missing: &m},
		PerMinute: 100, CurrentPerMinute: 100, Ramp: 2, MaxMultiple: 10, PauseErrorPercent: 10,
		EndID: store.ReplayEnd(r.now()), Total: -1, CreatedBy: "test", CreatedAt: r.now(), UpdatedAt: r.now(), Version: 1,
	}
	r.must(r.db.CreateReplay(r.ctx(), j, r.audit()))
	time.Sleep(time.Second)
	return j
}

// arrived returns how often each event arrived at e.
func (r *rig) arrived(e hook.Endpoint) map[hook.ID]int {
	r.t.Helper()
	out := map[hook.ID]int{}
	for after := hook.ID(0); ; {
		rows, next, err := r.db.ListDeliveries(r.ctx(), store.DeliveryFilter{Endpoints: []hook.ID{e.ID}}, store.Page{Limit: 500, After: after, Asc: true})
		r.must(err)
		r.mu.Lock()
		for i := range rows {
			out[rows[i].EventID] += r.delivered[rows[i].ID]
		}
		r.mu.Unlock()
		if after = next; next == 0 {
			return out
		}
	}
}

// TestMissingEventsArrive follows an endpoint that came late: it gets what it asks
// for, once, between its dead letters, at the pace of the replay, though the
// destination goes down on the way and the node is restarted.
func TestMissingEventsArrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		begin := r.now()
		want := map[hook.ID]int{}
		for i, id := range r.events("order.paid", 400) {
			if i%2 == 0 {
				want[id] = 1
			}
		}
		r.events("refund.made", 100)
		e := r.endpoint()
		r.deadLetters(e, 20)
		for i, id := range r.events("order.made", 100) {
			if i%2 == 0 {
				want[id] = 1
			}
		}
		j := r.backfill(e, begin, hook.MissingFilter{Types: []string{"order.*"}, Filter: "payload.n % 2 == 0"})
		late := r.events("order.made", 10) // after the replay was created
		r.settler(e)
		r.runner(nil, 0)
		time.Sleep(1500 * time.Millisecond)
		r.want(j, "running")
		time.Sleep(time.Minute)
		r.wantFed(j, 100, 10)

		r.setDown(e, true)
		r.setLane(e, true)
		time.Sleep(5 * time.Second)
		stopped := r.want(j, "breaker").Counts
		r.stop()
		r.openStore()
		r.settler(e)
		r.runner(nil, 0)
		time.Sleep(time.Minute)
		if got := r.want(j, "breaker").Counts; got.Fed != stopped.Fed {
			t.Errorf("%d were fed while the lane was open", got.Fed-stopped.Fed)
		}
		r.setDown(e, false)
		r.setLane(e, false)
		time.Sleep(10 * time.Minute)
		done := r.want(j, "done")
		if c := done.Counts; c.Fed != 270 || c.Delivered != 270 || c.Skipped != 0 || done.Total != 270 {
			t.Errorf("of %d: %+v, want 250 events and 20 dead letters", done.Total, c)
		}
		arrived := r.arrived(e)
		for id := range want {
			if arrived[id] != 1 {
				t.Errorf("event %d arrived %d times", id, arrived[id])
			}
		}
		if _, ok := arrived[late[0]]; ok || len(arrived) != 270 {
			t.Errorf("%d events arrived, want 270; a late one: %v", len(arrived), ok)
		}
	})
}

// TestMissingEventsPastTheirAge: they may have had a delivery that is removed.
func TestMissingEventsPastTheirAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		begin := r.now()
		r.events("a", 5)
		time.Sleep(10 * time.Hour)
		young := r.events("a", 3)
		time.Sleep(keptFor - 5*time.Hour)
		e := r.endpoint()
		// A filter that cannot be evaluated, or is not one any more, lets events through.
		j := r.backfill(e, begin, hook.MissingFilter{Types: []string{"*"}, Filter: "payload.n <"})
		r.settler(e)
		r.runner(nil, 0)
		time.Sleep(time.Minute)
		r.want(j, "done")
		arrived := r.arrived(e)
		if len(arrived) != 3 || arrived[young[0]] != 1 {
			t.Errorf("arrived: %v, want %v", arrived, young)
		}
	})
}

// TestCreatedDeliveriesAreBeyondTheSet: the clock of the node that feeds is behind that
// of the one which created the replay. What is created must not be met again.
func TestCreatedDeliveriesAreBeyondTheSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		begin := r.now()
		r.events("a", 30)
		e := r.endpoint()
		j := hook.ReplayJob{
			ID: r.id(), TenantID: r.tenant.ID, EndpointID: e.ID,
			Filter: hook.ReplayFilter{
				Endpoint: e.ID, States: []hook.DeliveryState{hook.Dead, hook.Delivered}, Since: begin, Missing: &hook.MissingFilter{Types: []string{"a"}},
			},
			PerMinute: 60, CurrentPerMinute: 60, Ramp: 1, MaxMultiple: 1, PauseErrorPercent: 10, Total: 30, CreatedBy: "test", Version: 1,
		}
		j.CreatedAt = r.now().Add(2 * time.Minute)
		j.UpdatedAt, j.EndID = j.CreatedAt, store.ReplayEnd(j.CreatedAt)
		r.must(r.db.CreateReplay(r.ctx(), j, r.audit()))
		r.settler(e)
		r.runner(nil, 0)
		time.Sleep(5 * time.Minute)
		if c := r.want(j, "done").Counts; c.Fed != 30 || c.Delivered != 30 {
			t.Errorf("counts %+v, want each of the 30 once", c)
		}
	})
}
