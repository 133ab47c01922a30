package storetest

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Figures are stored with what they count. Beside the tests below every test of
// the suite ends with balanced.
var statsTests = []test{
	{"accepts, attempts and ends are counted at all levels", statsCounted},
	{"repetitions, stale events and late results are not counted", statsRefused},
	{"a commit that runs again is counted once", statsRerun},
	{"a commit that failed is not counted", statsFailed},
	{"what a person ends or sends again is counted", statsByHand},
	{"a send by hand in vain is no second end", statsInVain},
	{"an end that a manual request postpones is counted once", statsPostponed},
	{"a batch can go uncounted", statsUncounted},
	{"several who add up count everything once", statsFolders},
	{"adding up takes as much as it was told to", statsFoldBound},
	{"endpoints with trouble are found", statsTroubled},
	{"the greatest and the least of what was there are kept", statsGauges},
	{"what waits is added up over tenants, nodes and time", statsQueues},
	{"minutes become hours and days, and nothing is lost", statsRollUp},
	{"old figures are removed, young ones stay", statsDrop},
}

var (
	endpointStats = func(e hook.ID) stats.Subject { return stats.Subject{Level: stats.OfEndpoint, ID: e} }
	tenantStats   = func(t hook.ID) stats.Subject { return stats.Subject{Level: stats.OfTenant, ID: t} }
	systemStats   = stats.Subject{Level: stats.OfSystem}
)

// fold adds up all logs.
func (w *world) fold() {
	w.t.Helper()
	for {
		n, err := w.db.FoldStats(w.ctx(), 200)
		w.check(err, "FoldStats")
		if n == 0 {
			return
		}
	}
}

// total adds up the figures of a subject.
func (w *world) total(s stats.Subject) stats.Counts {
	w.t.Helper()
	w.fold()
	points, err := w.db.Stats(w.ctx(), s, start.Add(-48*time.Hour), w.now.Add(400*24*time.Hour))
	w.check(err, "Stats")
	return stats.Total(points)
}

// balanced checks that all that was accepted is delivered, dead, cancelled or
// pending.
func (w *world) balanced() {
	w.t.Helper()
	if w.t.Failed() {
		return
	}
	for _, id := range w.tenants {
		c := w.total(tenantStats(id))
		in, out := c.Get(stats.Accepted)+c.Get(stats.Reopened), c.AllDelivered()+c.AllDead()+c.Get(stats.Cancelled)+c.Get(stats.Restored)
		if pending := w.usage(id).Pending; in-out != uint64(pending) {
			w.t.Errorf("tenant %d: %d accepted and reopened, %d delivered, %d dead, %d cancelled, %d restored and %d pending",
				id, in, c.AllDelivered(), c.AllDead(), c.Get(stats.Cancelled), c.Get(stats.Restored), pending)
		}
	}
}

// wantStats compares some figures of a subject.
func (w *world) wantStats(s stats.Subject, want map[stats.Counter]uint64, when string) {
	w.t.Helper()
	got, c := make(map[stats.Counter]uint64), w.total(s)
	for counter := range want {
		got[counter] = c.Get(counter)
	}
	w.same(got, want, when)
}

func statsCounted(w *world) {
	ten := w.tenant()
	one, other := w.endpoint(ten), w.endpoint(ten)
	a := w.stored(ten, one, other)
	b := w.stored(ten, one)
	w.pass(2 * time.Second)
	again := w.retry(a.Deliveries[0], time.Minute)
	w.written(w.success(b.Deliveries[0]), again, w.dead(a.Deliveries[1]))
	w.pass(time.Minute)
	second := w.success(again.Delivery)
	second.Attempt.Kind = hook.Retry
	w.written(second)
	of := map[stats.Counter]uint64{
		stats.Events: 0, stats.Accepted: 2, stats.Attempts(hook.First): 2, stats.Attempts(hook.Retry): 1, stats.FailedFirst: 1,
		stats.Failed(hook.ServerError): 1, stats.SecondTries: 1, stats.Delivered(1): 1, stats.Delivered(2): 1, stats.TriesOfDelivered: 3,
		stats.DeliveryTook(2 * time.Second): 1, stats.DeliveryTook(62 * time.Second): 1, stats.AttemptTook(12345 * time.Microsecond): 3,
	}
	w.wantStats(endpointStats(one.ID), of, "one endpoint")
	w.wantStats(endpointStats(other.ID), map[stats.Counter]uint64{
		stats.Accepted: 1, stats.Attempts(hook.First): 1, stats.Failed(hook.ClientError): 1, stats.Dead(hook.DeadPermanent): 1, stats.Delivered(1): 0,
	}, "the other endpoint")
	for name, s := range map[string]stats.Subject{"tenant": tenantStats(ten.ID), "system": systemStats} {
		w.wantStats(s, map[stats.Counter]uint64{
			stats.Events: 2, stats.Accepted: 3, stats.Attempts(hook.First): 3, stats.Attempts(hook.Retry): 1, stats.FailedFirst: 2,
			stats.Dead(hook.DeadPermanent): 1, stats.Delivered(1): 1, stats.Delivered(2): 1,
		}, name)
	}
	points, err := w.db.Stats(w.ctx(), endpointStats(one.ID), start, w.now.Add(time.Minute))
	w.check(err, "Stats")
	if len(points) != 2 || !points[0].At.Equal(start.Truncate(time.Minute)) || !points[1].At.Equal(w.now.Truncate(time.Minute)) {
		w.t.Errorf("pieces %v, want those of two minutes", points)
	}
	points, err = w.db.Stats(w.ctx(), endpointStats(one.ID), start.Add(-time.Hour), start.Truncate(time.Minute))
	w.check(err, "Stats")
	if len(points) != 0 {
		w.t.Errorf("pieces %v of the hour before, want none", points)
	}
}

func statsRefused(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	first, same, other := w.keyed(ten, "k", 1, e), w.keyed(ten, "k", 1, e), w.keyed(ten, "k", 2, e)
	stale := w.accept(ten, e)
	stale.ConfigRev++
	w.commit(&store.Batch{Accepts: []*store.Accept{first, same, other, stale}})
	w.commit(&store.Batch{Accepts: []*store.Accept{w.keyed(ten, "k", 1, e)}})
	w.wantStats(systemStats, map[stats.Counter]uint64{stats.Events: 1, stats.Accepted: 1}, "of five publishers")

	d := w.delivery(first.Deliveries[0].ID)
	_, err := w.db.CancelDelivery(w.ctx(), ten.ID, d.ID, w.now, w.audit(ten.ID, "delivery.cancel"))
	w.check(err, "CancelDelivery")
	late := w.success(d)
	w.written(late)
	w.wantStats(systemStats, map[stats.Counter]uint64{stats.Cancelled: 1, stats.Delivered(1): 0, stats.Attempts(hook.First): 1},
		"a result for what was cancelled")

	fenced := w.success(w.one(ten))
	fenced.Epoch++
	w.commit(&store.Batch{Settles: []*store.Settle{fenced, w.success(d)}})
	w.wantStats(systemStats, map[stats.Counter]uint64{stats.Delivered(1): 0, stats.Attempts(hook.First): 1}, "results that were not written")
}

func statsRerun(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	d := w.delivery(w.stored(ten, e).Deliveries[0].ID)
	b := &store.Batch{
		Node: w.node.ID, Now: w.now,
		Accepts: []*store.Accept{w.accept(ten, e), w.keyed(ten, "k", 1, e), w.keyed(ten, "k", 1, e)},
		Settles: []*store.Settle{w.success(d)},
	}
	w.check(w.db.Commit(w.ctx(), b), "Commit") // and nobody hears of it
	w.again(b)
	w.again(b)
	want := map[stats.Counter]uint64{stats.Events: 3, stats.Accepted: 3, stats.Delivered(1): 1, stats.Attempts(hook.First): 1}
	w.wantStats(systemStats, want, "after three runs")
	w.stored(ten, e)
	want[stats.Events], want[stats.Accepted] = 4, 4
	w.wantStats(systemStats, want, "with what came later")
}

func statsFailed(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	bad := w.accept(ten, e)
	bad.Event.ID = w.stored(ten, e).Event.ID // is taken
	bad.Deliveries[0].EventID = bad.Event.ID
	if err := w.tryCommit(&store.Batch{Accepts: []*store.Accept{w.accept(ten, e), bad}}); err == nil {
		w.t.Fatal("an event whose id is taken was stored")
	}
	w.wantStats(systemStats, map[stats.Counter]uint64{stats.Events: 1, stats.Accepted: 1}, "after a commit that failed")
	w.stored(ten, e)
	w.wantStats(systemStats, map[stats.Counter]uint64{stats.Events: 2, stats.Accepted: 2}, "after one that did not")
}

func statsByHand(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	all := w.deadLetters(ten, e, 3)
	w.pass(time.Hour)
	row, err := w.db.RetryDelivery(w.ctx(), ten.ID, all[0].ID, w.now, w.audit(ten.ID, "delivery.retry"))
	w.check(err, "RetryDelivery")
	w.written(w.success(row.Delivery))
	j := w.running(ten, hook.ReplayFilter{States: []hook.DeliveryState{hook.Dead}, Endpoint: e.ID})
	w.feed(j.ID, 1)
	w.feed(j.ID, 10)
	pending := w.one(ten)
	_, err = w.db.CancelDelivery(w.ctx(), ten.ID, pending.ID, w.now, w.audit(ten.ID, "delivery.cancel"))
	w.check(err, "CancelDelivery")
	want := map[stats.Counter]uint64{stats.Accepted: 4, stats.Dead(hook.DeadPermanent): 3, stats.Reopened: 3, stats.Cancelled: 1}
	w.wantStats(tenantStats(ten.ID), want, "after a send by hand, a replay and a cancel")
	_, err = w.db.DeleteEndpoint(w.ctx(), ten.ID, e.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	want[stats.Cancelled] = 3
	w.wantStats(tenantStats(ten.ID), want, "after the end of the endpoint")
	w.wantStats(systemStats, want, "of all")
}

// statsInVain sends a dead, a delivered and a cancelled delivery by hand, twice each,
// and all fail.
func statsInVain(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	gone, well, ended := w.deadLetters(ten, e, 1)[0], w.delivery(w.stored(ten, e).Deliveries[0].ID), w.stored(ten, e).Deliveries[0]
	w.written(w.success(well))
	_, err := w.db.CancelDelivery(w.ctx(), ten.ID, ended.ID, w.now, w.audit(ten.ID, "delivery.cancel"))
	w.check(err, "CancelDelivery")
	before := w.total(tenantStats(ten.ID))
	for range 2 {
		for _, id := range []hook.ID{gone.ID, well.ID, ended.ID} {
			w.pass(time.Second)
			row, err := w.db.RetryDelivery(w.ctx(), ten.ID, id, w.now, w.audit(ten.ID, "delivery.retry"))
			w.check(err, "RetryDelivery")
			w.balanced()
			w.written(w.failedManual(row.Delivery))
			w.balanced()
		}
	}
	w.wantStats(tenantStats(ten.ID), map[stats.Counter]uint64{
		stats.Accepted: before.Get(stats.Accepted), stats.Dead(hook.DeadPermanent): before.Get(stats.Dead(hook.DeadPermanent)),
		stats.Delivered(1): before.Get(stats.Delivered(1)), stats.Delivered(2): 0, stats.Cancelled: 1, stats.Reopened: 6, stats.Restored: 6,
		stats.Attempts(hook.Manual): 6,
	}, "after six sends by hand")
}

// statsPostponed lets a delivery die while somebody asks for it by hand, in vain.
func statsPostponed(w *world) {
	ten := w.tenant()
	s := w.dead(w.one(ten))
	w.pass(time.Second)
	w.manual(s.Delivery)
	w.written(s)
	w.balanced()
	want := map[stats.Counter]uint64{stats.Accepted: 1, stats.Dead(hook.DeadPermanent): 1, stats.Reopened: 1, stats.Restored: 0}
	w.wantStats(tenantStats(ten.ID), want, "while it waits")
	w.pass(time.Second)
	w.written(w.failedManual(w.delivery(s.Delivery.ID)))
	want[stats.Restored] = 1
	w.wantStats(tenantStats(ten.ID), want, "after the send by hand")
}

func statsUncounted(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	a := w.accept(ten, e)
	w.commit(&store.Batch{Accepts: []*store.Accept{a}, Uncounted: true})
	w.commit(&store.Batch{Settles: []*store.Settle{w.success(a.Deliveries[0])}, Uncounted: true})
	w.wantStats(systemStats, map[stats.Counter]uint64{stats.Events: 0, stats.Accepted: 0, stats.Delivered(1): 0}, "uncounted")
}

// statsFolders adds up while commits go on, from several sides.
func statsFolders(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	const commits = 40
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				if _, err := w.db.FoldStats(w.ctx(), 100); err != nil {
					w.t.Errorf("FoldStats: %v", err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range commits {
		w.written(w.success(w.delivery(w.stored(ten, e).Deliveries[0].ID)))
	}
	close(done)
	wg.Wait()
	want := map[stats.Counter]uint64{stats.Accepted: commits, stats.Delivered(1): commits, stats.Attempts(hook.First): commits}
	for _, s := range []stats.Subject{endpointStats(e.ID), tenantStats(ten.ID), systemStats} {
		w.wantStats(s, want, "after all")
	}
}

// statsFoldBound adds up long logs one at a time, and finds all of them.
func statsFoldBound(w *world) {
	ten := w.tenant()
	const logs, events, limit = 5, 40, 200
	endpoints := make([]hook.Endpoint, events)
	for i := range endpoints {
		endpoints[i] = w.endpoint(ten)
	}
	w.fold()
	for range logs {
		b := &store.Batch{}
		for _, e := range endpoints {
			b.Accepts = append(b.Accepts, w.accept(ten, e))
		}
		w.commit(b)
	}
	for i := range logs {
		n, err := w.db.FoldStats(w.ctx(), limit)
		w.check(err, "FoldStats")
		if n < limit {
			w.t.Errorf("step %d took %d: there is more", i+1, n)
		}
		points, err := w.db.Stats(w.ctx(), systemStats, start, w.now.Add(time.Minute))
		w.check(err, "Stats")
		total := stats.Total(points)
		if got := total.Get(stats.Accepted); got != uint64(events*(i+1)) {
			w.t.Errorf("after step %d %d are counted, want %d", i+1, got, events*(i+1))
		}
	}
	if n, err := w.db.FoldStats(w.ctx(), limit); n != 0 || err != nil {
		w.t.Errorf("then %d, %v; want nothing", n, err)
	}
}

func statsGauges(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	a, b := w.stored(ten, e), w.stored(ten, e, w.endpoint(ten))
	w.fold()
	first, second := w.success(a.Deliveries[0]), w.retry(b.Deliveries[0], time.Minute)
	for i, s := range []*store.Settle{first, second} {
		s.Attempt.Detail.LaneState = []string{"half_open", "closed"}[i]
		s.Attempt.Detail.LaneLimit = []float64{4.9, 20}[i]
		s.Attempt.Detail.LaneInFlight = []int{1, 0}[i]
	}
	w.written(first)
	w.written(second)
	got := w.total(endpointStats(e.ID))
	for g, want := range map[stats.Counter]uint64{stats.Limit: 20, stats.LimitLow: 4, stats.InFlight: 1, stats.Breaker: 1} {
		if v, told := got.Gauge(g); !told || v != want {
			w.t.Errorf("gauge %d is %d (told: %v), want %d", g, v, told, want)
		}
	}
	quiet := w.endpoint(ten)
	w.check(w.db.TellQueues(w.ctx(), store.QueueCount{Now: w.now, Since: w.now, Queues: []store.Queue{
		{EndpointID: e.ID, TenantID: ten.ID, Ready: 1, Delayed: 2, Retrying: 3, Held: 4, RetryingSince: w.now.Add(-time.Minute)},
		{EndpointID: quiet.ID, TenantID: ten.ID, Ready: 5, ReadySince: w.now.Add(-time.Second)},
	}}), "TellQueues")
	got = w.total(endpointStats(e.ID))
	none := w.total(endpointStats(quiet.ID))
	for g, want := range map[stats.Counter]uint64{
		stats.Limit: 20, stats.Ready: 1, stats.Delayed: 2, stats.Retrying: 3, stats.Held: 4, stats.Oldest: 60,
	} {
		if v, told := got.Gauge(g); !told || v != want {
			w.t.Errorf("gauge %d is %d (told: %v), want %d", g, v, told, want)
		}
	}
	if !none.Empty() {
		w.t.Errorf("figures %v of an endpoint that nothing waits for", none)
	}
	for name, s := range map[string]stats.Subject{"tenant": tenantStats(ten.ID), "system": systemStats} {
		c := w.total(s)
		if v, told := c.Gauge(stats.Pending); !told || v != 3 {
			w.t.Errorf("%d pending of the %s (told: %v), want 3", v, name, told)
		}
	}
}

// statsQueues counts from two nodes, one of which also says how long it looked.
func statsQueues(w *world) {
	ten, other := w.tenant(), w.tenant()
	since := w.now
	w.pass(90 * time.Second)
	w.check(w.db.TellQueues(w.ctx(), store.QueueCount{Now: w.now, Since: since, Queues: []store.Queue{
		{EndpointID: w.endpoint(ten).ID, TenantID: ten.ID, Ready: 1, Retrying: 3}, {EndpointID: w.endpoint(ten).ID, TenantID: ten.ID, Ready: 1, Held: 10},
	}}), "TellQueues")
	w.check(w.db.TellQueues(w.ctx(), store.QueueCount{Now: w.now, Since: since, Looked: true, Queues: []store.Queue{
		{EndpointID: w.endpoint(other).ID, TenantID: other.ID, Delayed: 2, Held: 5},
	}}), "TellQueues")
	w.wantStats(tenantStats(ten.ID), map[stats.Counter]uint64{
		stats.ReadySeconds: 180, stats.DelayedSeconds: 0, stats.RetryingSeconds: 270, stats.HeldSeconds: 900, stats.LookedSeconds: 0,
	}, "a tenant")
	w.wantStats(systemStats, map[stats.Counter]uint64{
		stats.ReadySeconds: 180, stats.DelayedSeconds: 180, stats.RetryingSeconds: 270, stats.HeldSeconds: 1350, stats.LookedSeconds: 90,
	}, "all")
	points, err := w.db.Stats(w.ctx(), systemStats, since, w.now.Add(time.Minute))
	w.check(err, "Stats")
	for _, p := range points {
		if n := p.Counts.Get(stats.LookedSeconds); n > 60 {
			w.t.Errorf("%d seconds in the minute of %v", n, p.At)
		}
	}
}

func statsTroubled(w *world) {
	ten, quiet := w.tenant(), w.tenant()
	well, failing, slow, gone := w.endpoint(ten), w.endpoint(ten), w.endpoint(ten), w.endpoint(ten)
	calm := w.endpoint(quiet)
	w.written(w.success(w.delivery(w.stored(quiet, calm).Deliveries[0].ID)), w.success(w.delivery(w.stored(ten, well).Deliveries[0].ID)))
	w.deadLetters(ten, gone, 1)
	_, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, gone.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	w.pass(time.Hour)
	a, b := w.delivery(w.stored(ten, failing).Deliveries[0].ID), w.delivery(w.stored(ten, slow).Deliveries[0].ID)
	since := w.now
	w.written(w.retry(a, time.Minute))
	w.pass(2 * time.Minute)
	w.written(w.success(b))
	w.fold()
	inOrder := func(a, b stats.Subject) int { return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.ID, b.ID)) }
	got, err := w.db.Troubled(w.ctx(), since)
	w.check(err, "Troubled")
	slices.SortFunc(got, inOrder)
	w.same(got, []stats.Subject{systemStats, tenantStats(ten.ID), endpointStats(failing.ID), endpointStats(slow.ID)}, "troubled")
	got, err = w.db.Troubled(w.ctx(), w.now)
	w.check(err, "Troubled")
	slices.SortFunc(got, inOrder)
	w.same(got, []stats.Subject{systemStats, tenantStats(ten.ID), endpointStats(slow.ID)}, "troubled in the last minute")
}

// rollUp makes coarser pieces until there is nothing more to do.
func (w *world) rollUp(from stats.Step, before time.Time, limit int) (rows int) {
	w.t.Helper()
	for range 1000 {
		n, err := w.db.RollUp(w.ctx(), from, before, limit)
		w.check(err, "RollUp")
		if rows += n; n < limit {
			return rows
		}
	}
	w.t.Fatal("rolling up does not end")
	return 0
}

func statsRollUp(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	for range 60 {
		w.written(w.success(w.delivery(w.stored(ten, e).Deliveries[0].ID)))
		w.pass(7 * time.Minute)
	}
	before := w.total(endpointStats(e.ID))
	now := w.now
	if n := w.rollUp(stats.Minutes, now.Add(-2*time.Hour), 7); n == 0 {
		w.t.Error("no minute became an hour")
	}
	points, err := w.db.Stats(w.ctx(), endpointStats(e.ID), start, now)
	w.check(err, "Stats")
	if len(points) >= 40 {
		w.t.Errorf("%d pieces are left of 60", len(points))
	}
	young, err := w.db.Stats(w.ctx(), endpointStats(e.ID), now.Add(-2*time.Hour), now)
	w.check(err, "Stats")
	if len(young) < 17 {
		w.t.Errorf("%d pieces of the last two hours, want minutes", len(young))
	}
	w.pass(72 * time.Hour)
	w.rollUp(stats.Minutes, w.now, 100)
	w.rollUp(stats.Hours, w.now.Add(-24*time.Hour), 100)
	points, err = w.db.Stats(w.ctx(), endpointStats(e.ID), start, w.now)
	w.check(err, "Stats")
	if len(points) > 2 {
		w.t.Errorf("%d pieces, want days", len(points))
	}
	after := w.total(endpointStats(e.ID))
	w.same(string(after.Append(nil)), string(before.Append(nil)), "figures")
}

func statsDrop(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	for range 4 {
		w.stored(ten, e)
		w.pass(time.Hour)
	}
	w.fold()
	dropped := 0
	for range 100 {
		n, err := w.db.DropStats(w.ctx(), stats.Minutes, start.Add(90*time.Minute), 2)
		w.check(err, "DropStats")
		if dropped += n; n == 0 {
			break
		}
	}
	if dropped != 2*3 { // of endpoint, tenant and system
		w.t.Errorf("removed %d rows, want 6", dropped)
	}
	w.wantStats(endpointStats(e.ID), map[stats.Counter]uint64{stats.Accepted: 2}, "what is left")
	w.tenants = nil // does not balance any more
}
