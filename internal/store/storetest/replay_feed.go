package storetest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var feedTests = []test{
	{"a fed delivery begins a new run", feedReopens},
	{"pages follow each other to the end", feedPages},
	{"a step that has looked enough goes on behind that", feedLooks},
	{"every field of the filter selects", feedFilter},
	{"what ends after the replay was created stays out", feedFrozen},
	{"named deliveries are fed, pending ones skipped", feedByID},
	{"deliveries without a destination are skipped", feedNowhere},
	{"what changed since the search is skipped", feedChanged},
	{"a page is fed once", feedOnce},
	{"two that feed at once share the work", feedRace},
	{"only a running replay is fed", feedOnlyRunning},
	{"deliveries are counted by endpoint", feedCounts},
}

// deadLetters stores n dead deliveries to e, one second apart.
func (w *world) deadLetters(ten hook.Tenant, e hook.Endpoint, n int) []hook.Delivery {
	w.t.Helper()
	out := make([]hook.Delivery, n)
	for i := range out {
		d := w.delivery(w.stored(ten, e).Deliveries[0].ID)
		w.written(w.dead(d))
		out[i] = w.delivery(d.ID)
		w.pass(time.Second)
	}
	return out
}

// feed takes the next step of a replay.
func (w *world) feed(id hook.ID, limit int) store.Fed {
	w.t.Helper()
	fed, err := w.db.FeedReplay(w.ctx(), store.Feed{Replay: w.job(id), Limit: limit, Now: w.now, PacedAt: w.now})
	w.check(err, "FeedReplay")
	return fed
}

// feedLooks has one delivery of the set behind many that are not.
func feedLooks(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	w.deadLetters(ten, e, 5)
	last := w.one(ten)
	w.written(w.success(last))
	w.pass(time.Hour)
	j := w.running(ten, hook.ReplayFilter{States: []hook.DeliveryState{hook.Delivered}})
	fed, steps := 0, 0
	for cursor := hook.ID(0); cursor != j.EndID && steps < 10; steps++ {
		step, err := w.db.FeedReplay(w.ctx(), store.Feed{Replay: w.job(j.ID), Limit: 3, Now: w.now, PacedAt: w.now, ScanLimit: 2})
		w.check(err, "FeedReplay")
		if step.Cursor <= cursor {
			w.t.Fatalf("step %d: cursor stays at %d", steps, cursor)
		}
		cursor = step.Cursor
		fed += step.Fed
	}
	w.same(steps, 3, "steps over six deliveries, two at a time")
	w.same(fed, 1, "fed")
	w.same(w.delivery(last.ID).State, hook.Pending, "state")
}

func feedReopens(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	s := w.retry(w.delivery(w.stored(ten, e).Deliveries[0].ID), time.Minute)
	p := &s.Delivery.Progress
	p.Throttles, p.PrevDelay, p.Limited = 3, time.Minute, hook.Tally{hook.TLSCertificate: 2}
	w.written(s)
	w.written(w.dead(w.delivery(s.Delivery.ID)))
	d := w.delivery(s.Delivery.ID)
	w.wantUsage(ten.ID, 0, 0, "of dead letters")
	w.pass(time.Hour)

	j := w.running(ten, hook.ReplayFilter{Endpoint: e.ID, States: onlyDead})
	paced := w.now.Add(-time.Second)
	fed, err := w.db.FeedReplay(w.ctx(), store.Feed{Replay: j, Limit: 10, Now: w.now, PacedAt: paced})
	w.check(err, "FeedReplay")
	w.same(fed, store.Fed{Fed: 1, Cursor: j.EndID, Endpoints: []hook.ID{e.ID}}, "fed")

	want := d
	want.State, want.DueAt, want.ReplayID, want.Reason, want.SettledAt = hook.Pending, w.now, j.ID, 0, time.Time{}
	want.Progress = hook.Progress{Run: 2, RunDueAt: w.now}
	w.same(w.delivery(d.ID), want, "delivery")
	w.wantUsage(ten.ID, 1, 7, "after feeding")
	due, err := w.db.ReadAhead(w.ctx(), e.ID, w.now, 5)
	w.check(err, "ReadAhead")
	w.same(due, []hook.Delivery{want}, "read ahead")

	got := w.job(j.ID)
	j.Cursor, j.Counts.Fed, j.PacedAt, j.UpdatedAt = j.EndID, 1, paced, w.now
	w.same(got, j, "replay")
	if !got.AllFed() {
		w.t.Error("the set was walked, but the replay does not say so")
	}

	// A delivered one keeps the time of its first delivery.
	w.written(w.success(w.delivery(d.ID)))
	first := w.now
	w.pass(time.Hour)
	again := w.running(ten, hook.ReplayFilter{Endpoint: e.ID, States: []hook.DeliveryState{hook.Delivered}})
	w.same(w.feed(again.ID, 5).Fed, 1, "fed again")
	if d := w.delivery(d.ID); !d.FirstDeliveredAt.Equal(first) || d.Progress.Run != 3 || d.Attempts != 3 {
		w.t.Errorf("first delivered %v, run %d, %d attempts; want %v, 3, 3", d.FirstDeliveredAt, d.Progress.Run, d.Attempts, first)
	}
}

func feedPages(w *world) {
	ten := w.tenant()
	e, other := w.endpoint(ten), w.endpoint(ten)
	var ids []hook.ID
	for range 5 {
		ids = append(ids, w.deadLetters(ten, e, 1)[0].ID)
		w.deadLetters(ten, other, 1)
	}
	j := w.running(ten, hook.ReplayFilter{Endpoint: e.ID, States: onlyDead})
	next, err := w.db.NextOfReplay(w.ctx(), &j, 9)
	w.check(err, "NextOfReplay")
	w.same(next, []hook.ID{e.ID}, "next endpoints")
	var fed []store.Fed
	for range 3 {
		fed = append(fed, w.feed(j.ID, 2))
	}
	at := []hook.ID{e.ID}
	w.same(fed, []store.Fed{
		{Fed: 2, Cursor: ids[1], Endpoints: at}, {Fed: 2, Cursor: ids[3], Endpoints: at}, {Fed: 1, Cursor: j.EndID, Endpoints: at},
	}, "pages")
	due, err := w.db.ReadAhead(w.ctx(), e.ID, w.now, 10)
	w.check(err, "ReadAhead")
	w.same(deliveryIDs(due), ids, "fed deliveries")
	w.same(w.job(j.ID).Counts, hook.ReplayCounts{Fed: 5}, "counts")
	w.same(w.feed(j.ID, 2), store.Fed{Cursor: j.EndID}, "beyond the end")

	whole := w.running(ten, hook.ReplayFilter{States: onlyDead})
	w.same(w.feed(whole.ID, 5), store.Fed{Fed: 5, Cursor: whole.EndID, Endpoints: []hook.ID{other.ID}}, "over all endpoints")
}

func feedFilter(w *world) {
	ten := w.tenant()
	a, b := w.endpoint(ten), w.endpoint(ten)
	begin := w.now
	var ids []hook.ID
	for _, typ := range []string{"order.paid", "order.made", "refund.made"} {
		acc := w.accept(ten, a, b)
		acc.Event.Type = typ
		w.store(acc)
		ids = append(ids, acc.Deliveries[0].ID, acc.Deliveries[1].ID)
		w.pass(time.Second)
	}
	w.written(w.success(w.delivery(ids[0])), w.dead(w.delivery(ids[1])), w.expired(w.delivery(ids[2])),
		w.dead(w.delivery(ids[4])), w.dead(w.delivery(ids[5])))
	_, err := w.db.CancelDelivery(w.ctx(), ten.ID, ids[3], w.now, w.audit(ten.ID, "delivery.cancel"))
	w.check(err, "CancelDelivery")
	w.pass(time.Second)

	for name, tc := range map[string]struct {
		filter hook.ReplayFilter
		want   []hook.ID
	}{
		"dead":      {hook.ReplayFilter{States: onlyDead}, []hook.ID{ids[1], ids[2], ids[4], ids[5]}},
		"all ended": {hook.ReplayFilter{States: endedStates}, ids},
		"cancelled": {hook.ReplayFilter{States: []hook.DeliveryState{hook.Cancelled}}, []hook.ID{ids[3]}},
		"endpoint":  {hook.ReplayFilter{Endpoint: a.ID, States: endedStates}, []hook.ID{ids[0], ids[2], ids[4]}},
		"reason":    {hook.ReplayFilter{States: onlyDead, Reasons: []hook.EndReason{hook.DeadExpired}}, []hook.ID{ids[2]}},
		"type":      {hook.ReplayFilter{States: endedStates, Types: []string{"order.*"}}, ids[:4]},
		"since":     {hook.ReplayFilter{States: endedStates, Since: begin.Add(time.Second)}, ids[2:]},
		"until":     {hook.ReplayFilter{States: endedStates, Until: begin.Add(time.Second)}, ids[:2]},
		"ids":       {hook.ReplayFilter{States: onlyDead, Deliveries: []hook.ID{ids[0], ids[1], ids[2]}}, ids[1:3]},
		"ids of an endpoint": {
			hook.ReplayFilter{Endpoint: b.ID, States: endedStates, Deliveries: ids}, []hook.ID{ids[1], ids[3], ids[5]},
		},
		"all at once": {hook.ReplayFilter{
			Endpoint: b.ID, States: onlyDead, Reasons: []hook.EndReason{hook.DeadPermanent}, Types: []string{"refund.made"},
			Since: begin.Add(2 * time.Second), Until: begin.Add(3 * time.Second),
		}, []hook.ID{ids[5]}},
		"nothing": {hook.ReplayFilter{States: onlyDead, Types: []string{"a"}}, nil},
	} {
		j := w.newReplay(ten, tc.filter)
		w.same(w.listed(store.MatchOf(&j), store.Page{Limit: 50, Asc: true}), tc.want, name)
	}
}

func feedFrozen(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	old := w.deadLetters(ten, e, 2)
	late := w.delivery(w.stored(ten, e).Deliveries[0].ID) // accepted before, dies after
	j := w.running(ten, hook.ReplayFilter{Endpoint: e.ID, States: endedStates})
	w.pass(time.Second)
	w.written(w.dead(late))
	w.deadLetters(ten, e, 1)
	w.same(w.feed(j.ID, 1).Fed, 1, "first page")
	w.written(w.dead(w.delivery(old[0].ID))) // dies again: it had its turn
	w.pass(time.Second)
	for range 2 {
		w.feed(j.ID, 10)
	}
	w.same(w.job(j.ID).Counts.Fed, int64(2), "fed")
}

func feedByID(w *world) {
	ten, other := w.tenant(), w.tenant()
	e := w.endpoint(ten)
	dead := w.deadLetters(ten, e, 1)[0]
	delivered, pending := w.delivery(w.stored(ten, e).Deliveries[0].ID), w.delivery(w.stored(ten, e).Deliveries[0].ID)
	w.written(w.success(delivered))
	foreign := w.deadLetters(other, w.endpoint(other), 1)[0]
	j := w.running(ten, hook.ReplayFilter{States: endedStates, Deliveries: []hook.ID{dead.ID, delivered.ID, pending.ID, foreign.ID, 7}})
	w.same(w.feed(j.ID, 10), store.Fed{Fed: 2, Skipped: 1, Cursor: j.EndID, Endpoints: []hook.ID{e.ID}}, "fed")
	w.same(w.delivery(pending.ID), pending, "pending delivery")
	w.same(w.delivery(foreign.ID), foreign, "another tenant's delivery")
	w.same(w.job(j.ID).Counts, hook.ReplayCounts{Fed: 2, Skipped: 1}, "counts")
	w.wantUsage(ten.ID, 3, 21, "after feeding")
}

func feedNowhere(w *world) {
	ten := w.tenant()
	gone, off, paused := w.endpoint(ten), w.endpoint(ten), w.endpoint(ten)
	var all []hook.Delivery
	for _, e := range []hook.Endpoint{gone, off, paused} {
		all = append(all, w.deadLetters(ten, e, 1)...)
	}
	_, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, gone.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	off.State, paused.State = hook.Disabled, hook.Paused
	for _, e := range []hook.Endpoint{off, paused} {
		_, err := w.db.UpdateEndpoint(w.ctx(), e, w.audit(ten.ID, "endpoint.update"))
		w.check(err, "UpdateEndpoint")
	}
	j := w.running(ten, hook.ReplayFilter{States: onlyDead})
	w.same(w.feed(j.ID, 10), store.Fed{Fed: 1, Skipped: 2, Cursor: j.EndID, Endpoints: []hook.ID{paused.ID}}, "fed")
	for _, d := range all[:2] {
		w.same(w.delivery(d.ID), d, "skipped delivery")
	}
	w.wantUsage(ten.ID, 1, 7, "after feeding")
}

// feedChanged names deliveries that are no longer what the replay is about.
func feedChanged(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	old := w.deadLetters(ten, e, 2)
	j := w.running(ten, hook.ReplayFilter{States: onlyDead, Deliveries: []hook.ID{old[0].ID, old[1].ID}})
	w.manual(old[0])
	manual := w.delivery(old[0].ID)
	w.same(w.feed(j.ID, 10), store.Fed{Fed: 1, Skipped: 1, Cursor: j.EndID, Endpoints: []hook.ID{e.ID}}, "fed")
	w.same(w.delivery(old[0].ID), manual, "delivery that waits for its manual send")
}

func feedOnce(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	w.deadLetters(ten, e, 4)
	j := w.running(ten, hook.ReplayFilter{Endpoint: e.ID, States: onlyDead})
	w.feed(j.ID, 2)
	before := w.job(j.ID)
	_, err := w.db.FeedReplay(w.ctx(), store.Feed{Replay: j, Limit: 4, Now: w.now, PacedAt: w.now})
	w.wantErr(err, hook.ErrStateConflict, "FeedReplay of a page that was fed")
	w.same(w.job(j.ID), before, "replay")
	w.wantUsage(ten.ID, 2, 14, "after one page")
}

func feedRace(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	const letters, feeders = 30, 4
	w.deadLetters(ten, e, letters)
	j := w.running(ten, hook.ReplayFilter{Endpoint: e.ID, States: onlyDead})
	fed := w.feedTogether(feeders, 10*letters, j.ID, func(job *hook.ReplayJob) (store.Feed, error) {
		return store.Feed{Replay: *job, Limit: 3, Now: w.now, PacedAt: w.now}, nil
	})
	w.same(fed, letters, "fed by all")
	w.same(w.job(j.ID).Counts, hook.ReplayCounts{Fed: letters}, "counts")
	w.wantUsage(ten.ID, letters, 7*letters, "after feeding")
	due, err := w.db.ReadAhead(w.ctx(), e.ID, w.now, 2*letters)
	w.check(err, "ReadAhead")
	if again := slices.IndexFunc(due, func(d hook.Delivery) bool { return d.Progress.Run != 2 }); len(due) != letters || again >= 0 {
		w.t.Errorf("%d are due, number %d is not in its second run", len(due), again)
	}
}

func feedOnlyRunning(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	d := w.deadLetters(ten, e, 1)[0]
	j := w.running(ten, hook.ReplayFilter{Endpoint: e.ID, States: onlyDead})
	for _, state := range []hook.ReplayState{hook.ReplayPaused, hook.ReplayQueued, hook.ReplayCancelled, hook.ReplayDone} {
		w.move(j.ID, state, "")
		_, err := w.db.FeedReplay(w.ctx(), store.Feed{Replay: w.job(j.ID), Limit: 1, Now: w.now, PacedAt: w.now})
		w.wantErr(err, hook.ErrStateConflict, "FeedReplay of one that is "+state.String())
	}
	w.same(w.delivery(d.ID), d, "delivery")
	w.wantUsage(ten.ID, 0, 0, "after refused steps")
}

func feedCounts(w *world) {
	ten := w.tenant()
	a, b := w.endpoint(ten), w.endpoint(ten)
	w.deadLetters(ten, a, 3)
	w.deadLetters(ten, b, 2)
	w.stored(ten, b)
	count := func(f store.DeliveryFilter, limit int) map[hook.ID]int64 {
		got, err := w.db.CountByEndpoint(w.ctx(), f, limit)
		w.check(err, "CountByEndpoint")
		return got
	}
	dead := store.DeliveryFilter{Tenant: ten.ID, States: onlyDead}
	w.same(count(dead, 100), map[hook.ID]int64{a.ID: 3, b.ID: 2}, "dead")
	dead.SettledBy = start.Add(2 * time.Second)
	w.same(count(dead, 100), map[hook.ID]int64{a.ID: 3}, "dead by then")
	w.same(count(store.DeliveryFilter{Tenant: ten.ID, SettledBy: start.Add(time.Second)}, 100),
		map[hook.ID]int64{a.ID: 2, b.ID: 1}, "ended by then, or pending")
	w.same(count(store.DeliveryFilter{Endpoints: []hook.ID{w.id()}}, 100), map[hook.ID]int64{}, "nothing")
	sum := int64(0)
	for _, n := range count(store.DeliveryFilter{Tenant: ten.ID}, 4) {
		sum += n
	}
	w.same(sum, int64(4), "counted up to the limit")
}

// feedTogether has several feed a replay at once until all of it is fed, each in at
// most so many steps, and returns how many they fed.
func (w *world) feedTogether(feeders, steps int, id hook.ID, next func(*hook.ReplayJob) (store.Feed, error)) (fed int) {
	var mu sync.Mutex
	var errs []error
	step := func() (done bool, n int, err error) {
		job, err := w.db.ReplayByID(w.ctx(), 0, id)
		if err != nil || job.AllFed() {
			return err == nil, 0, err
		}
		f, err := next(&job)
		if err != nil {
			return false, 0, err
		}
		s, err := w.db.FeedReplay(w.ctx(), f)
		return false, s.Fed, err
	}
	var wg sync.WaitGroup
	for range feeders {
		wg.Go(func() {
			for range steps {
				done, n, err := step()
				mu.Lock()
				fed += n
				if err != nil && !errors.Is(err, hook.ErrStateConflict) {
					errs = append(errs, err)
				}
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	wg.Wait()
	w.check(errors.Join(errs...), "feed together")
	return fed
}
