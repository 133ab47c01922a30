package storetest

import (
	"bytes"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var overviewTests = []test{
	{"lanes are counted by what they do", overviewCounts},
	{"the worst lanes come first, then those that most waits for", overviewWorst},
	{"dead letters are counted up to a limit", overviewDead},
	{"figures of several endpoints are those of each", overviewFigures},
}

// openLane opens the lane of an endpoint, which probes at a moment.
func (w *world) openLane(e hook.Endpoint, probe time.Time) {
	w.t.Helper()
	save := w.laneSave(e.ID, 1)
	save.Checkpoint.Open, save.Checkpoint.OpenedAt, save.Checkpoint.NextProbeAt = true, w.now, probe
	w.commit(&store.Batch{Lanes: []*store.LaneSave{save}})
}

func (w *world) halt(e hook.Endpoint, s hook.EndpointState, reason string) {
	w.t.Helper()
	e.State, e.StateReason = s, reason
	_, err := w.db.UpdateEndpoint(w.ctx(), e, w.audit(e.TenantID, "endpoint.update"))
	w.check(err, "UpdateEndpoint")
}

func (w *world) remove(e hook.Endpoint) {
	w.t.Helper()
	_, err := w.db.DeleteEndpoint(w.ctx(), e.TenantID, e.ID, w.now, w.audit(e.TenantID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
}

// stormy saves a storm, or the warning of one, with so many that wait.
func (w *world) stormy(e hook.Endpoint, storm, growing bool, depth int64) {
	w.t.Helper()
	watch := hook.LaneWatch{EndpointID: e.ID, TenantID: e.TenantID, UpdatedAt: w.now, Queue: hook.RetryQueue{Depth: depth}}
	if storm {
		watch.Storm = hook.Storm{Since: w.now.Add(-time.Minute), First: 3, Retries: 120}
	}
	if growing {
		watch.Queue.Since = w.now.Add(-time.Minute)
	}
	w.saveWatch(watch)
}

func overviewCounts(w *world) {
	ten, other := w.tenant(), w.tenant()
	open, probing, paused, gone := w.endpoint(ten), w.endpoint(ten), w.endpoint(ten), w.endpoint(ten)
	w.endpoint(ten)
	w.openLane(open, w.now.Add(time.Minute))
	w.openLane(probing, w.now)
	w.openLane(paused, w.now)
	w.halt(paused, hook.Paused, "manual")
	w.openLane(gone, w.now)
	w.stormy(gone, true, false, 1)
	w.remove(gone)
	w.stormy(open, true, true, 5)
	w.stormy(probing, false, true, 5)
	w.stormy(w.endpoint(other), true, false, 5)
	for _, tc := range []struct {
		tenant hook.ID
		want   store.LaneCounts
	}{
		{ten.ID, store.LaneCounts{Endpoints: 4, Open: 3, Probing: 1, Storms: 1}},
		{other.ID, store.LaneCounts{Endpoints: 1, Storms: 1}},
		{0, store.LaneCounts{Endpoints: 5, Open: 3, Probing: 1, Storms: 2}},
	} {
		got, err := w.db.CountLanes(w.ctx(), tc.tenant, w.now)
		w.check(err, "CountLanes")
		w.same(got, tc.want, "lanes")
	}
}

func overviewWorst(w *world) {
	ten, other := w.tenant(), w.tenant()
	var all []hook.Endpoint
	for range 9 {
		all = append(all, w.endpoint(ten))
	}
	w.openLane(all[0], w.now.Add(time.Minute))
	w.stormy(all[0], true, false, 9)
	w.openLane(all[1], w.now)
	w.stormy(all[2], true, true, 7)
	w.halt(all[3], hook.Disabled, "gone")
	w.stormy(all[4], false, true, 5)
	w.stormy(all[5], false, false, 30)
	w.stormy(all[6], false, false, 20)
	w.halt(all[7], hook.Paused, "manual")
	far := w.endpoint(other)
	w.stormy(far, true, false, 8)
	lost := w.endpoint(ten)
	w.openLane(lost, w.now)
	w.remove(lost)
	for _, tc := range []struct {
		tenant hook.ID
		limit  int
		want   []hook.Endpoint
	}{
		{ten.ID, 10, all[:8]},
		{ten.ID, 3, all[:3]},
		{other.ID, 10, []hook.Endpoint{far}},
		{0, 4, []hook.Endpoint{all[0], all[1], far, all[2]}},
	} {
		got, err := w.db.WorstLanes(w.ctx(), tc.tenant, tc.limit)
		w.check(err, "WorstLanes")
		var ids, want []hook.ID
		for i := range got {
			ids = append(ids, got[i].EndpointID)
		}
		for _, e := range tc.want {
			want = append(want, e.ID)
		}
		w.same(ids, want, "the worst")
	}
	got, err := w.db.WorstLanes(w.ctx(), 0, 1)
	w.check(err, "WorstLanes")
	w.same(got, []store.LaneGlance{{
		EndpointID: all[0].ID, TenantID: ten.ID, URL: all[0].URL, State: hook.Active, Open: true, OpenedAt: w.now, NextProbeAt: w.now.Add(time.Minute),
		Watched: true, Watch: w.watches(all[0].ID)[0],
	}}, "what is known of the worst")
}

func overviewDead(w *world) {
	ten, other := w.tenant(), w.tenant()
	w.deadLetters(ten, w.endpoint(ten), 3)
	before, err := w.db.CountDead(w.ctx(), ten.ID, 100)
	w.check(err, "CountDead")
	w.deadLetters(other, w.endpoint(other), 2)
	for _, tc := range []struct {
		tenant hook.ID
		limit  int
		want   int64
	}{{ten.ID, 100, 3}, {ten.ID, 2, 2}, {other.ID, 100, 2}, {0, 100, 5}, {0, 4, 4}} {
		n, err := w.db.CountDead(w.ctx(), tc.tenant, tc.limit)
		w.check(err, "CountDead")
		w.same(n, tc.want, "dead letters")
	}
	w.same(before, int64(3), "dead letters before those of the other")
}

func overviewFigures(w *world) {
	ten := w.tenant()
	one, two, idle := w.endpoint(ten), w.endpoint(ten), w.endpoint(ten)
	for range 3 {
		w.written(w.success(w.delivery(w.stored(ten, one).Deliveries[0].ID)))
		w.stored(ten, one, two)
		w.pass(40 * time.Minute)
	}
	w.fold()
	w.rollUp(stats.Minutes, w.now.Add(-time.Hour), 100)
	got, err := w.db.EndpointStats(w.ctx(), []hook.ID{one.ID, two.ID, idle.ID}, start, w.now)
	w.check(err, "EndpointStats")
	want := make(map[hook.ID][]stats.Point)
	for _, e := range []hook.Endpoint{one, two} {
		want[e.ID], err = w.db.Stats(w.ctx(), endpointStats(e.ID), start, w.now)
		w.check(err, "Stats")
	}
	if len(got) != len(want) {
		w.t.Errorf("figures of %d endpoints, want %d", len(got), len(want))
	}
	for id, points := range want {
		if len(points) < 2 || len(got[id]) != len(points) {
			w.t.Fatalf("%d pieces of endpoint %d, want %d", len(got[id]), id, len(points))
		}
		for i := range points {
			if !got[id][i].At.Equal(points[i].At) || !bytes.Equal(got[id][i].Counts.Append(nil), points[i].Counts.Append(nil)) {
				w.t.Errorf("piece %d of endpoint %d is %v, want %v", i, id, got[id][i], points[i])
			}
		}
	}
}
