package storetest

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var laneReaderTests = []test{
	{"read-ahead is oldest due first", readAheadOrder},
	{"read-ahead is bounded and sees only pending and due", readAheadBounds},
	{"the newest due come newest first", newestDue},
	{"the next due lies after now", nextDue},
	{"pending endpoints come with their first due time", pendingEndpoints},
	{"endpoints with new deliveries are found by id", acceptedSince},
	{"an event belongs to its tenant", eventOfTenant},
	{"events are read together", eventsTogether},
	{"several lanes are read together", lanesTogether},
}

var laneTests = []test{
	{"a destination is complete", destinationComplete},
	{"deleted and unknown destinations are left out", destinationsLeftOut},
	{"every field of a checkpoint comes back", checkpointRoundTrip},
}

// spread stores one event per due time and returns the deliveries in the order
// of the given times.
func (w *world) spread(ten hook.Tenant, e hook.Endpoint, dues ...time.Duration) []hook.ID {
	w.t.Helper()
	var accepts []*store.Accept
	var ids []hook.ID
	for _, due := range dues {
		a := dueAt(w.accept(ten, e), w.now.Add(due))
		accepts = append(accepts, a)
		ids = append(ids, a.Deliveries[0].ID)
	}
	w.store(accepts...)
	return ids
}

func readAheadOrder(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	// Equal due times are ordered by id.
	ids := w.spread(ten, e, -time.Second, -3*time.Second, -time.Second, -2*time.Second)
	got, err := w.db.ReadAhead(w.ctx(), e.ID, w.now, 10)
	w.check(err, "ReadAhead")
	w.same(deliveryIDs(got), []hook.ID{ids[1], ids[3], ids[0], ids[2]}, "order")
	for _, d := range got {
		w.same(d, w.delivery(d.ID), "delivery read ahead")
	}
}

func readAheadBounds(w *world) {
	ten := w.tenant()
	e, other := w.endpoint(ten), w.endpoint(ten)
	ids := w.spread(ten, e, -4*time.Second, -3*time.Second, -2*time.Second, -time.Second, 0, time.Microsecond)
	w.spread(ten, other, -time.Hour)
	w.written(w.success(w.delivery(ids[0])), w.dead(w.delivery(ids[1])))
	_, err := w.db.CancelDelivery(w.ctx(), ten.ID, ids[2], w.now, w.audit(ten.ID, "delivery.cancel"))
	w.check(err, "CancelDelivery")

	got, err := w.db.ReadAhead(w.ctx(), e.ID, w.now, 10)
	w.check(err, "ReadAhead")
	w.same(deliveryIDs(got), ids[3:5], "pending and due")
	got, err = w.db.ReadAhead(w.ctx(), e.ID, w.now.Add(time.Hour), 2)
	w.check(err, "ReadAhead")
	w.same(deliveryIDs(got), ids[3:5], "the first two")
	got, err = w.db.ReadAhead(w.ctx(), w.id(), w.now, 10)
	w.check(err, "ReadAhead of an unknown endpoint")
	w.same(got, []hook.Delivery{}, "deliveries of an unknown endpoint")
}

func newestDue(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	ids := w.spread(ten, e, -3*time.Second, -time.Second, -time.Second, -2*time.Second, time.Second)
	w.written(w.success(w.delivery(ids[3])))
	got, err := w.db.NewestDue(w.ctx(), e.ID, w.now, 10)
	w.check(err, "NewestDue")
	w.same(deliveryIDs(got), []hook.ID{ids[2], ids[1], ids[0]}, "order")
	got, err = w.db.NewestDue(w.ctx(), e.ID, w.now, 1)
	w.check(err, "NewestDue")
	w.same(deliveryIDs(got), []hook.ID{ids[2]}, "the newest")
}

func nextDue(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	next := func() time.Time {
		w.t.Helper()
		at, err := w.db.NextDue(w.ctx(), e.ID, w.now)
		w.check(err, "NextDue")
		return at
	}
	w.same(next(), time.Time{}, "next due of an idle endpoint")
	ids := w.spread(ten, e, -time.Second, 0, 2*time.Second, time.Second+time.Microsecond)
	w.same(next(), w.now.Add(time.Second+time.Microsecond), "next due")
	w.written(w.success(w.delivery(ids[3])))
	w.same(next(), w.now.Add(2*time.Second), "next due after a success")
	w.pass(2 * time.Second)
	w.same(next(), time.Time{}, "next due once all are due")
}

func pendingEndpoints(w *world) {
	ten := w.tenant()
	all := w.endpoints(ten, 5)
	w.spread(ten, all[0], time.Hour, -time.Minute, 0)
	w.spread(ten, all[1], 2*time.Hour)
	done := w.spread(ten, all[2], 0)
	w.written(w.success(w.delivery(done[0])))
	w.spread(ten, all[4], -time.Second)

	want := []store.PendingEndpoint{
		{ID: all[0].ID, Due: w.now.Add(-time.Minute)},
		{ID: all[1].ID, Due: w.now.Add(2 * time.Hour)},
		{ID: all[4].ID, Due: w.now.Add(-time.Second)},
	}
	w.same(w.pending(allShards()), want, "pending endpoints")

	shard := hook.ShardOf(all[1].ID)
	want = slices.DeleteFunc(want, func(p store.PendingEndpoint) bool { return hook.ShardOf(p.ID) != shard })
	w.same(w.pending([]int{shard}), want, "pending endpoints of one shard")
	w.same(w.pending(nil), []store.PendingEndpoint{}, "pending endpoints of no shard")
}

func (w *world) pending(shards []int) []store.PendingEndpoint {
	w.t.Helper()
	got, err := w.db.PendingEndpoints(w.ctx(), shards)
	w.check(err, "PendingEndpoints")
	slices.SortFunc(got, func(a, b store.PendingEndpoint) int { return cmp.Compare(a.ID, b.ID) })
	return got
}

func acceptedSince(w *world) {
	ten := w.tenant()
	all := w.endpoints(ten, 3)
	w.stored(ten, all[0], all[1])
	second := w.stored(ten, all[1], all[2])
	w.stored(ten, all[2])
	got, err := w.db.AcceptedSince(w.ctx(), second.Deliveries[0].ID)
	w.check(err, "AcceptedSince")
	slices.Sort(got)
	w.same(got, []hook.ID{all[1].ID, all[2].ID}, "endpoints")
	got, err = w.db.AcceptedSince(w.ctx(), w.id())
	w.check(err, "AcceptedSince")
	w.same(got, []hook.ID{}, "endpoints since now")
}

func eventOfTenant(w *world) {
	ten, other := w.tenant(), w.tenant()
	a := w.stored(ten)
	_, err := w.db.Event(w.ctx(), other.ID, a.Event.ID)
	w.wantErr(err, hook.ErrNotFound, "Event of another tenant")
	_, err = w.db.Event(w.ctx(), ten.ID, w.id())
	w.wantErr(err, hook.ErrNotFound, "Event that is not there")
	for _, id := range []hook.ID{1, math.MaxInt64} { // of days that the store has never seen
		_, err = w.db.Event(w.ctx(), 0, id)
		w.wantErr(err, hook.ErrNotFound, "Event of another age")
	}
	got, err := w.db.Event(w.ctx(), 0, a.Event.ID)
	w.check(err, "Event of any tenant")
	w.same(got, a.Event, "event")
}

func eventsTogether(w *world) {
	one, two := w.tenant(), w.tenant()
	a, b := w.stored(one), w.stored(two)
	got, err := w.db.Events(w.ctx(), []hook.ID{b.Event.ID, w.id(), a.Event.ID, 1})
	w.check(err, "Events")
	slices.SortFunc(got, func(x, y hook.Event) int { return cmp.Compare(x.ID, y.ID) })
	w.same(got, []hook.Event{a.Event, b.Event}, "events of two tenants and two that are not there")
	got, err = w.db.Events(w.ctx(), nil)
	w.check(err, "Events of nothing")
	w.same(got, []hook.Event{}, "no events")
}

// lanesTogether: what a store reads for several lanes at once is what it would
// read for each of them.
func lanesTogether(w *world) {
	db, ok := w.db.(store.DueReader)
	if !ok {
		return // it is asked lane by lane
	}
	ten := w.tenant()
	many, few, later, none := w.endpoint(ten), w.endpoint(ten), w.endpoint(ten), w.endpoint(ten)
	w.spread(ten, many, -time.Second, -3*time.Second, -time.Second, -2*time.Second, time.Hour)
	w.spread(ten, few, -time.Hour, time.Minute, time.Hour)
	w.spread(ten, later, time.Microsecond)
	w.written(w.success(w.delivery(w.spread(ten, few, -time.Minute)[0])))

	_, err := w.db.MaxID(w.ctx()) // has all rows written: what has none may be left out for a moment
	w.check(err, "MaxID")
	const limit = 3
	endpoints := []hook.ID{later.ID, many.ID, none.ID, few.ID}
	got, _, err := db.ReadDue(w.ctx(), store.Wanted{Endpoints: endpoints, Now: w.now, Limit: limit})
	w.check(err, "ReadDue")
	for _, id := range endpoints {
		rows, err := w.db.ReadAhead(w.ctx(), id, w.now, limit)
		w.check(err, "ReadAhead")
		w.same(append([]hook.Delivery{}, got[id].Deliveries...), rows, "deliveries")
		if len(rows) == limit {
			continue // nobody asks when more is due than was read
		}
		next, err := w.db.NextDue(w.ctx(), id, w.now)
		w.check(err, "NextDue")
		w.same(got[id].Next, next, "next due")
	}

	// What is known leaves room for others.
	known := []hook.ID{got[many.ID].Deliveries[1].ID, got[few.ID].Deliveries[0].ID}
	rows, err := w.db.ReadAhead(w.ctx(), many.ID, w.now, limit+1)
	w.check(err, "ReadAhead")
	got, _, err = db.ReadDue(w.ctx(), store.Wanted{Endpoints: endpoints, Known: known, Now: w.now, Limit: limit})
	w.check(err, "ReadDue without the known")
	w.same(got[many.ID].Deliveries, slices.Delete(rows, 1, 2), "deliveries that were not known")
	w.same(len(got[few.ID].Deliveries), 0, "nothing else is due")
	w.same(got[few.ID].Next, w.now.Add(time.Minute), "next due beside a known one")
}

// destination reads what is needed to send to one endpoint.
func (w *world) destination(id hook.ID) store.Destination {
	w.t.Helper()
	got, err := w.db.Destinations(w.ctx(), []hook.ID{id})
	w.check(err, "Destinations")
	if len(got) != 1 || got[0].Endpoint.ID != id {
		w.t.Fatalf("Destinations = %v, want endpoint %d alone", got, id)
	}
	return got[0]
}

func destinationComplete(w *world) {
	ten := w.tenant()
	ten.Policy = []byte(`{"retry":{"max_attempts":9}}`)
	ten, err := w.db.UpdateTenant(w.ctx(), ten, w.audit(ten.ID, "tenant.update"))
	w.check(err, "UpdateTenant")
	e := w.newEndpoint(ten)
	old, expired := w.secret(e), w.secret(e)
	expired.ExpiresAt = w.now.Add(-time.Hour)
	w.check(w.db.CreateEndpoint(w.ctx(), e, []hook.Secret{old, expired}, 0, w.audit(ten.ID, "endpoint.create")), "CreateEndpoint")

	got := w.destination(e.ID)
	w.same(got.Endpoint, e, "endpoint")
	w.same([]byte(compact(got.TenantLevel.JSON)), []byte(compact(ten.Policy)), "tenant policy")
	w.same(got.Secrets, []hook.Secret{expired, old}, "secrets, newest first")
	if got.Lane != nil {
		w.t.Errorf("lane = %+v, want none before the first checkpoint", got.Lane)
	}
}

func destinationsLeftOut(w *world) {
	ten := w.tenant()
	all := w.endpoints(ten, 3)
	_, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, all[1].ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	got, err := w.db.Destinations(w.ctx(), []hook.ID{all[2].ID, all[1].ID, w.id(), all[0].ID})
	w.check(err, "Destinations")
	var ids []hook.ID
	for _, d := range got {
		ids = append(ids, d.Endpoint.ID)
	}
	slices.Sort(ids)
	w.same(ids, []hook.ID{all[0].ID, all[2].ID}, "destinations")
	got, err = w.db.Destinations(w.ctx(), nil)
	w.check(err, "Destinations of nothing")
	w.same(got, []store.Destination{}, "destinations of nothing")
}

func checkpointRoundTrip(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	broke := lane.Breakage{
		Ceiling: 104.5, CeilingLearnt: 98.625, CeilingAt: w.now.Add(-9 * time.Hour), CeilingWait: 7 * 24 * time.Hour,
		Mark: 97.375, MarkAt: w.now.Add(-10 * time.Hour),
	}
	full := lane.Checkpoint{
		SavedAt: w.now, Open: true, OpenReason: lane.OpenedByRatio,
		OpenedAt: w.now.Add(-1 * time.Minute), ClosedAt: w.now.Add(-2 * time.Minute),
		BlockedAt: w.now.Add(-3 * time.Minute), LastBadAt: w.now.Add(-4 * time.Minute),
		NextProbeAt: w.now.Add(5 * time.Minute), HoldUntil: w.now.Add(6 * time.Minute),
		Limit: 12.75, SlowStart: true, BaseLatency: 1234567 * time.Microsecond, BaseWeight: 0.625,
		SRTT: 7654321 * time.Microsecond, HealthyPeak: 99.5,
		Usual: 48.125, Proven: 210.5, Recovery: 62.75, Held: 31*time.Minute + 7*time.Microsecond, Host: 5.5,
		FailingSince: w.now.Add(-8 * time.Hour), FailingAttempts: 123456789, FailingWarned: 90,
		Pace: 3.25, PaceSlowStart: true, ThrottledAt: w.now.Add(-7 * time.Minute), RetryAfter: 1500 * time.Millisecond,
		Breakage:   broke,
		HostLearnt: &lane.HostLearnt{Address: "https://example.com:443", At: w.now.Add(-time.Hour), Breakage: broke},
	}
	for _, part := range []any{full, broke} {
		for field, value := range reflect.ValueOf(part).Fields() { // a field that is added must be added here
			if value.IsZero() {
				w.t.Errorf("the full checkpoint lacks %s", field.Name)
			}
		}
	}
	for name, want := range map[string]lane.Checkpoint{"full": full, "empty": {SavedAt: w.now, Limit: 1}} {
		save := w.laneSave(e.ID, 0)
		save.Checkpoint = want
		w.commit(&store.Batch{Lanes: []*store.LaneSave{save}})
		if save.Outcome != store.SettleWritten {
			w.t.Fatalf("%s: outcome %d, want written", name, save.Outcome)
		}
		got := w.destination(e.ID)
		w.same(got.Lane, &want, name+" checkpoint")
		w.same(got.LaneEpoch, save.Epoch, name+" checkpoint's epoch")
	}
}
