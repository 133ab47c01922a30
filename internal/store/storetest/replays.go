package storetest

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var replayTests = []test{
	{"every field comes back", replayRoundTrip},
	{"lists are filtered and paged", replayLists},
	{"another tenant's replay is not found", replayForeign},
	{"a change needs the version it is based on", replayUpdate},
	{"only the end settles total and skipped", replayTotals},
	{"one runs per endpoint", replayOnePerEndpoint},
	{"one over all endpoints runs alone", replaySpanning},
	{"a replay that waits for a person makes room", replayMakesRoom},
	{"who waits longer goes first", replayOrder},
	{"old ones that ended are pruned", replayPruned},
	{"a tenant takes its replays along", replayOfTenant},
}

// endedStates is every state that a delivery can be replayed from.
var endedStates = []hook.DeliveryState{hook.Delivered, hook.Dead, hook.Cancelled}

var onlyDead = []hook.DeliveryState{hook.Dead}

// newReplay prepares a replay of what matches f now.
func (w *world) newReplay(ten hook.Tenant, f hook.ReplayFilter) hook.ReplayJob {
	return hook.ReplayJob{
		ID: w.id(), TenantID: ten.ID, EndpointID: f.Endpoint, Filter: f, State: hook.ReplayQueued,
		PerMinute: 100, CurrentPerMinute: 100, Ramp: 1.5, MaxMultiple: 2.5, PauseErrorPercent: 12.5,
		EndID: store.ReplayEnd(w.now), Total: 3, CreatedBy: "key_test", CreatedAt: w.now, UpdatedAt: w.now, Version: 1,
	}
}

// replay stores one.
func (w *world) replay(ten hook.Tenant, f hook.ReplayFilter) hook.ReplayJob {
	w.t.Helper()
	j := w.newReplay(ten, f)
	w.check(w.db.CreateReplay(w.ctx(), j, w.audit(ten.ID, "replay.create")), "CreateReplay")
	return j
}

// job reads a replay back.
func (w *world) job(id hook.ID) hook.ReplayJob {
	w.t.Helper()
	j, err := w.db.ReplayByID(w.ctx(), 0, id)
	w.check(err, "ReplayByID")
	return j
}

func (w *world) start(j hook.ReplayJob) bool {
	w.t.Helper()
	ok, err := w.db.StartReplay(w.ctx(), j.ID, w.now, w.audit(j.TenantID, "replay.start"))
	w.check(err, "StartReplay")
	return ok
}

// running stores and starts a replay.
func (w *world) running(ten hook.Tenant, f hook.ReplayFilter) hook.ReplayJob {
	w.t.Helper()
	j := w.replay(ten, f)
	if !w.start(j) {
		w.t.Fatal("the replay did not start")
	}
	return w.job(j.ID)
}

// move changes the state of a replay.
func (w *world) move(id hook.ID, to hook.ReplayState, why hook.PauseReason) {
	w.t.Helper()
	j := w.job(id)
	j.State, j.PauseReason = to, why
	_, err := w.db.UpdateReplay(w.ctx(), j, nil)
	w.check(err, "UpdateReplay")
}

func replayRoundTrip(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	full := w.newReplay(ten, hook.ReplayFilter{
		Endpoint: e.ID, States: endedStates, Reasons: []hook.EndReason{hook.DeadExpired, hook.CancelledByUser},
		Types: []string{"order.*", "a"}, Since: w.now.Add(-time.Hour), Until: w.now, Deliveries: []hook.ID{1, 2}, All: true,
	})
	bare := w.newReplay(ten, hook.ReplayFilter{States: onlyDead})
	bare.Total = -1
	for _, j := range []hook.ReplayJob{full, bare} {
		w.check(w.db.CreateReplay(w.ctx(), j, w.audit(ten.ID, "replay.create")), "CreateReplay")
		w.same(w.job(j.ID), j, "replay")
	}
	if err := w.db.CreateReplay(w.ctx(), full, w.audit(ten.ID, "replay.create")); err == nil {
		w.t.Error("the same id was stored twice")
	}
	if !w.start(full) {
		w.t.Fatal("the replay did not start")
	}
	got, want := w.job(full.ID), full
	want.State, want.StartedAt, want.PacedAt, want.UpdatedAt, want.Version = hook.ReplayRunning, w.now, w.now, w.now, 2
	w.same(got, want, "running replay")
}

func replayLists(w *world) {
	ten, other := w.tenant(), w.tenant()
	var ids []hook.ID
	for i := range 5 {
		j := w.replay(ten, hook.ReplayFilter{States: onlyDead})
		ids = append(ids, j.ID)
		if i%2 == 1 {
			w.move(j.ID, hook.ReplayCancelled, "")
		}
	}
	foreign := w.replay(other, hook.ReplayFilter{States: onlyDead})
	list := func(tenant hook.ID, states []hook.ReplayState, p store.Page) (out []hook.ID) {
		jobs, err := w.db.ListReplays(w.ctx(), tenant, states, p)
		w.check(err, "ListReplays")
		for _, j := range jobs {
			out = append(out, j.ID)
		}
		return out
	}
	queued, cancelled := []hook.ReplayState{hook.ReplayQueued}, []hook.ReplayState{hook.ReplayCancelled}
	w.same(list(ten.ID, nil, store.Page{Limit: 2}), []hook.ID{ids[4], ids[3]}, "first page")
	w.same(list(ten.ID, nil, store.Page{Limit: 9, After: ids[3]}), []hook.ID{ids[2], ids[1], ids[0]}, "the rest")
	w.same(list(ten.ID, queued, store.Page{Limit: 9, Asc: true}), []hook.ID{ids[0], ids[2], ids[4]}, "queued")
	w.same(list(ten.ID, append(queued, cancelled...), store.Page{Limit: 9, Asc: true, After: ids[2]}), ids[3:], "two states")
	w.same(list(0, queued, store.Page{Limit: 1}), []hook.ID{foreign.ID}, "of all tenants")

	active := func(limit int) (out []hook.ID) {
		jobs, err := w.db.ActiveReplays(w.ctx(), limit)
		w.check(err, "ActiveReplays")
		for _, j := range jobs {
			out = append(out, j.ID)
		}
		return out
	}
	w.same(active(9), []hook.ID{ids[0], ids[2], ids[4], foreign.ID}, "active")
	w.same(active(2), []hook.ID{ids[0], ids[2]}, "the oldest active ones")
}

func replayForeign(w *world) {
	ten, other := w.tenant(), w.tenant()
	j := w.replay(ten, hook.ReplayFilter{States: onlyDead})
	_, err := w.db.ReplayByID(w.ctx(), other.ID, j.ID)
	w.wantErr(err, hook.ErrNotFound, "ReplayByID")
	_, err = w.db.ReplayByID(w.ctx(), ten.ID, w.id())
	w.wantErr(err, hook.ErrNotFound, "ReplayByID of nothing")
	missing := j
	missing.ID = w.id()
	_, err = w.db.UpdateReplay(w.ctx(), missing, nil)
	w.wantErr(err, hook.ErrNotFound, "UpdateReplay of nothing")
}

func replayUpdate(w *world) {
	ten := w.tenant()
	j := w.replay(ten, hook.ReplayFilter{States: onlyDead})
	w.pass(time.Minute)
	want := j
	want.State, want.PauseReason, want.PerMinute, want.CurrentPerMinute, want.MaxMultiple = hook.ReplayPaused, hook.PausedStuck, 7, 14, 3.5
	want.SelfPauses, want.DeliveredAtPause = 2, 11
	want.UpdatedAt, want.StartedAt, want.PausedAt = w.now, w.now.Add(time.Second), w.now.Add(2*time.Second)
	want.FinishedAt, want.PacedAt = w.now.Add(3*time.Second), w.now.Add(4*time.Second)

	change := want // what a change must not touch
	change.Filter, change.Cursor, change.EndID, change.Total = hook.ReplayFilter{}, 5, 6, 99
	change.Counts = hook.ReplayCounts{Fed: 1, Skipped: 2, Delivered: 3, Failed: 4, Answers: 5, Errors: 6, Refused: 7}
	rec := w.audit(ten.ID, "replay.pause")
	got, err := w.db.UpdateReplay(w.ctx(), change, &rec)
	w.check(err, "UpdateReplay")
	want.Version = 2
	w.same(got, want, "answer")
	w.same(w.job(j.ID), want, "replay")

	_, err = w.db.UpdateReplay(w.ctx(), change, nil)
	w.wantErr(err, hook.ErrVersionMismatch, "UpdateReplay of an old version")
	w.same(w.job(j.ID), want, "replay after a refused change")
}

func replayTotals(w *world) {
	ten := w.tenant()
	j := w.replay(ten, hook.ReplayFilter{States: onlyDead})
	j.State, j.Total, j.Counts.Skipped = hook.ReplayCancelled, 9, 8
	j, err := w.db.UpdateReplay(w.ctx(), j, nil)
	w.check(err, "UpdateReplay")
	w.same([]int64{j.Total, j.Counts.Skipped}, []int64{3, 0}, "total and skipped of a cancelled one")
	j.State, j.Total, j.Counts.Skipped = hook.ReplayDone, 9, 8
	j, err = w.db.UpdateReplay(w.ctx(), j, nil)
	w.check(err, "UpdateReplay")
	w.same([]int64{j.Total, j.Counts.Skipped}, []int64{9, 8}, "total and skipped of one that is done")
}

func replayOnePerEndpoint(w *world) {
	ten := w.tenant()
	a, b := w.endpoint(ten), w.endpoint(ten)
	onA := hook.ReplayFilter{Endpoint: a.ID, States: onlyDead}
	first, second := w.running(ten, onA), w.replay(ten, onA)
	elsewhere := w.replay(ten, hook.ReplayFilter{Endpoint: b.ID, States: onlyDead})
	if w.start(first) {
		w.t.Error("a running replay started again")
	}
	if w.start(second) {
		w.t.Error("a second replay of the endpoint runs")
	}
	if !w.start(elsewhere) {
		w.t.Error("a replay of another endpoint did not start")
	}
	w.move(first.ID, hook.ReplayDone, "")
	if !w.start(second) {
		w.t.Error("the second did not start after the first")
	}
	if w.start(first) {
		w.t.Error("a replay that is done started again")
	}
}

func replaySpanning(w *world) {
	ten, other := w.tenant(), w.tenant()
	all, one := hook.ReplayFilter{States: onlyDead, All: true}, hook.ReplayFilter{Endpoint: w.endpoint(ten).ID, States: onlyDead}
	whole := w.running(ten, all)
	part := w.replay(ten, one)
	if w.start(part) {
		w.t.Error("a replay runs beside one over all endpoints")
	}
	if !w.start(w.replay(other, all)) {
		w.t.Error("another tenant's replay is in the way")
	}
	w.move(whole.ID, hook.ReplayDone, "")
	if !w.start(part) {
		w.t.Error("the replay did not start")
	}
	if w.start(w.replay(ten, all)) {
		w.t.Error("a replay over all endpoints runs beside another one")
	}
}

// replayMakesRoom goes through what a running replay may turn into.
func replayMakesRoom(w *world) {
	ten := w.tenant()
	f := hook.ReplayFilter{Endpoint: w.endpoint(ten).ID, States: onlyDead}
	for why, room := range map[hook.PauseReason]bool{
		hook.PausedByUser: true, hook.PausedStuck: true,
		hook.PausedByBreaker: false, hook.PausedByErrors: false, hook.PausedEndpointOff: false,
	} {
		first, second := w.running(ten, f), w.replay(ten, f)
		w.move(first.ID, hook.ReplayPaused, why)
		if got := w.start(second); got != room {
			w.t.Errorf("%s: the next one started: %v, want %v", why, got, room)
		}
		w.move(first.ID, hook.ReplayCancelled, "")
		w.move(second.ID, hook.ReplayCancelled, "")
	}
	first, second := w.running(ten, f), w.replay(ten, f)
	if _, err := w.db.FeedReplay(w.ctx(), store.Feed{Replay: first, Limit: 1, Now: w.now, PacedAt: w.now}); err != nil {
		w.t.Fatal(err)
	}
	if !w.start(second) {
		w.t.Error("a replay whose set was walked to the end is in the way")
	}
}

func replayOrder(w *world) {
	ten := w.tenant()
	f := hook.ReplayFilter{Endpoint: w.endpoint(ten).ID, States: onlyDead}
	first, second := w.replay(ten, f), w.replay(ten, f)
	if w.start(second) {
		w.t.Error("the second overtook the first")
	}
	if !w.start(first) {
		w.t.Error("the first did not start")
	}
}

func replayPruned(w *world) {
	ten := w.tenant()
	var ids []hook.ID
	for _, state := range []hook.ReplayState{hook.ReplayDone, hook.ReplayCancelled, hook.ReplayPaused} {
		j := w.replay(ten, hook.ReplayFilter{States: onlyDead})
		j.State, j.FinishedAt = state, w.now
		_, err := w.db.UpdateReplay(w.ctx(), j, nil)
		w.check(err, "UpdateReplay")
		ids = append(ids, j.ID)
	}
	prune := func() {
		for range 20 {
			got, err := w.db.Prune(w.ctx(), store.PruneStep{
				Now: w.now, Before: w.now.Add(-30 * 24 * time.Hour), DeadAfter: w.now.Add(-48 * time.Hour), Limit: 10,
			})
			w.check(err, "Prune")
			if got.Done {
				return
			}
		}
	}
	w.pass(29 * 24 * time.Hour)
	prune()
	w.job(ids[0])
	w.pass(2 * 24 * time.Hour)
	prune()
	for _, id := range ids[:2] {
		_, err := w.db.ReplayByID(w.ctx(), ten.ID, id)
		w.wantErr(err, hook.ErrNotFound, "ReplayByID of an old one")
	}
	w.job(ids[2])
}

func replayOfTenant(w *world) {
	ten := w.tenant()
	j := w.replay(ten, hook.ReplayFilter{States: onlyDead})
	w.check(w.db.DeleteTenant(w.ctx(), ten.ID, w.audit(ten.ID, "tenant.delete")), "DeleteTenant")
	_, err := w.db.ReplayByID(w.ctx(), 0, j.ID)
	w.wantErr(err, hook.ErrNotFound, "ReplayByID")
}
