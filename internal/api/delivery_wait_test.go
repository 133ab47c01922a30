package api_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// waiting makes one endpoint for each thing that a delivery can wait for, and
// returns which delivery waits for what.
func (w *world) waiting() (byWait map[string]string) {
	w.t.Helper()
	now := w.clock.now()
	byWait = map[string]string{}
	for _, e := range []struct {
		uid, wait string
		policy    map[string]any
		lane      *lane.Checkpoint
	}{
		{"paused", "paused", nil, &lane.Checkpoint{Open: true, OpenedAt: now, Recovery: 3}},
		{"open", "open", nil, &lane.Checkpoint{Open: true, OpenedAt: now, HoldUntil: now.Add(time.Hour)}},
		{"hold", "hold", nil, &lane.Checkpoint{HoldUntil: now.Add(time.Hour), Recovery: 3}},
		{"pace", "pace", nil, &lane.Checkpoint{Recovery: 3, HoldUntil: now.Add(-time.Second)}},
		{"limited", "pace", map[string]any{"rate_limit": map[string]any{"per_second": 1, "burst": 1}}, nil},
		{"free", "", nil, &lane.Checkpoint{Usual: 3}},
		{"unknown", "", nil, nil},
	} {
		id := endpointID(w.t, w.endpoint(w.a, map[string]any{"uid": e.uid, "types": []string{e.uid}, "policy": e.policy}))
		if e.lane != nil {
			w.checkpoint(w.a.tenant, id, *e.lane)
		}
		w.event(w.a, e.uid)
		rows := w.deliveries(w.a)
		byWait[hook.DeliveryPrefix.Format(rows[len(rows)-1].ID)] = e.wait
	}
	w.must(200, http.MethodPost, acmeEndpoints+"/paused/pause", w.a.write, nil)
	return byWait
}

func TestDeliverySaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id, want := range w.waiting() {
		m := w.must(200, http.MethodGet, "/v1/tenants/acme/deliveries/"+id, w.a.read, nil).object(t)
		got, known := m["waiting_for"]
		if text, _ := got.(string); !known || text != want {
			t.Errorf("delivery of %v waits for %v, want %q", m["type"], got, want)
		}
	}
}

func TestDeliveriesThatWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	byWait := w.waiting()
	rows := w.deliveries(w.a)
	pacedAgain := rows[3] // of the endpoint called pace
	list := func(query string) []string {
		t.Helper()
		ids, _ := w.page("/v1/tenants/acme/deliveries?"+query, w.a.read)
		count := w.must(200, http.MethodGet, "/v1/tenants/acme/deliveries/count?"+query, w.a.read, nil).object(t)
		if count["count"] != float64(len(ids)) || count["exact"] != true {
			t.Errorf("%s: %d listed, %v counted", query, len(ids), count)
		}
		slices.Sort(ids)
		return ids
	}
	of := func(waits ...string) (ids []string) {
		for id, wait := range byWait {
			if slices.Contains(waits, wait) {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		return ids
	}
	paced := hook.DeliveryPrefix.Format(pacedAgain.ID)
	for query, want := range map[string][]string{
		"waiting_for=paused":                            of("paused"),
		"waiting_for=open":                              of("open"),
		"waiting_for=hold":                              of("hold"),
		"waiting_for=pace":                              of("pace"),
		"waiting_for=pace&waiting_for=hold":             of("pace", "hold"),
		"waiting_for=pace&endpoint=pace":                {paced},
		"waiting_for=pace&endpoint=free":                nil,
		"waiting_for=open&endpoint=pace":                nil,
		"waiting_for=pace&type=limited":                 {hook.DeliveryPrefix.Format(rows[4].ID)},
		"waiting_for=pace&status=pending":               of("pace"),
		"waiting_for=pace&status=dead":                  nil,
		"waiting_for=open&status=held":                  of("open"),
		"waiting_for=pace&status=held":                  nil,
		"waiting_for=pace&status=retrying":              nil,
		"waiting_for=pace&event=" + eventOf(pacedAgain): {paced},
	} {
		if diff := cmp.Diff(want, list(query), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	// What is not due yet waits for its time, not for the lane.
	pacedAgain.DueAt = w.clock.now().Add(time.Hour)
	w.settle(pacedAgain, hook.Pending, 0)
	m := w.must(200, http.MethodGet, "/v1/tenants/acme/deliveries/"+paced, w.a.read, nil).object(t)
	if m["waiting_for"] != nil {
		t.Errorf("a delivery that is due at %v waits for %v", m["due_at"], m["waiting_for"])
	}
	if got := list("waiting_for=pace&endpoint=pace"); len(got) != 0 {
		t.Errorf("%v wait for a pace before they are due", got)
	}
}

func eventOf(d store.DeliveryRow) string { return hook.EventPrefix.Format(d.EventID) }

// TestWaitingOfAnotherTenant: the id of a foreign endpoint finds nothing.
func TestWaitingOfAnotherTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.waiting()
	e, err := w.db.EndpointByUID(w.ctx(), w.a.tenant, "pace")
	w.ok(err)
	ids, next := w.page("/v1/tenants/bolt/deliveries?waiting_for=pace&endpoint="+hook.EndpointPrefix.Format(e.ID), w.b.read)
	if len(ids) != 0 || next != "" {
		t.Errorf("another tenant sees %v", ids)
	}
}
