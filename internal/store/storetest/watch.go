package storetest

import (
	"encoding/json"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var watchTests = []test{
	{"a retry queue is what has failed before", depthOfRetries},
	{"a lane that sends nothing holds what is due", depthOfHeld},
	{"counting stops at the limit", depthLimit},
	{"a lane's watch comes back as it was saved", watchRoundTrip},
	{"the later save of two owners stays", watchLater},
	{"active watches are those with a storm or a warning", watchActive},
	{"nodes that have not saved lately are left out", watchNodes},
	{"a system signal is set and removed", watchSystem},
	{"lanes are listed by what is wrong with them", listLanes},
	{"operational events are listed by what is asked for", listOperational},
	{"operational events may be written again", rewriteOperational},
	{"old operational events and lost watches leave", pruneWatch},
}

func (w *world) depths(limit int, endpoints ...hook.Endpoint) map[hook.ID]store.RetryDepth {
	w.t.Helper()
	ids := make([]hook.ID, len(endpoints))
	for i, e := range endpoints {
		ids[i] = e.ID
	}
	got, err := w.db.RetryDepths(w.ctx(), ids, w.now, limit)
	w.check(err, "RetryDepths")
	out := make(map[hook.ID]store.RetryDepth, len(got))
	for _, d := range got {
		out[d.EndpointID] = d
	}
	if len(out) != len(endpoints) {
		w.t.Fatalf("%d depths of %d endpoints", len(out), len(endpoints))
	}
	return out
}

func (w *world) wantDepth(e hook.Endpoint, limit int, depth int64, atLeast bool, when string) {
	w.t.Helper()
	want := store.RetryDepth{EndpointID: e.ID, Depth: depth, AtLeast: atLeast}
	w.same(w.depths(limit, e)[e.ID], want, "depth "+when)
}

func depthOfRetries(w *world) {
	ten := w.tenant()
	e, other := w.endpoint(ten), w.endpoint(ten)
	w.wantDepth(e, 100, 0, false, "of an endpoint without deliveries")
	var settles []*store.Settle
	for _, a := range []*store.Accept{w.stored(ten, e), w.stored(ten, e), w.stored(ten, e, other)} {
		settles = append(settles, w.retry(a.Deliveries[0], time.Minute))
	}
	w.stored(ten, e) // never tried
	done := w.stored(ten, e)
	w.written(append(settles, w.success(done.Deliveries[0]))...)
	w.wantDepth(e, 100, 3, false, "with three retries waiting")
	w.pass(2 * time.Minute)
	w.wantDepth(e, 100, 3, false, "when they are due")
	got := w.depths(100, e, other)
	if got[e.ID].Depth != 3 || got[other.ID].Depth != 0 {
		w.t.Errorf("depths of two endpoints = %v", got)
	}
	gone := hook.Endpoint{ID: w.id()}
	w.wantDepth(gone, 100, 0, false, "of an endpoint that is not there")
}

// depthOfHeld blocks a lane in all the ways there are. Two deliveries are due,
// one of them after a failure, and one more retry is not due yet.
func depthOfHeld(w *world) {
	for name, block := range map[string]func(e hook.Endpoint){
		"open": func(e hook.Endpoint) {
			save := w.laneSave(e.ID, 0)
			save.Checkpoint.Open, save.Checkpoint.OpenedAt = true, w.now
			w.commit(&store.Batch{Lanes: []*store.LaneSave{save}})
		},
		"told to wait": func(e hook.Endpoint) {
			save := w.laneSave(e.ID, 0)
			save.Checkpoint.Open, save.Checkpoint.HoldUntil = false, w.now.Add(time.Hour)
			w.commit(&store.Batch{Lanes: []*store.LaneSave{save}})
		},
		"paused": func(e hook.Endpoint) {
			e.State = hook.Paused
			_, err := w.db.UpdateEndpoint(w.ctx(), e, w.audit(e.TenantID, "endpoint.pause"))
			w.check(err, "UpdateEndpoint")
		},
	} {
		ten := w.tenant()
		e := w.endpoint(ten)
		due, later := w.stored(ten, e), w.stored(ten, e)
		w.written(w.retry(due.Deliveries[0], time.Second), w.retry(later.Deliveries[0], time.Hour))
		w.stored(ten, e)
		w.store(dueAt(w.accept(ten, e), w.now.Add(time.Hour))) // scheduled: nobody holds it
		w.pass(time.Minute)
		w.wantDepth(e, 100, 2, false, "before the lane is "+name)
		block(e)
		w.wantDepth(e, 100, 3, false, "while the lane is "+name)
	}
}

func depthLimit(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	accepts := w.accepts(5, ten, e)
	w.store(accepts...)
	w.wantDepth(e, 10, 0, false, "of a live backlog")
	w.wantDepth(e, 5, 0, true, "of a live backlog beyond the limit")
	save := w.laneSave(e.ID, 0)
	save.Checkpoint.Open, save.Checkpoint.OpenedAt = true, w.now
	w.commit(&store.Batch{Lanes: []*store.LaneSave{save}})
	w.wantDepth(e, 6, 5, false, "below the limit")
	w.wantDepth(e, 5, 5, true, "at the limit")
	w.wantDepth(e, 3, 3, true, "beyond the limit")
	var settles []*store.Settle
	for _, a := range accepts[:3] {
		settles = append(settles, w.retry(a.Deliveries[0], time.Hour))
	}
	w.written(settles...)
	w.wantDepth(e, 6, 5, false, "held and retrying")
	w.wantDepth(e, 4, 4, true, "held and retrying together beyond the limit")
}

func (w *world) laneWatch(e hook.Endpoint) hook.LaneWatch {
	return hook.LaneWatch{
		EndpointID: e.ID, TenantID: e.TenantID, UpdatedAt: w.now,
		Storm: hook.Storm{Since: w.now.Add(-time.Minute), First: 3, Retries: 120},
		Queue: hook.RetryQueue{Depth: 10_000, AtLeast: true, Since: w.now.Add(-time.Hour), DrainPerMinute: -12.5},
	}
}

func (w *world) saveWatch(lanes ...hook.LaneWatch) {
	w.t.Helper()
	w.check(w.db.SaveWatch(w.ctx(), store.WatchSave{Lanes: lanes}), "SaveWatch")
}

func (w *world) watches(endpoints ...hook.ID) []hook.LaneWatch {
	w.t.Helper()
	got, err := w.db.LaneWatches(w.ctx(), endpoints)
	w.check(err, "LaneWatches")
	return got
}

func watchRoundTrip(w *world) {
	ten := w.tenant()
	e, other := w.endpoint(ten), w.endpoint(ten)
	full := w.laneWatch(e)
	calm := hook.LaneWatch{EndpointID: e.ID, TenantID: ten.ID, UpdatedAt: w.now.Add(time.Second), Storm: hook.Storm{Retries: 7}}
	for name, want := range map[string]hook.LaneWatch{"full": full, "calm": calm} {
		w.check(w.db.SaveWatch(w.ctx(), store.WatchSave{Gone: []hook.ID{e.ID}}), "SaveWatch")
		w.saveWatch(want)
		w.same(w.watches(e.ID, other.ID), []hook.LaneWatch{want}, name)
	}
	w.saveWatch(w.laneWatch(other))
	w.check(w.db.SaveWatch(w.ctx(), store.WatchSave{Gone: []hook.ID{e.ID}}), "SaveWatch")
	w.same(w.watches(e.ID), []hook.LaneWatch{}, "after it is gone")
	if len(w.watches(other.ID)) != 1 {
		w.t.Error("another endpoint's row left too")
	}
	w.check(w.db.SaveWatch(w.ctx(), store.WatchSave{}), "SaveWatch of nothing")
}

func watchLater(w *world) {
	e := w.endpoint(w.tenant())
	first, second := w.laneWatch(e), w.laneWatch(e)
	second.UpdatedAt = first.UpdatedAt.Add(time.Second)
	second.Storm.Retries = 999
	w.saveWatch(second)
	w.saveWatch(first)
	w.same(w.watches(e.ID), []hook.LaneWatch{second}, "row after a late save of the earlier owner")
	w.saveWatch(second)
	second.UpdatedAt = second.UpdatedAt.Add(time.Second)
	second.Storm.Since = time.Time{}
	w.saveWatch(second)
	w.same(w.watches(e.ID), []hook.LaneWatch{second}, "row after the next save")
}

func watchActive(w *world) {
	ten := w.tenant()
	all := w.endpoints(ten, 3)
	storm, warning, calm := w.laneWatch(all[0]), w.laneWatch(all[1]), w.laneWatch(all[2])
	storm.Queue.Since, warning.Storm.Since = time.Time{}, time.Time{}
	storm.UpdatedAt = w.now.Add(time.Second)
	calm.Queue.Since, calm.Storm.Since = time.Time{}, time.Time{}
	w.saveWatch(storm, warning, calm)
	got, err := w.db.ActiveLaneWatches(w.ctx(), 10)
	w.check(err, "ActiveLaneWatches")
	w.same(got, []hook.LaneWatch{warning, storm}, "active watches")
	got, err = w.db.ActiveLaneWatches(w.ctx(), 1)
	w.check(err, "ActiveLaneWatches")
	w.same(got, []hook.LaneWatch{warning}, "the one that waited longest")
}

func watchNodes(w *world) {
	a := hook.NodeWatch{NodeID: w.node.ID, Lanes: 40, Opened: 5, Depth: 1 << 40, UpdatedAt: w.now, Health: hook.NodeHealth{
		Name: "one", CommitP99: time.Second, OldestResult: time.Minute, ClockOffset: -3 * time.Second, DiskFree: 1 << 41, DiskReserve: 1 << 30,
	}}
	b := hook.NodeWatch{NodeID: w.id(), Lanes: 1, UpdatedAt: w.now.Add(-time.Minute)}
	for _, n := range []hook.NodeWatch{{NodeID: a.NodeID, Lanes: 1, UpdatedAt: w.now.Add(-time.Second)}, a, b} {
		w.check(w.db.SaveWatch(w.ctx(), store.WatchSave{Node: &n}), "SaveWatch")
	}
	got, err := w.db.NodeWatches(w.ctx(), w.now.Add(-30*time.Second))
	w.check(err, "NodeWatches")
	w.same(got, []hook.NodeWatch{a}, "nodes of the last half minute")
	if got, err = w.db.NodeWatches(w.ctx(), b.UpdatedAt); err != nil || len(got) != 2 {
		w.t.Errorf("NodeWatches = %v, %v, want both", got, err)
	}
}

func watchSystem(w *world) {
	read := func() []hook.SystemWatch {
		w.t.Helper()
		got, err := w.db.SystemWatches(w.ctx())
		w.check(err, "SystemWatches")
		return got
	}
	w.same(read(), []hook.SystemWatch{}, "signals at first")
	growing, opening := hook.SystemWatch{Signal: hook.QueuesGrowing, Since: w.now}, hook.SystemWatch{Signal: hook.BreakersOpening, Since: w.now}
	for _, s := range []hook.SystemWatch{opening, growing, growing} {
		w.check(w.db.SetSystemWatch(w.ctx(), s), "SetSystemWatch")
	}
	w.same(read(), []hook.SystemWatch{growing, opening}, "raised signals")
	for range 2 {
		w.check(w.db.SetSystemWatch(w.ctx(), hook.SystemWatch{Signal: hook.QueuesGrowing}), "SetSystemWatch")
	}
	w.same(read(), []hook.SystemWatch{opening}, "signals after one ended")
}

func listLanes(w *world) {
	ten, other, third := w.tenant(), w.tenant(), w.tenant()
	all := w.endpoints(ten, 5)     // one with a storm, with a warning, open, paused, and calm
	moods := w.endpoints(third, 3) // one that was told to wait, one that was and may go on, one on its way back
	foreign, deleted := w.endpoint(other), w.endpoint(ten)
	storm, warning := w.laneWatch(all[0]), w.laneWatch(all[1])
	storm.Queue.Since, warning.Storm.Since = time.Time{}, time.Time{}
	w.saveWatch(storm, warning, w.laneWatch(foreign), w.laneWatch(deleted))
	save := w.laneSave(all[2].ID, 0)
	save.Checkpoint.Open, save.Checkpoint.OpenedAt = true, w.now
	w.commit(&store.Batch{Lanes: []*store.LaneSave{save}})
	told, may, back := w.laneSave(moods[0].ID, 0), w.laneSave(moods[1].ID, 0), w.laneSave(moods[2].ID, 0)
	told.Checkpoint.HoldUntil, may.Checkpoint.HoldUntil, back.Checkpoint.HoldUntil = w.now.Add(time.Second), w.now, time.Time{}
	told.Checkpoint.Recovery, may.Checkpoint.Recovery, back.Checkpoint.Recovery = 0, 0, 2.5
	w.commit(&store.Batch{Lanes: []*store.LaneSave{told, may, back}})
	all[3].State = hook.Paused
	_, err := w.db.UpdateEndpoint(w.ctx(), all[3], w.audit(ten.ID, "endpoint.pause"))
	w.check(err, "UpdateEndpoint")
	all[4].Description, all[4].Types = "Orders, 100%_A", []string{"order.*", "x_y"}
	_, err = w.db.UpdateEndpoint(w.ctx(), all[4], w.audit(ten.ID, "endpoint.change"))
	w.check(err, "UpdateEndpoint")
	_, err = w.db.DeleteEndpoint(w.ctx(), ten.ID, deleted.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")

	yes, no := new(bool), new(bool)
	*yes = true
	newest := store.Page{Limit: 10}
	for name, tc := range map[string]struct {
		filter store.LaneFilter
		page   store.Page
		want   []hook.Endpoint
	}{
		"all of a tenant":      {store.LaneFilter{Tenant: ten.ID}, newest, []hook.Endpoint{all[4], all[3], all[2], all[1], all[0]}},
		"storms of a tenant":   {store.LaneFilter{Tenant: ten.ID, Storm: yes}, newest, []hook.Endpoint{all[0]}},
		"storms everywhere":    {store.LaneFilter{Storm: yes}, newest, []hook.Endpoint{foreign, all[0]}},
		"oldest first, second": {store.LaneFilter{Storm: yes}, store.Page{Limit: 1, Asc: true, After: all[0].ID}, []hook.Endpoint{foreign}},
		"warnings":             {store.LaneFilter{Tenant: ten.ID, Growing: yes}, newest, []hook.Endpoint{all[1]}},
		"both":                 {store.LaneFilter{Storm: yes, Growing: yes}, newest, []hook.Endpoint{foreign}},
		"without a storm":      {store.LaneFilter{Tenant: ten.ID, Storm: no}, newest, []hook.Endpoint{all[4], all[3], all[2], all[1]}},
		"open":                 {store.LaneFilter{Open: yes}, newest, []hook.Endpoint{all[2]}},
		"open with a storm":    {store.LaneFilter{Open: yes, Storm: yes}, newest, nil},
		"closed":               {store.LaneFilter{Tenant: ten.ID, Open: no}, newest, []hook.Endpoint{all[4], all[3], all[1], all[0]}},
		"paused":               {store.LaneFilter{Paused: yes}, newest, []hook.Endpoint{all[3]}},
		"told to wait":         {store.LaneFilter{Tenant: third.ID, Hold: yes, Now: w.now}, newest, []hook.Endpoint{moods[0]}},
		"not told to wait":     {store.LaneFilter{Tenant: third.ID, Hold: no, Now: w.now}, newest, []hook.Endpoint{moods[2], moods[1]}},
		"told, and back":       {store.LaneFilter{Tenant: third.ID, Hold: yes, Now: w.now, Recovering: yes}, newest, nil},
		"on their way back":    {store.LaneFilter{Tenant: third.ID, Recovering: yes}, newest, []hook.Endpoint{moods[2]}},
		"not on their way":     {store.LaneFilter{Tenant: third.ID, Recovering: no}, newest, []hook.Endpoint{moods[1], moods[0]}},
		"states":               {store.LaneFilter{Tenant: ten.ID, States: []hook.EndpointState{hook.Paused, hook.Disabled}}, newest, []hook.Endpoint{all[3]}},
		"a type under a star":  {store.LaneFilter{Text: "orders", Type: "order.item.paid"}, newest, []hook.Endpoint{all[4]}},
		"a type by its name":   {store.LaneFilter{Text: "orders", Type: "x_y"}, newest, []hook.Endpoint{all[4]}},
		"a type but for case":  {store.LaneFilter{Text: "orders", Type: "Order.item"}, newest, nil},
		"the start of a type":  {store.LaneFilter{Text: "orders", Type: "order"}, newest, nil},
		"one endpoint":         {store.LaneFilter{Endpoint: all[1].ID}, newest, []hook.Endpoint{all[1]}},
		"a part of its text":   {store.LaneFilter{Text: "orders, 100%_a"}, newest, []hook.Endpoint{all[4]}},
		"no wild cards":        {store.LaneFilter{Text: "orders%a"}, newest, nil},
		"text of a calm one":   {store.LaneFilter{Text: "ORDERS", Open: yes}, newest, nil},
		"a page":               {store.LaneFilter{Tenant: ten.ID}, store.Page{Limit: 2, After: all[3].ID}, []hook.Endpoint{all[2], all[1]}},
	} {
		got, err := w.db.ListLanes(w.ctx(), tc.filter, tc.page)
		w.check(err, "ListLanes "+name)
		w.same(endpointIDs(got), endpointIDs(tc.want), name)
		if tc.page != newest {
			continue
		}
		n, err := w.db.CountLanesLike(w.ctx(), tc.filter, 3)
		w.check(err, "CountLanesLike "+name)
		w.same(n, int64(min(len(tc.want), 3)), "count of "+name)
	}
	halted, err := w.db.HaltedEndpoints(w.ctx(), 10)
	w.check(err, "HaltedEndpoints")
	w.same(halted, []store.HaltedEndpoint{{EndpointID: all[3].ID, TenantID: ten.ID, State: hook.Paused}}, "halted endpoints")
}

func endpointIDs(list []hook.Endpoint) []hook.ID {
	out := make([]hook.ID, len(list))
	for i, e := range list {
		out[i] = e.ID
	}
	return out
}

func (w *world) operational(tenant, endpoint hook.ID, t hook.OperationalType) hook.OperationalEvent {
	w.t.Helper()
	w.pass(time.Second)
	return hook.OperationalEvent{
		ID: w.id(), TenantID: tenant, EndpointID: endpoint, Type: t, At: w.now, Detail: json.RawMessage(`{"retries":120,"ratio":24.5}`),
	}
}

func listOperational(w *world) {
	ten, other := w.tenant().ID, w.tenant().ID
	e1, e2 := w.id(), w.id()
	events := []hook.OperationalEvent{
		w.operational(ten, e1, hook.StormStarted),
		w.operational(ten, e2, hook.BreakerOpened),
		w.operational(other, w.id(), hook.BreakerOpened),
		w.operational(0, 0, hook.BreakersMany),
		w.operational(ten, e1, hook.StormEnded),
	}
	w.check(w.db.WriteOperational(w.ctx(), events), "WriteOperational")
	pick := func(indexes ...int) (out []hook.OperationalEvent) {
		for _, i := range indexes {
			out = append(out, events[i])
		}
		return out
	}
	newest := store.Page{Limit: 10}
	for name, tc := range map[string]struct {
		filter store.OperationalFilter
		page   store.Page
		want   []hook.OperationalEvent
	}{
		"all":                {store.OperationalFilter{}, newest, pick(4, 3, 2, 1, 0)},
		"of a tenant":        {store.OperationalFilter{Tenant: ten}, newest, pick(4, 1, 0)},
		"of an endpoint":     {store.OperationalFilter{Tenant: ten, Endpoints: []hook.ID{e1}}, newest, pick(4, 0)},
		"of two endpoints":   {store.OperationalFilter{Endpoints: []hook.ID{e2, e1}}, newest, pick(4, 1, 0)},
		"of a foreign one":   {store.OperationalFilter{Tenant: other, Endpoints: []hook.ID{e1}}, newest, nil},
		"of a type":          {store.OperationalFilter{Types: []hook.OperationalType{hook.BreakerOpened}}, newest, pick(2, 1)},
		"of two types":       {store.OperationalFilter{Tenant: ten, Types: []hook.OperationalType{hook.BreakerOpened, hook.StormEnded}}, newest, pick(4, 1)},
		"since, until":       {store.OperationalFilter{Since: events[1].At, Until: events[3].At}, newest, pick(2, 1)},
		"oldest first, next": {store.OperationalFilter{Tenant: ten}, store.Page{Limit: 1, Asc: true, After: events[0].ID}, pick(1)},
	} {
		got, err := w.db.ListOperational(w.ctx(), tc.filter, tc.page)
		w.check(err, "ListOperational "+name)
		w.same(got, tc.want, name)
	}
}

func rewriteOperational(w *world) {
	first := w.operational(w.tenant().ID, 0, hook.EndpointDisabled)
	again := first
	again.Detail = json.RawMessage(`{}`)
	second := w.operational(first.TenantID, 0, hook.EndpointDisabled)
	second.Detail = nil
	w.check(w.db.WriteOperational(w.ctx(), []hook.OperationalEvent{first}), "WriteOperational")
	w.check(w.db.WriteOperational(w.ctx(), []hook.OperationalEvent{again, second}), "WriteOperational again")
	second.Detail = json.RawMessage(`{}`)
	got, err := w.db.ListOperational(w.ctx(), store.OperationalFilter{}, store.Page{Limit: 10})
	w.check(err, "ListOperational")
	w.same(got, []hook.OperationalEvent{second, first}, "events")
	if id, err := w.db.MaxID(w.ctx()); err != nil || (id < second.ID && !w.db.Shared()) {
		w.t.Errorf("MaxID = %d, %v, want at least %d", id, err, second.ID)
	}
}

func pruneWatch(w *world) {
	ten := w.tenant()
	all := w.endpoints(ten, 2)
	var old []hook.OperationalEvent
	for range 7 { // more than two steps
		old = append(old, w.operational(ten.ID, all[0].ID, hook.BreakerOpened))
	}
	calm := hook.LaneWatch{EndpointID: all[0].ID, TenantID: ten.ID, Storm: hook.Storm{Retries: 1}, UpdatedAt: w.now}
	w.check(w.db.SaveWatch(w.ctx(), store.WatchSave{
		Lanes: []hook.LaneWatch{calm, w.laneWatch(all[1])}, Node: &hook.NodeWatch{NodeID: w.node.ID, Lanes: 1, UpdatedAt: w.now},
	}), "SaveWatch")
	w.pass(10 * day)
	recent := w.operational(ten.ID, all[0].ID, hook.BreakerClosed)
	w.check(w.db.WriteOperational(w.ctx(), append(old, recent)), "WriteOperational")
	w.prune(w.now.Add(-5*day), w.now)
	got, err := w.db.ListOperational(w.ctx(), store.OperationalFilter{}, store.Page{Limit: 10})
	w.check(err, "ListOperational")
	w.same(got, []hook.OperationalEvent{recent}, "what is left")
	left := w.watches(all[0].ID, all[1].ID)
	if len(left) != 1 || left[0].EndpointID != all[1].ID {
		w.t.Errorf("watches left: %v, want that of the storm only: its owner ends it", left)
	}
	if nodes, err := w.db.NodeWatches(w.ctx(), w.now.Add(-100*day)); err != nil || len(nodes) != 0 {
		w.t.Errorf("nodes left: %v, %v", nodes, err)
	}
}
