package storetest

import (
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var missingTests = []test{
	{"events without a delivery are found, and no others", missingFound},
	{"a search that has looked enough goes on behind that", missingLooks},
	{"a created delivery is one of a replay", missingCreated},
	{"deliveries and events are fed in one order", missingMerged},
	{"a step ends where nobody has looked further", missingBounded},
	{"a page is created once", missingOnce},
	{"two that create at once share the work", missingRace},
	{"nothing is created without a destination or an event", missingNowhere},
	{"what has a delivery by now is passed over", missingTaken},
	{"a created delivery keeps its event", missingKept},
	{"what is created is settled, counted and fed again as any other", missingSettled},
}

// every is a filter of all that an endpoint has no delivery of.
func (w *world) every(e hook.Endpoint) hook.ReplayFilter {
	return hook.ReplayFilter{Endpoint: e.ID, States: onlyDead, Since: start.Add(-time.Hour), Missing: &hook.MissingFilter{Types: []string{"*"}}}
}

// search returns all that is missing.
func (w *world) search(j *hook.ReplayJob, p store.Page) (page []store.MissingEvent, next hook.ID) {
	w.t.Helper()
	page, next, err := w.db.MissingEvents(w.ctx(), j, p)
	w.check(err, "MissingEvents")
	return page, next
}

func eventIDs(page []store.MissingEvent) (ids []hook.ID) {
	for _, m := range page {
		ids = append(ids, m.ID)
	}
	return ids
}

// missing searches as a step of a replay does.
func (w *world) missing(j *hook.ReplayJob, limit int) store.Missing {
	w.t.Helper()
	page, next := w.search(j, store.Page{Limit: limit, After: j.Cursor})
	m := store.Missing{Events: page, Upto: next}
	if next == 0 {
		m.Upto = j.EndID
	}
	for i := range m.Events {
		m.Events[i].Delivery = w.ids.Next(j.EndID.Time().Add(w.now.Sub(j.CreatedAt)))
	}
	return m
}

// create takes the next step of a replay that creates deliveries.
func (w *world) create(id hook.ID, limit int) store.Fed {
	w.t.Helper()
	j := w.job(id)
	fed, err := w.db.FeedReplay(w.ctx(), store.Feed{Replay: j, Limit: limit, Missing: w.missing(&j, limit), Now: w.now, PacedAt: w.now})
	w.check(err, "FeedReplay")
	return fed
}

// events stores one event of each type, one second apart, for some endpoints.
func (w *world) events(ten hook.Tenant, types []string, targets ...hook.Endpoint) []hook.ID {
	w.t.Helper()
	ids := make([]hook.ID, len(types))
	for i, typ := range types {
		a := w.accept(ten, targets...)
		a.Event.Type = typ
		w.store(a)
		ids[i] = a.Event.ID
		w.pass(time.Second)
	}
	return ids
}

// of returns the deliveries of an event to an endpoint.
func (w *world) of(event hook.ID, e hook.Endpoint) []hook.Delivery {
	w.t.Helper()
	rows, _, err := w.db.ListDeliveries(w.ctx(), store.DeliveryFilter{Event: event, Endpoints: []hook.ID{e.ID}}, store.Page{Limit: 50})
	w.check(err, "ListDeliveries")
	out := make([]hook.Delivery, len(rows))
	for i := range rows {
		out[i] = rows[i].Delivery
	}
	return out
}

func missingFound(w *world) {
	ten, stranger := w.tenant(), w.tenant()
	other := w.endpoint(ten)
	early := w.events(ten, []string{"order.paid"}, other)
	begin := w.now
	types := []string{"order.paid", "order.made", "orders", "refund.made"}
	alone := w.events(ten, types)
	shared := w.events(ten, types, other)
	w.events(stranger, types)
	e := w.endpoint(ten)
	w.events(ten, types, e, other) // their rows may be deferred
	late := w.accept(ten, other, e)
	w.store(dueAt(late, w.now.Add(time.Hour))) // and this one's is not
	named := w.accept(ten, other)
	named.Event.ContentType = hook.WithNamed(named.Event.ContentType)
	w.store(named, w.accept(ten, other, e)) // nothing is written before the search, so that the last one's rows are deferred
	w.pass(time.Second)

	all := slices.Concat(early, alone, shared)
	for name, tc := range map[string]struct {
		change func(*hook.ReplayFilter)
		want   []hook.ID
	}{
		"all":        {func(*hook.ReplayFilter) {}, all},
		"since":      {func(f *hook.ReplayFilter) { f.Since = begin }, all[1:]},
		"until":      {func(f *hook.ReplayFilter) { f.Until = begin }, early},
		"types":      {func(f *hook.ReplayFilter) { f.Types = []string{"order.*"} }, []hook.ID{early[0], alone[0], alone[1], shared[0], shared[1]}},
		"endpoint's": {func(f *hook.ReplayFilter) { f.Missing.Types = []string{"refund.made", "orders"} }, []hook.ID{alone[2], alone[3], shared[2], shared[3]}},
		"both": {func(f *hook.ReplayFilter) {
			f.Missing.Types, f.Types = []string{"order.*"}, []string{"order.made", "orders"}
		}, []hook.ID{alone[1], shared[1]}},
		"none":            {func(f *hook.ReplayFilter) { f.Missing.Types = nil }, nil},
		"states, reasons": {func(f *hook.ReplayFilter) { f.Reasons, f.States = []hook.EndReason{hook.DeadExpired}, endedStates }, all},
		"not asked for":   {func(f *hook.ReplayFilter) { f.Missing = nil }, nil},
	} {
		f := w.every(e)
		tc.change(&f)
		j := w.newReplay(ten, f)
		page, next := w.search(&j, store.Page{Limit: 50})
		w.same(eventIDs(page), tc.want, name)
		w.same(next, hook.ID(0), name+": next")
	}

	j := w.newReplay(ten, w.every(e))
	w.pass(time.Second)
	younger := w.events(ten, types)
	page, _ := w.search(&j, store.Page{Limit: 50})
	w.same(eventIDs(page), all, "after the replay was created")
	page, next := w.search(&j, store.Page{Limit: 2, After: all[2]})
	w.same(page, []store.MissingEvent{{ID: all[3], Size: 7}, {ID: all[4], Size: 7}}, "page")
	w.same(next, all[4], "next")
	own := w.newReplay(ten, w.every(other))
	page, _ = w.search(&own, store.Page{Limit: 50})
	w.same(eventIDs(page), slices.Concat(alone, younger), "of the other endpoint")
}

func missingLooks(w *world) {
	ten := w.tenant()
	other := w.endpoint(ten)
	w.events(ten, []string{"a", "a", "a", "a", "a"}, other)
	want := w.events(ten, []string{"b"}, other)
	e := w.endpoint(ten)
	f := w.every(e)
	f.Missing.Types = []string{"b"}
	j := w.newReplay(ten, f)
	var found []hook.ID
	steps, after := 0, hook.ID(0)
	for {
		page, next := w.search(&j, store.Page{Limit: 3, After: after, ScanLimit: 2})
		found = append(found, eventIDs(page)...)
		steps++
		if next == 0 || steps > 10 {
			break
		}
		if next <= after {
			w.t.Fatalf("step %d stays at %d", steps, after)
		}
		after = next
	}
	w.same(steps, 3, "steps over six events, two at a time")
	w.same(found, want, "found")
}

func missingCreated(w *world) {
	ten := w.tenant()
	event := w.events(ten, []string{"order.paid"})[0]
	e := w.endpoint(ten)
	stored := w.usage(ten.ID).Stored
	w.pass(time.Hour)
	j := w.running(ten, w.every(e))
	m := w.missing(&j, 5)
	fed, err := w.db.FeedReplay(w.ctx(), store.Feed{Replay: j, Limit: 5, Missing: m, Now: w.now, PacedAt: w.now})
	w.check(err, "FeedReplay")
	w.same(fed, store.Fed{Fed: 1, Cursor: j.EndID, Endpoints: []hook.ID{e.ID}}, "fed")
	want := hook.Delivery{
		ID: m.Events[0].Delivery, TenantID: ten.ID, EventID: event, EndpointID: e.ID, DueAt: w.now, Size: 7,
		Progress: hook.Progress{Run: 1, RunDueAt: w.now}, ReplayID: j.ID,
	}
	w.same(w.delivery(want.ID), want, "delivery")
	w.wantUsage(ten.ID, 1, 7, "after feeding")
	w.same(w.usage(ten.ID).Stored, stored+store.StoredByDeliveries(1), "stored")
	w.wantStats(endpointStats(e.ID), map[stats.Counter]uint64{stats.Reopened: 1, stats.Accepted: 0}, "figures")
	due, err := w.db.ReadAhead(w.ctx(), e.ID, w.now, 5)
	w.check(err, "ReadAhead")
	w.same(due, []hook.Delivery{want}, "read ahead")
	pending, err := w.db.PendingEndpoints(w.ctx(), allShards())
	w.check(err, "PendingEndpoints")
	w.same(pending, []store.PendingEndpoint{{ID: e.ID, Due: w.now}}, "endpoints with pending deliveries")
	got := w.job(j.ID)
	j.Cursor, j.Counts.Fed, j.PacedAt, j.UpdatedAt = j.EndID, 1, w.now, w.now
	w.same(got, j, "replay")
	again := w.newReplay(ten, w.every(e))
	page, _ := w.search(&again, store.Page{Limit: 5})
	w.same(len(page), 0, "missing after that")
	w.balanced()
}

// missingMerged has dead letters of an endpoint between events that it has none of.
func missingMerged(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	var want []hook.ID // in order: events, or deliveries
	for range 3 {
		want = append(want, w.events(ten, []string{"a"})...)
		want = append(want, w.deadLetters(ten, e, 1)[0].ID)
	}
	w.pass(time.Second)
	j := w.running(ten, w.every(e))
	at := []hook.ID{e.ID}
	var fed []store.Fed
	for range 3 {
		fed = append(fed, w.create(j.ID, 2))
		w.pass(time.Second)
	}
	w.same(fed, []store.Fed{
		{Fed: 2, Cursor: want[1], Endpoints: at}, {Fed: 2, Cursor: want[3], Endpoints: at}, {Fed: 2, Cursor: j.EndID, Endpoints: at},
	}, "steps")
	due, err := w.db.ReadAhead(w.ctx(), e.ID, w.now, 10)
	w.check(err, "ReadAhead")
	var got []hook.ID
	for i := range due {
		if d := &due[i]; d.Progress.Run == 1 {
			got = append(got, d.EventID)
		} else {
			got = append(got, d.ID)
		}
	}
	slices.Sort(got)
	w.same(got, want, "what is due")
	w.same(w.job(j.ID).Counts, hook.ReplayCounts{Fed: 6}, "counts")
	w.wantUsage(ten.ID, 6, 42, "after feeding")
}

func missingBounded(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	first := w.events(ten, []string{"a", "a"})
	letter := w.deadLetters(ten, e, 1)[0]
	w.events(ten, []string{"a"})
	j := w.running(ten, w.every(e))
	m := w.missing(&j, 1)
	m.Upto = first[0] // as one who stopped there
	fed, err := w.db.FeedReplay(w.ctx(), store.Feed{Replay: j, Limit: 10, Missing: m, Now: w.now, PacedAt: w.now})
	w.check(err, "FeedReplay")
	w.same(fed, store.Fed{Fed: 1, Cursor: first[0], Endpoints: []hook.ID{e.ID}}, "fed")
	w.same(w.delivery(letter.ID), letter, "a dead letter behind that")
	// A step that found nothing must not pass what was not looked at either.
	j = w.job(j.ID)
	fed, err = w.db.FeedReplay(w.ctx(), store.Feed{Replay: j, Limit: 10, Missing: store.Missing{Upto: first[0]}, Now: w.now, PacedAt: w.now})
	w.check(err, "FeedReplay")
	w.same(fed, store.Fed{Cursor: first[0]}, "fed by a step that looked at nothing")
	w.same(w.create(j.ID, 10), store.Fed{Fed: 3, Cursor: j.EndID, Endpoints: []hook.ID{e.ID}}, "the rest")
}

func missingOnce(w *world) {
	ten := w.tenant()
	w.events(ten, []string{"a", "b", "c", "d"})
	e := w.endpoint(ten)
	j := w.running(ten, w.every(e))
	m := w.missing(&j, 4)
	w.create(j.ID, 2)
	before := w.job(j.ID)
	_, err := w.db.FeedReplay(w.ctx(), store.Feed{Replay: j, Limit: 4, Missing: m, Now: w.now, PacedAt: w.now})
	w.wantErr(err, hook.ErrStateConflict, "FeedReplay of a page that was fed")
	w.same(w.job(j.ID), before, "replay")
	w.wantUsage(ten.ID, 2, 14, "after one page")
}

func missingRace(w *world) {
	ten := w.tenant()
	const events, feeders = 30, 4
	var ids []hook.ID
	for range events {
		ids = append(ids, w.events(ten, []string{"a"})...)
	}
	e := w.endpoint(ten)
	j := w.running(ten, w.every(e))
	now := w.now
	fed := w.feedTogether(feeders, 10*events, j.ID, func(job *hook.ReplayJob) (f store.Feed, err error) {
		f = store.Feed{Replay: *job, Limit: 3, Now: now, PacedAt: now}
		f.Missing.Events, f.Missing.Upto, err = w.db.MissingEvents(w.ctx(), job, store.Page{Limit: 3, After: job.Cursor})
		if f.Missing.Upto == 0 {
			f.Missing.Upto = job.EndID
		}
		for i := range f.Missing.Events {
			f.Missing.Events[i].Delivery = w.ids.Next(job.EndID.Time())
		}
		return f, err
	})
	w.same(fed, events, "created by all")
	w.same(w.job(j.ID).Counts, hook.ReplayCounts{Fed: events}, "counts")
	w.wantUsage(ten.ID, events, 7*events, "after feeding")
	due, err := w.db.ReadAhead(w.ctx(), e.ID, w.now, 2*events)
	w.check(err, "ReadAhead")
	var of []hook.ID
	for _, d := range due {
		of = append(of, d.EventID)
	}
	slices.Sort(of)
	w.same(of, ids, "events of what is due")
}

func missingNowhere(w *world) {
	ten := w.tenant()
	w.events(ten, []string{"a"})
	for name, end := range map[string]func(e hook.Endpoint){
		"deleted": func(e hook.Endpoint) {
			_, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, e.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
			w.check(err, "DeleteEndpoint")
		},
		"disabled": func(e hook.Endpoint) {
			e.State = hook.Disabled
			_, err := w.db.UpdateEndpoint(w.ctx(), e, w.audit(ten.ID, "endpoint.update"))
			w.check(err, "UpdateEndpoint")
		},
	} {
		e := w.endpoint(ten)
		j := w.running(ten, w.every(e))
		end(e)
		w.same(w.create(j.ID, 5), store.Fed{Skipped: 1, Cursor: j.EndID}, name)
	}
	e := w.endpoint(ten)
	j := w.running(ten, w.every(e))
	m := w.missing(&j, 5)
	m.Events = append(m.Events, store.MissingEvent{ID: m.Events[0].ID + 1, Size: 7, Delivery: w.id()})
	foreign := w.events(w.tenant(), []string{"a"})[0]
	m.Events = append(m.Events, store.MissingEvent{ID: foreign, Size: 7, Delivery: w.id()})
	m.Upto, j.EndID = foreign+1, foreign+1
	fed, err := w.db.FeedReplay(w.ctx(), store.Feed{Replay: j, Limit: 5, Missing: m, Now: w.now, PacedAt: w.now})
	w.check(err, "FeedReplay")
	w.same(fed, store.Fed{Fed: 1, Skipped: 2, Cursor: foreign + 1, Endpoints: []hook.ID{e.ID}}, "events that are not there, or another tenant's")
	w.wantUsage(ten.ID, 1, 7, "after feeding")
}

// missingTaken has two replays that have both found the same events.
func missingTaken(w *world) {
	ten := w.tenant()
	ids := w.events(ten, []string{"a", "b"})
	e := w.endpoint(ten)
	a, b := w.running(ten, w.every(e)), w.replay(ten, w.every(e))
	w.move(b.ID, hook.ReplayRunning, "")
	b = w.job(b.ID)
	m := w.missing(&b, 5)
	w.same(w.create(a.ID, 1).Fed, 1, "created by the first")
	fed, err := w.db.FeedReplay(w.ctx(), store.Feed{Replay: b, Limit: 5, Missing: m, Now: w.now, PacedAt: w.now})
	w.check(err, "FeedReplay")
	w.same(fed, store.Fed{Fed: 1, Skipped: 1, Cursor: b.EndID, Endpoints: []hook.ID{e.ID}}, "created by the second")
	for _, id := range ids {
		w.same(len(w.of(id, e)), 1, "deliveries")
	}
	w.same(w.of(ids[0], e)[0].ReplayID, a.ID, "replay of the first")
	w.wantUsage(ten.ID, 2, 14, "after both")
}

// missingKept prunes events with a delivery that is much younger.
func missingKept(w *world) {
	ten := w.tenant()
	events := w.events(ten, []string{"a", "b"})
	e := w.endpoint(ten)
	f := w.every(e)
	f.Types = []string{"a"}
	w.pass(40 * 24 * time.Hour)
	w.check(w.db.Prepare(w.ctx(), w.now), "Prepare")
	j := w.running(ten, f)
	w.same(w.create(j.ID, 5).Fed, 1, "created")
	d := w.of(events[0], e)[0]
	prune := func() {
		w.t.Helper()
		for range 20 {
			got, err := w.db.Prune(w.ctx(), store.PruneStep{
				Now: w.now, Before: w.now.Add(-30 * 24 * time.Hour), DeadAfter: w.now.Add(-hook.DeadGrace), AuditBefore: start, Limit: 10,
			})
			w.check(err, "Prune")
			if got.Done {
				return
			}
		}
		w.t.Fatal("pruning does not end")
	}
	w.pass(time.Minute)
	prune()
	w.same(w.delivery(d.ID), d, "pending delivery of an event that is past its age")
	if _, err := w.db.Event(w.ctx(), ten.ID, d.EventID); err != nil {
		w.t.Errorf("its event: %v", err)
	}
	w.written(w.success(d))
	prune()
	_, err := w.db.DeliveryByID(w.ctx(), 0, d.ID)
	w.wantErr(err, hook.ErrNotFound, "the delivery after its end")
	_, err = w.db.Event(w.ctx(), ten.ID, d.EventID)
	w.wantErr(err, hook.ErrNotFound, "and its event")
	// What one has found before it left is not created any more.
	late := w.running(ten, w.every(e))
	fed, err := w.db.FeedReplay(w.ctx(), store.Feed{Replay: late, Limit: 5, Now: w.now, PacedAt: w.now, Missing: store.Missing{
		Events: []store.MissingEvent{{ID: events[0], Size: 7, Delivery: w.id()}, {ID: events[1], Size: 7, Delivery: w.id()}}, Upto: late.EndID,
	}})
	w.check(err, "FeedReplay")
	w.same(fed, store.Fed{Skipped: 2, Cursor: late.EndID}, "created for events that have left")
	w.wantUsage(ten.ID, 0, 0, "in the end")
}

func missingSettled(w *world) {
	ten := w.tenant()
	w.events(ten, []string{"a", "b"})
	e := w.endpoint(ten)
	w.pass(time.Hour)
	j := w.running(ten, w.every(e))
	w.create(j.ID, 5)
	due, err := w.db.ReadAhead(w.ctx(), e.ID, w.now, 5)
	w.check(err, "ReadAhead")
	w.pass(time.Second)
	w.written(w.success(due[0]), w.dead(due[1]))
	w.same(w.job(j.ID).Counts.Delivered, int64(1), "delivered")
	w.same(w.job(j.ID).Counts.Failed, int64(1), "failed")
	w.same(len(w.attempts(due[0].ID)), 1, "attempts of the delivered one")
	w.wantUsage(ten.ID, 0, 0, "when all has ended")
	w.pass(time.Second)
	old := store.DeliveryFilter{Tenant: ten.ID, States: onlyDead, EventsUntil: start.Add(time.Minute)}
	w.same(w.listed(old, store.Page{Limit: 5}), []hook.ID{due[1].ID}, "dead letters of old events")
	old.Until = old.EventsUntil
	w.same(len(w.listed(old, store.Page{Limit: 5})), 0, "old dead letters of old events")
	old.Until, old.EventsUntil = time.Time{}, start.Add(-time.Minute)
	w.same(len(w.listed(old, store.Page{Limit: 5})), 0, "dead letters of older events")
	again := w.running(ten, w.every(e))
	w.same(w.create(again.ID, 5), store.Fed{Fed: 1, Cursor: again.EndID, Endpoints: []hook.ID{e.ID}}, "the dead one again")
	w.same(w.delivery(due[1].ID).Progress.Run, 2, "its run")
	w.balanced()
}
