package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// replay creates a replay and returns its id.
func (w *world) replay(s side, body string) string {
	w.t.Helper()
	return w.must(http.StatusCreated, http.MethodPost, "/v1/tenants/"+s.id+"/replays", s.write, body).text(w.t, "id")
}

// letters makes n dead letters of every endpoint that takes the type.
func (w *world) letters(s side, typ string, n int) {
	w.t.Helper()
	for range n {
		w.event(s, typ)
	}
	for _, d := range w.deliveries(s) {
		if d.State == hook.Pending {
			w.settle(d, hook.Dead, hook.DeadExhausted)
		}
	}
}

// job reads the stored replay.
func (w *world) job(id string) hook.ReplayJob {
	w.t.Helper()
	parsed, err := hook.ReplayPrefix.Parse(id)
	w.ok(err)
	j, err := w.db.ReplayByID(w.ctx(), 0, parsed)
	w.ok(err)
	return j
}

func TestReplayIsCreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ep := w.endpoint(w.a, map[string]any{"uid": "main", "policy": map[string]any{"replay": map[string]any{"per_minute": 30, "ramp": 3}}})
	w.letters(w.a, "order.paid", 3)
	w.clock.pass(time.Hour)
	r := w.must(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/replays", w.a.write,
		`{"endpoint":"main","reasons":["exhausted"],"types":["order.*"],"since":"2h","until":"2026-03-02T12:00:00Z","max_multiple":2.5}`)
	id := r.text(t, "id")
	if got, want := r.header.Get("Location"), "/v1/tenants/"+w.a.id+"/replays/"+id; got != want {
		t.Errorf("Location = %s, want %s", got, want)
	}
	want := map[string]any{
		"id": id, "tenant": w.a.id, "status": "queued", "pause_reason": nil, "per_minute": 30.0, "current_per_minute": 30.0,
		"max_multiple": 2.5, "pause_error_percent": 10.0, "as_of": "2026-03-02T11:30:15.123Z", "version": 1.0,
		"filter": map[string]any{
			"endpoint": ep, "statuses": []any{"dead"}, "reasons": []any{"exhausted"}, "types": []any{"order.*"},
			"since": "2026-03-02T09:30:15.123456Z", "until": "2026-03-02T12:00:00Z",
		},
		"progress": map[string]any{
			"total": 3.0, "fed": 0.0, "delivered": 0.0, "failed": 0.0, "skipped": 0.0, "percent": 0.0, "eta": nil,
		},
		"created_at": "2026-03-02T11:30:15.123Z", "started_at": nil, "finished_at": nil,
	}
	got := r.object(t)
	if by, _ := got["created_by"].(string); !strings.HasPrefix(by, "key_") {
		t.Errorf("created_by = %v", got["created_by"])
	}
	delete(got, "created_by")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replay (-want +got):\n%s", diff)
	}
	if j := w.job(id); j.Ramp != 3 || j.EndID != store.ReplayEnd(w.clock.now()) || j.EndpointID == 0 {
		t.Errorf("stored ramp %v, upto %d, endpoint %d", j.Ramp, j.EndID, j.EndpointID)
	}
	again := w.must(http.StatusOK, http.MethodGet, "/v1/tenants/-/replays/"+id, w.adminRead, nil)
	if again.header.Get("ETag") != `"1"` {
		t.Errorf("ETag = %s", again.header.Get("ETag"))
	}
	delete(want, "created_by")
	shown := again.object(t)
	delete(shown, "created_by")
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("replay, read again (-want +got):\n%s", diff)
	}
}

func TestReplayOfNamedDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, nil)
	w.letters(w.a, "order.paid", 2)
	w.event(w.a, "order.paid")
	rows := w.deliveries(w.a)
	ids := make([]string, len(rows))
	for i, d := range rows {
		ids[i] = hook.DeliveryPrefix.Format(d.ID)
	}
	body, err := json.Marshal(map[string]any{"delivery_ids": slices.Concat(ids, ids[:1])})
	w.ok(err)
	j := w.job(w.replay(w.a, string(body)))
	if j.Total != 3 || len(j.Filter.Deliveries) != 3 || len(j.Filter.States) != 3 {
		t.Errorf("total %d, filter %+v", j.Total, j.Filter)
	}
	if j.EndpointID != rows[0].EndpointID {
		t.Errorf("endpoint %d: all of it belongs to %d", j.EndpointID, rows[0].EndpointID)
	}
}

func TestPreviewTellsWhatAReplayWouldDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone := w.endpoint(w.a, map[string]any{"uid": "gone", "types": []string{"a"}})
	off := w.endpoint(w.a, map[string]any{"uid": "off", "types": []string{"a"}})
	open := w.endpoint(w.a, map[string]any{"uid": "open", "types": []string{"a", "b"}})
	well := w.endpoint(w.a, map[string]any{"uid": "well", "types": []string{"a", "b", "c"}})
	w.letters(w.a, "a", 1)
	w.letters(w.a, "b", 1)
	w.letters(w.a, "c", 1)
	w.event(w.a, "c")
	rows := w.deliveries(w.a)
	w.settle(rows[len(rows)-1], hook.Delivered, 0)
	w.must(200, http.MethodDelete, "/v1/tenants/acme/endpoints/gone", w.a.write, nil)
	w.must(200, http.MethodPost, "/v1/tenants/acme/endpoints/off/disable", w.a.write, nil)
	w.openLane(open)
	w.clock.pass(8 * 24 * time.Hour)
	before := w.dump()
	preview := func(body string) map[string]any {
		return w.must(http.StatusOK, http.MethodPost, "/v1/tenants/acme/replays", w.a.write, body).object(t)
	}
	part := func(endpoint string, n int, state string) map[string]any {
		return map[string]any{"endpoint": endpoint, "count": float64(n), "state": state}
	}
	got := preview(`{"all":true,"statuses":["dead","delivered"],"per_minute":60,"dry_run":true}`)
	want := map[string]any{
		"count": 8.0, "exact": true, "estimated_seconds": 8.0,
		"per_endpoint": []any{part(well, 4, "closed"), part(open, 2, "open"), part(gone, 1, "deleted"), part(off, 1, "disabled")},
		"warnings": []any{
			"2 belong to endpoints that are deleted or disabled and will be skipped",
			"1 of 4 endpoints take nothing now: the replay will wait for them",
			"some were delivered more than 7 days ago: receivers may have forgotten their ids and take them for new",
		},
		"per_minute": 60.0, "missing": 0.0, "max_multiple": 10.0, "pause_error_percent": 10.0,
		"course": []any{map[string]any{"after_seconds": 0.0, "per_minute": 60.0, "sent": 8.0}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("preview (-want +got):\n%s", diff)
	}
	got = preview(`{"types":["nothing"],"dry_run":true}`)
	want = map[string]any{
		"count": 0.0, "exact": true, "estimated_seconds": 0.0, "per_endpoint": []any{}, "warnings": []any{},
		"per_minute": 100.0, "missing": 0.0, "max_multiple": 10.0, "pause_error_percent": 10.0, "course": []any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("empty preview (-want +got):\n%s", diff)
	}
	if w.dump() != before {
		t.Error("a dry run changed the store")
	}
}

// openLane stores a checkpoint of an open lane.
func (w *world) openLane(endpoint string) {
	w.t.Helper()
	id, err := hook.EndpointPrefix.Parse(endpoint)
	w.ok(err)
	shard := hook.ShardOf(id)
	w.ok(w.db.Commit(w.ctx(), &store.Batch{Node: w.node.ID, Now: w.clock.now(), Lanes: []*store.LaneSave{{
		Endpoint: id, Tenant: w.a.tenant, Shard: shard, Epoch: w.epochs[shard], Checkpoint: lane.Checkpoint{Open: true, Limit: 1},
	}}}))
}

func TestReplayTellsHowFarItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, nil)
	w.letters(w.a, "a", 10)
	id := w.replay(w.a, `{"all":true,"per_minute":60}`)
	j := w.job(id)
	started, err := w.db.StartReplay(w.ctx(), j.ID, w.clock.now(), w.record())
	if err != nil || !started {
		t.Fatal(started, err)
	}
	_, err = w.db.FeedReplay(w.ctx(), store.Feed{Replay: w.job(id), Limit: 4, Now: w.clock.now(), PacedAt: w.clock.now()})
	w.ok(err)
	rows := w.deliveries(w.a)
	w.settle(rows[0], hook.Delivered, 0)
	w.settle(rows[1], hook.Dead, hook.DeadExhausted)
	got := w.must(200, http.MethodGet, "/v1/tenants/acme/replays/"+id, w.a.read, nil).object(t)
	want := map[string]any{
		"total": 10.0, "fed": 4.0, "delivered": 1.0, "failed": 1.0, "skipped": 0.0, "percent": 20.0,
		"eta": "2026-03-02T10:30:21.123Z", // 6 more at one a second
	}
	if diff := cmp.Diff(want, got["progress"]); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	d := w.must(200, http.MethodGet, "/v1/tenants/acme/deliveries/"+hook.DeliveryPrefix.Format(rows[2].ID), w.a.read, nil).object(t)
	if d["status"] != "pending" || d["run"] != 2.0 || d["replay"] != id {
		t.Errorf("a fed delivery is %v in run %v of %v", d["status"], d["run"], d["replay"])
	}
}

func TestReplayFollowsCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, map[string]any{"uid": "main"})
	w.letters(w.a, "a", 3)
	id := w.replay(w.a, `{"endpoint":"main"}`)
	path := "/v1/tenants/acme/replays/" + id
	act := func(action string) string {
		m := w.must(200, http.MethodPost, path+"/"+action, w.a.write, `{"note":"why"}`).object(t)
		return fmt.Sprintf("%v %v %v", m["status"], m["pause_reason"], m["version"])
	}
	steps := []struct{ action, want string }{
		{"resume", "queued <nil> 1"}, // nothing to do
		{"pause", "paused user 2"},
		{"pause", "paused user 2"},
		{"resume", "queued <nil> 3"},
	}
	for _, s := range steps {
		if got := act(s.action); got != s.want {
			t.Errorf("%s: %s, want %s", s.action, got, s.want)
		}
	}

	// A stuck replay gets a clean slate.
	j := w.job(id)
	j.State, j.PauseReason, j.SelfPauses, j.CurrentPerMinute = hook.ReplayPaused, hook.PausedStuck, 3, 800
	_, err := w.db.UpdateReplay(w.ctx(), j, nil)
	w.ok(err)
	if got := act("resume"); got != "queued <nil> 5" {
		t.Errorf("resume of a stuck one: %s", got)
	}
	if j := w.job(id); j.SelfPauses != 0 || j.CurrentPerMinute != 100 {
		t.Errorf("%d pauses, %d per minute", j.SelfPauses, j.CurrentPerMinute)
	}

	// Not towards an endpoint that is off.
	act("pause")
	w.must(200, http.MethodPost, "/v1/tenants/acme/endpoints/main/disable", w.a.write, nil)
	if p := w.must(409, http.MethodPost, path+"/resume", w.a.write, nil).problem(t); p.Code != "endpoint_disabled" {
		t.Errorf("resume towards a disabled endpoint: %s", p.Code)
	}
	if got := act("cancel"); got != "cancelled <nil> 7" || w.job(id).FinishedAt.IsZero() {
		t.Errorf("cancel: %s, finished %v", got, w.job(id).FinishedAt)
	}
	for _, action := range []string{"replay.create", "replay.pause", "replay.resume", "replay.cancel"} {
		if !strings.Contains(w.dump("audit"), action) {
			t.Errorf("%s is not in the audit log", action)
		}
	}
	if !strings.Contains(w.dump("audit"), `\"note\":\"why\"`) {
		t.Error("the note is not in the audit log")
	}
}

func TestPaceOfAReplayCanChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, nil)
	id := w.replay(w.a, `{"all":true}`)
	path := "/v1/tenants/acme/replays/" + id
	j := w.job(id)
	j.CurrentPerMinute = 800
	_, err := w.db.UpdateReplay(w.ctx(), j, nil)
	w.ok(err)
	for body, want := range map[string]string{
		`{"max_multiple":20}`:                 "100 800 20", // in any order: each starts from the same
		`{"max_multiple":3}`:                  "100 300 3",
		`{"per_minute":50}`:                   "50 50 10",
		`{"per_minute":2,"max_multiple":1.5}`: "2 2 1.5",
	} {
		j := w.job(id)
		j.PerMinute, j.CurrentPerMinute, j.MaxMultiple = 100, 800, 10
		_, err := w.db.UpdateReplay(w.ctx(), j, nil)
		w.ok(err)
		m := w.must(200, http.MethodPatch, path, w.a.write, body).object(t)
		if got := fmt.Sprint(m["per_minute"], " ", m["current_per_minute"], " ", m["max_multiple"]); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	version := w.job(id).Version
	w.must(200, http.MethodPatch, path, w.a.write, `{"per_minute":9}`, "If-Match", fmt.Sprintf(`"%d"`, version))
	w.must(412, http.MethodPatch, path, w.a.write, `{"per_minute":10}`, "If-Match", fmt.Sprintf(`"%d"`, version))
}

func TestReplaysAreListedByStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, nil)
	var ids []string
	for range 4 {
		ids = append(ids, w.replay(w.a, `{"all":true}`))
	}
	w.must(200, http.MethodPost, "/v1/tenants/acme/replays/"+ids[1]+"/cancel", w.a.write, nil)
	list := "/v1/tenants/acme/replays"
	first, cursor := w.page(list+"?limit=2&status=queued", w.a.read)
	second, _ := w.page(list+"?limit=2&status=queued&cursor="+cursor, w.a.read)
	if diff := cmp.Diff([]string{ids[3], ids[2], ids[0]}, append(first, second...)); diff != "" {
		t.Errorf("queued (-want +got):\n%s", diff)
	}
	all, _ := w.page(list+"?status=queued&status=cancelled&order=asc", w.a.read)
	if diff := cmp.Diff(ids, all); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
}

func TestReplaysDoNotPileUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, nil)
	for range 100 {
		w.replay(w.a, `{"all":true}`)
	}
	if p := w.must(409, http.MethodPost, "/v1/tenants/acme/replays", w.a.write, `{"all":true}`).problem(t); p.Code != "state_conflict" {
		t.Errorf("the 101st: %s", p.Code)
	}
	w.replay(w.b, `{"all":true}`)
}

// TestReplayOfMissingEvents: an endpoint that came late is told how many events it
// would get, and the replay keeps what it asked for then.
func TestReplayOfMissingEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		w.event(w.a, "order.paid") // payload.n is 1
	}
	w.event(w.a, "refund.made")
	w.must(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+w.a.id+"/events", w.a.send, `{"type":"order.paid","payload":{"n":2}}`)
	w.clock.pass(time.Minute)
	ep := w.endpoint(w.a, map[string]any{"uid": "late", "types": []string{"order.*"}, "filter": "payload.n == 1"})
	w.letters(w.a, "order.paid", 2)
	w.clock.pass(time.Minute)

	path := "/v1/tenants/acme/replays"
	preview := w.must(http.StatusOK, http.MethodPost, path, w.a.write,
		`{"endpoint":"late","since":"1h","include_missing":true,"dry_run":true}`).object(t)
	if preview["count"] != 5.0 || preview["missing"] != 3.0 || preview["exact"] != true {
		t.Errorf("preview: count %v, missing %v, exact %v; want 5, 3 of them missing", preview["count"], preview["missing"], preview["exact"])
	}
	none := w.must(http.StatusOK, http.MethodPost, path, w.a.write, `{"endpoint":"late","since":"1h","dry_run":true}`).object(t)
	if none["count"] != 2.0 || none["missing"] != 0.0 {
		t.Errorf("preview without missing ones: count %v, missing %v", none["count"], none["missing"])
	}
	for body, want := range map[string]int64{
		`{"endpoint":"late","since":"1h","include_missing":true}`:                                       5,
		`{"endpoint":"late","since":"1h","include_missing":true,"types":["refund.*"]}`:                  0,
		`{"endpoint":"late","since":"90s","include_missing":true}`:                                      2,
		`{"endpoint":"late","since":"1h","until":"90s","include_missing":true,"reasons":["exhausted"]}`: 3,
		`{"endpoint":"late","since":"1h","include_missing":true,"statuses":["delivered"]}`:              3,
	} {
		if got := w.job(w.replay(w.a, body)); got.Total != want {
			t.Errorf("%s: total %d, want %d", body, got.Total, want)
		}
	}
	created := w.must(http.StatusCreated, http.MethodPost, path, w.a.write, `{"endpoint":"late","since":"1h","include_missing":true}`)
	filter, _ := created.object(t)["filter"].(map[string]any)
	if filter["include_missing"] != true || filter["endpoint_filter"] != "payload.n == 1" || fmt.Sprint(filter["endpoint_types"]) != "[order.*]" || filter["endpoint"] != ep {
		t.Errorf("filter: %v", filter)
	}
	// What the endpoint asks for later changes nothing.
	w.must(http.StatusOK, http.MethodPatch, "/v1/tenants/acme/endpoints/late", w.a.write, `{"types":["*"],"filter":""}`)
	if m := w.job(created.text(t, "id")).Filter.Missing; m == nil || m.Filter != "payload.n == 1" {
		t.Errorf("stored: %+v", m)
	}
}

// uncounted is a search that has no time.
type uncounted struct{ api.MissingCounter }

func (uncounted) Count(context.Context, time.Time, *hook.ReplayJob, int64) (n int64, exact bool, err error) {
	return 7, false, nil
}

func TestMissingEventsThatAreTooManyToCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *api.Config) {
		cfg.Missing, cfg.Retention = uncounted{}, 24*time.Hour
	})
	w.endpoint(w.a, map[string]any{"uid": "late"})
	const body = `{"endpoint":"late","since":"48h","include_missing":true`
	preview := w.must(http.StatusOK, http.MethodPost, "/v1/tenants/acme/replays", w.a.write, body+`,"dry_run":true}`).object(t)
	if preview["count"] != 7.0 || preview["exact"] != false {
		t.Errorf("preview: count %v, exact %v; want at least 7", preview["count"], preview["exact"])
	}
	if warnings := fmt.Sprint(preview["warnings"]); !strings.Contains(warnings, "older than 1d are removed") {
		t.Errorf("warnings: %s", warnings)
	}
	if j := w.job(w.replay(w.a, body+`}`)); j.Total != -1 || j.EndpointID == 0 {
		t.Errorf("total %d of endpoint %d, want an unknown one", j.Total, j.EndpointID)
	}
}
