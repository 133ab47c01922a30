package postgres_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// handingOff is two nodes: what front accepts is for a lane of owner.
type handingOff struct {
	t            *testing.T
	dsn          string
	front, owner *node
	tenant       hook.Tenant
	endpoint     hook.Endpoint
}

func handOff(t *testing.T) *handingOff {
	t.Helper()
	dsn := pgtest.DSN(t)
	l := &handingOff{t: t, dsn: dsn, front: join(t, dsn, "front"), owner: join(t, dsn, "owner")}
	l.tenant = l.front.tenant()
	l.endpoint = l.front.endpoint(l.tenant)
	l.owner.take(false, hook.ShardOf(l.endpoint.ID))
	l.front.own(false) // the rest
	return l
}

// another is an endpoint whose lane is front's.
func (l *handingOff) another() hook.Endpoint {
	for {
		if e := l.front.endpoint(l.tenant); hook.ShardOf(e.ID) != hook.ShardOf(l.endpoint.ID) {
			return e
		}
	}
}

func (l *handingOff) accepted() hook.Delivery { return l.front.accepted(l.tenant, l.endpoint) }

func (l *handingOff) rows() int { return rows(l.t, l.dsn) }

// read is what the lane reads after it has heard of the deliveries.
func (l *handingOff) read(known []hook.ID, heard ...hook.Delivery) (store.Due, []hook.Event) {
	l.t.Helper()
	w := store.Wanted{Known: known, Now: time.Now(), Limit: 10}
	for _, d := range heard {
		w.Announced = append(w.Announced, store.Announced{Endpoint: d.EndpointID, Event: d.EventID, Delivery: d.ID})
	}
	due, events, err := l.owner.db.ReadDue(l.t.Context(), w)
	l.owner.check(err, "ReadDue")
	return due[l.endpoint.ID], events
}

// looksForRows reports whether the read says nothing but to look for rows.
func looksForRows(due store.Due) bool { return len(due.Deliveries) == 0 && !due.Next.IsZero() }

func (l *handingOff) settle(d hook.Delivery) store.SettleOutcome {
	l.t.Helper()
	s := l.owner.success(d)
	l.owner.commit(&store.Batch{Settles: []*store.Settle{s}})
	return s.Outcome
}

// later has front write what is late so long after the given moment.
func (l *handingOff) later(than time.Time, by time.Duration) {
	l.t.Helper()
	l.front.check(l.front.db.InsertDeferred(l.t.Context(), than.Add(by)), "InsertDeferred")
}

// hints returns what the owner hears from now on.
func (l *handingOff) hints() <-chan store.Hint {
	l.t.Helper()
	heard := make(chan store.Hint, 100)
	ctx, stop := context.WithCancel(l.t.Context())
	done := make(chan error, 1)
	go func() { done <- l.owner.db.Listen(ctx, func(h store.Hint) { heard <- h }) }()
	l.t.Cleanup(func() {
		stop()
		l.owner.check(<-done, "Listen")
	})
	eventually(l.t, "listening", func() bool { return listeners(l.t, l.dsn) == 1 })
	return heard
}

// wantHint checks that the owner hears that its endpoint has work.
func (l *handingOff) wantHint(heard <-chan store.Hint) {
	l.t.Helper()
	select {
	case h := <-heard:
		if h.Kind != store.HintDue || !cmp.Equal(h.IDs, []hook.ID{l.endpoint.ID}) {
			l.t.Errorf("the owner hears %+v, want that its endpoint has work", h)
		}
	case <-time.After(5 * time.Minute):
		l.t.Error("the owner hears nothing")
	}
}

// TestHandedOffDeliveryIsWrittenOnce: the row of a delivery that another node sends
// comes with its result, too. The lane gets what it would have read, and the
// event along with it.
func TestHandedOffDeliveryIsWrittenOnce(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	accepted := l.accepted()
	due, events := l.read(nil, accepted)
	if len(due.Deliveries) != 1 || !due.Next.IsZero() || l.rows() != 0 {
		t.Fatalf("the lane reads %d deliveries, next %v, %d rows; want one, and no row", len(due.Deliveries), due.Next, l.rows())
	}
	if len(events) != 1 || events[0].ID != accepted.EventID || !bytes.Equal(events[0].Payload, []byte(`{"n":1}`)) || events[0].Type != "order.paid" {
		t.Errorf("events %+v, want that of the delivery with its payload", events)
	}
	if again, _ := l.read([]hook.ID{accepted.ID}, accepted); len(again.Deliveries) != 0 || !again.Next.IsZero() {
		t.Errorf("a lane that holds the delivery reads %+v, want nothing", again)
	}
	if got := l.settle(due.Deliveries[0]); got != store.SettleWritten || l.rows() != 1 {
		t.Errorf("outcome %v, %d rows; want written, 1", got, l.rows())
	}
	const inRow = "SELECT count(*) FROM deliveries WHERE state = 1 AND attempts = 1 AND first_attempt IS NOT NULL"
	if n := value[int](t, l.dsn, inRow); n != 1 {
		t.Errorf("%d rows that came with their result, want 1", n)
	}
	l.later(time.Now(), time.Second)
	if n := value[int](t, l.dsn, "SELECT sum(pending)::int FROM tenant_usage"); n != 0 || l.rows() != 1 {
		t.Errorf("%d pending by the counters, %d rows; want none, 1", n, l.rows())
	}
	if again, _ := l.read(nil, accepted); !looksForRows(again) {
		t.Errorf("heard of again when it is settled: %+v, want to look for rows", again)
	}
}

// TestAnnouncedDeliveryIsTheStoredOne compares what a lane is given of a delivery
// without row with what it reads from the row.
func TestAnnouncedDeliveryIsTheStoredOne(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	d := l.accepted()
	heard, _ := l.read(nil, d)
	l.front.delivery(d.ID) // whoever looks has the row written
	stored, err := l.owner.db.ReadAhead(t.Context(), l.endpoint.ID, time.Now(), 10)
	l.owner.check(err, "ReadAhead")
	if diff := cmp.Diff(stored, heard.Deliveries); diff != "" {
		t.Errorf("row (-), heard of (+):\n%s", diff)
	}
}

// TestHandedOffDeliveryThatNobodySends: if the owner has not heard, or cannot send,
// the row comes soon, even from a node that commits nothing, and the owner is told.
func TestHandedOffDeliveryThatNobodySends(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	begin := time.Now()
	l.accepted()
	l.later(begin, 200*time.Millisecond)
	if l.rows() != 0 {
		t.Errorf("%d rows at once, want none", l.rows())
	}
	heard := l.hints()
	l.later(time.Now(), 300*time.Millisecond)
	if l.rows() != 1 {
		t.Errorf("%d rows, want 1", l.rows())
	}
	l.wantHint(heard)
	l.later(time.Now(), time.Second)
	if len(heard) != 0 {
		t.Errorf("the owner hears %+v, too", <-heard)
	}
}

// TestRowBySomebodyElse: whoever writes a row that was left out tells the owner of
// its lane, because the node that left it out sees that it is there. The owner may
// be the one who writes.
func TestRowBySomebodyElse(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(l *handingOff, d hook.Delivery) error{
		"front looks": func(l *handingOff, d hook.Delivery) error {
			_, err := l.front.db.DeliveryByID(t.Context(), 0, d.ID)
			return err
		},
		"owner looks": func(l *handingOff, d hook.Delivery) error {
			_, err := l.owner.db.DeliveryByID(t.Context(), 0, d.ID)
			return err
		},
		"a node starts": func(l *handingOff, _ hook.Delivery) error {
			_, err := open(l.t, l.dsn).MaxID(t.Context())
			return err
		},
		"owner takes over": func(l *handingOff, _ hook.Delivery) error {
			exec(l.t, l.dsn, "UPDATE shards SET expires_at = now() - interval '1 s' WHERE owner_id = $1", int64(l.front.me.ID))
			l.owner.own(false)
			return nil
		},
		"another takes over": func(l *handingOff, _ hook.Delivery) error {
			exec(l.t, l.dsn, "UPDATE shards SET expires_at = now() - interval '1 s' WHERE owner_id = $1", int64(l.front.me.ID))
			join(l.t, l.dsn, "third").take(false, hook.ShardOf(l.another().ID))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := handOff(t)
			d := l.accepted()
			heard := l.hints()
			l.owner.check(write(l, d), name)
			if l.rows() != 1 {
				t.Errorf("%d rows, want 1", l.rows())
			}
			l.wantHint(heard)
		})
	}
}

// stick writes the row of a delivery and comes to no end with it until it is
// released.
func (l *handingOff) stick(d hook.Delivery) (release func()) {
	l.t.Helper()
	tx, err := connect(l.t, l.dsn).Begin(l.t.Context())
	l.owner.check(err, "Begin")
	_, err = tx.Exec(l.t.Context(), `INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, due_at, run_due_at, size) VALUES ($1, $2, $3, $4, now(), now(), 1)`,
		int64(d.ID), int64(d.TenantID), int64(d.EventID), int64(d.EndpointID))
	l.owner.check(err, "insert")
	return func() { l.owner.check(tx.Rollback(l.t.Context()), "Rollback") }
}

// TestStuckOwnerHoldsNoOtherNodeUp: a node that stands still while it writes the row
// of a delivery that was handed off keeps no other from committing.
func TestStuckOwnerHoldsNoOtherNodeUp(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	d := l.accepted()
	release := l.stick(d)
	begin := time.Now()
	l.later(begin, time.Second)
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("waited for %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a := l.front.accept(l.tenant.ID, l.front.configRev(l.tenant.ID), l.endpoint.ID)
	b := &store.Batch{Node: l.front.me.ID, Now: time.Now().Add(time.Minute), Accepts: []*store.Accept{a}}
	if err := l.front.db.Commit(ctx, b); err != nil || a.Outcome != store.AcceptStored {
		t.Errorf("commit meanwhile: %v, outcome %d", err, a.Outcome)
	}
	release()
	l.later(time.Now(), time.Second)
	if got := value[int](t, l.dsn, "SELECT count(*) FROM deliveries WHERE id = $1", int64(d.ID)); got != 1 {
		t.Errorf("%d rows in the end, want 1", got)
	}
}

// TestStuckRowKeepsNoOtherWaiting: rows that nobody is writing come, whatever else is
// stuck.
func TestStuckRowKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	stuck := l.accepted()
	for range 6 {
		l.accepted()
	}
	release := l.stick(stuck)
	l.later(time.Now(), time.Second)
	if l.rows() != 6 {
		t.Errorf("%d rows beside one that is stuck, want 6", l.rows())
	}
	release()
	l.later(time.Now(), time.Second)
	if l.rows() != 7 {
		t.Errorf("%d rows in the end, want 7", l.rows())
	}
}

// TestClockBehindTheNodeThatHandsOff: a delivery that was due where it was accepted is due.
func TestClockBehindTheNodeThatHandsOff(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	d := l.accepted()
	now := d.DueAt.Add(-time.Second)
	w := store.Wanted{Now: now, Limit: 10, Announced: []store.Announced{{Endpoint: d.EndpointID, Event: d.EventID, Delivery: d.ID}}}
	due, _, err := l.owner.db.ReadDue(t.Context(), w)
	l.owner.check(err, "ReadDue")
	if got := due[l.endpoint.ID].Deliveries; len(got) != 1 || got[0].DueAt.After(now) {
		t.Errorf("read %+v by a clock that is a second behind, want one that is due", got)
	}
}

// TestLostShardIsNoAnchor: a shard of which the node learns by a result that it is
// lost no longer keeps its floor from moving.
func TestLostShardIsNoAnchor(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	e := l.another()
	d := l.front.accepted(l.tenant, e)
	shard := hook.ShardOf(e.ID)
	exec(t, l.dsn, "UPDATE shards SET owner_id = 1, epoch = epoch + 1 WHERE owner_id = $1 AND shard <= $2", int64(l.front.me.ID), shard)
	s := l.front.success(d)
	l.front.commit(&store.Batch{Settles: []*store.Settle{s}})
	if s.Outcome != store.SettleFenced {
		t.Fatalf("outcome %v, want fenced", s.Outcome)
	}
	for lost := range shard { // the others it hears of in the same way
		if epoch, held := l.front.epochs[lost]; held {
			l.front.commit(&store.Batch{Lanes: []*store.LaneSave{{Endpoint: e.ID, Tenant: l.tenant.ID, Shard: lost, Epoch: epoch}}})
		}
	}
	before := l.front.floor(l.dsn)
	l.later(time.Now(), time.Minute)
	if shard < hook.Shards-1 && l.front.floor(l.dsn) <= before {
		t.Error("floor does not move any more")
	}
}

func (n *node) floor(dsn string) hook.ID {
	n.t.Helper()
	return hook.ID(value[int64](n.t, dsn, "SELECT since FROM unwritten WHERE node_id = $1", int64(n.me.ID)))
}

// TestFloorWaitsForHandedOffDelivery: events are looked at until the deliveries that
// others send have their rows, and no longer.
func TestFloorWaitsForHandedOffDelivery(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	own := l.another()
	d := l.accepted()
	due, _ := l.read(nil, d)
	others := func() { // some traffic
		l.front.commit(&store.Batch{Settles: []*store.Settle{l.front.success(l.front.accepted(l.tenant, own))}})
	}
	for begin := time.Now(); time.Since(begin) < 300*time.Millisecond; time.Sleep(20 * time.Millisecond) {
		others()
	}
	if got := l.front.floor(l.dsn); got > d.EventID {
		t.Errorf("floor %d is past the event %d, whose delivery has no row", got, d.EventID)
	}
	l.settle(due.Deliveries[0])
	l.later(time.Now(), time.Second)
	eventually(t, "floor moves on", func() bool { others(); return l.front.floor(l.dsn) > d.EventID })
}

// TestFloorOfIdleNodeMoves: a node that accepts nothing, or does nothing at all,
// does not make others look at everything that they have accepted since.
func TestFloorOfIdleNodeMoves(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	now := time.Now()
	before := l.owner.floor(l.dsn)
	l.owner.check(l.owner.db.InsertDeferred(t.Context(), now.Add(time.Minute)), "InsertDeferred")
	if got, want := l.owner.floor(l.dsn), hook.IDFloor(now.Add(50*time.Second)); got <= want {
		t.Errorf("floor of an idle node %d, was %d; want more than %d", got, before, want)
	}

	d := l.front.accepted(l.tenant, l.another())
	l.front.check(l.front.db.InsertDeferred(t.Context(), time.Now()), "InsertDeferred")
	if got := l.front.floor(l.dsn); got > d.EventID {
		t.Errorf("floor %d is past the event %d of a delivery on its way", got, d.EventID)
	}
	s := l.front.success(d)
	l.front.commit(&store.Batch{Settles: []*store.Settle{s}})
	b := &store.Batch{Node: l.front.me.ID, Now: time.Now().Add(time.Minute), Lanes: []*store.LaneSave{{
		Endpoint: d.EndpointID, Tenant: d.TenantID, Shard: s.Shard, Epoch: s.Epoch,
	}}}
	l.front.check(l.front.db.Commit(t.Context(), b), "Commit")
	if got, want := l.front.floor(l.dsn), hook.IDFloor(now.Add(50*time.Second)); got <= want {
		t.Errorf("floor of a node that accepts nothing %d, want more than %d", got, want)
	}
	late := l.accepted() // its id is below the floor
	if got := value[int](t, l.dsn, "SELECT count(*) FROM deliveries WHERE id = $1", int64(late.ID)); got != 1 {
		t.Errorf("%d rows of an event below the floor, want 1 at once", got)
	}
}

// TestOldProcessMovesNoFloor: a process whose node has started anew does not know
// what the new one has left out.
func TestOldProcessMovesNoFloor(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	old := join(t, dsn, "n")
	old.own(false)
	ten := old.tenant()
	e := old.endpoint(ten)
	again := join(t, dsn, "n")
	again.own(true)
	again.accepted(ten, e)
	before := again.floor(dsn)
	old.check(old.db.InsertDeferred(t.Context(), time.Now().Add(time.Minute)), "InsertDeferred")
	b := &store.Batch{Node: old.me.ID, Now: time.Now().Add(time.Minute), Accepts: []*store.Accept{old.accept(ten.ID, old.configRev(ten.ID), e.ID)}}
	old.check(old.db.Commit(t.Context(), b), "Commit")
	if got := again.floor(dsn); got != before {
		t.Errorf("floor %d, was %d", got, before)
	}
}

// TestAcceptWithoutShardHasItsRowAtOnce: nobody would look for what a node has
// left out that owns no shard, whether it knows that or not.
func TestAcceptWithoutShardHasItsRowAtOnce(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	exec(t, l.dsn, "UPDATE shards SET owner_id = $1, epoch = epoch + 1 WHERE owner_id = $2", int64(l.owner.me.ID), int64(l.front.me.ID))
	l.accepted()
	if l.rows() != 1 {
		t.Errorf("%d rows while the node thinks that it owns shards, want 1", l.rows())
	}
	l.front.check(l.front.db.ReleaseShards(t.Context(), l.front.me.ID, heldBy(l.front)), "ReleaseShards")
	d := l.accepted()
	if l.rows() != 2 {
		t.Errorf("%d rows when it knows, want 2", l.rows())
	}
	if due, _ := l.read(nil, d); !looksForRows(due) {
		t.Errorf("the lane reads %+v, want to look for rows", due)
	}
}

func heldBy(n *node) (held []store.Held) {
	for shard, epoch := range n.epochs {
		held = append(held, store.Held{Shard: shard, Epoch: epoch})
	}
	return held
}

// TestCancelledHandedOffDeliveryIsNotSent: a lane that hears late does not send what
// was cancelled meanwhile, and a result that comes late changes no end.
func TestCancelledHandedOffDeliveryIsNotSent(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	early, late := l.accepted(), l.accepted()
	due, _ := l.read(nil, early)
	for _, d := range []hook.Delivery{early, late} {
		_, err := l.front.db.CancelDelivery(t.Context(), d.TenantID, d.ID, time.Now(), l.front.audit())
		l.front.check(err, "CancelDelivery")
	}
	if got, _ := l.read(nil, late); !looksForRows(got) {
		t.Errorf("the lane reads %+v of a cancelled delivery", got)
	}
	if got := l.settle(due.Deliveries[0]); got != store.SettleWritten {
		t.Errorf("outcome %v of the one that was sent, want written", got)
	}
	for _, d := range []hook.Delivery{early, late} {
		if got := l.front.delivery(d.ID); got.State != hook.Cancelled {
			t.Errorf("state %v, want cancelled", got.State)
		}
	}
}

// TestFencedHandedOffResult: a node that has lost the lane of a delivery it heard of
// writes no result, and the new owner finds the delivery.
func TestFencedHandedOffResult(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	d := l.accepted()
	due, _ := l.read(nil, d)
	shard := hook.ShardOf(l.endpoint.ID)
	exec(t, l.dsn, "UPDATE shards SET expires_at = now() - interval '1 s' WHERE shard = $1", shard)
	if n := l.front.take(false, shard); n != 1 {
		t.Fatalf("%d shards taken, want 1", n)
	}
	if got := l.settle(due.Deliveries[0]); got != store.SettleFenced {
		t.Errorf("outcome %v, want fenced", got)
	}
	found, err := l.front.db.ReadAhead(t.Context(), l.endpoint.ID, time.Now(), 10)
	if err != nil || len(found) != 1 || found[0].ID != d.ID || found[0].Attempts != 0 {
		t.Errorf("the new owner reads %+v, %v; want the delivery as it was", found, err)
	}
}

// TestLaneThatWasHandedOffToIsOwnNow: a node may get the lane of a delivery just while it
// accepts it for another one, and send it itself.
func TestLaneThatWasHandedOffToIsOwnNow(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	d := l.accepted()
	shard := hook.ShardOf(l.endpoint.ID)
	l.front.epochs[shard] = value[int64](t, l.dsn, "UPDATE shards SET owner_id = $1, epoch = epoch + 1 WHERE shard = $2 RETURNING epoch", int64(l.front.me.ID), shard)
	s := l.front.success(d)
	l.front.commit(&store.Batch{Settles: []*store.Settle{s}})
	if s.Outcome != store.SettleWritten || l.rows() != 1 {
		t.Errorf("outcome %v, %d rows; want written, 1", s.Outcome, l.rows())
	}
}

// TestLargePayloadsStayUntilWanted: what comes along with a read is bounded.
func TestLargePayloadsStayUntilWanted(t *testing.T) {
	t.Parallel()
	l := handOff(t)
	large := l.front.accept(l.tenant.ID, l.front.configRev(l.tenant.ID), l.endpoint.ID)
	large.Event.Payload = bytes.Repeat([]byte("x"), 600<<10)
	empty := l.front.accept(l.tenant.ID, l.front.configRev(l.tenant.ID), l.endpoint.ID)
	empty.Event.Payload = []byte{}
	l.front.commit(&store.Batch{Accepts: []*store.Accept{large, empty}})
	due, events := l.read(nil, large.Deliveries[0], empty.Deliveries[0])
	if len(due.Deliveries) != 2 || len(events) != 1 || events[0].ID != empty.Event.ID {
		t.Errorf("%d deliveries, %d events; want both deliveries and the event without payload", len(due.Deliveries), len(events))
	}
}
