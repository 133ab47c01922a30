package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// page is one page of any list.
func (w *world) page(path, key string) (ids []string, cursor string) {
	w.t.Helper()
	body := w.must(200, http.MethodGet, path, key, nil).object(w.t)
	for _, item := range body["data"].([]any) {
		ids = append(ids, item.(map[string]any)["id"].(string))
	}
	cursor, _ = body["next_cursor"].(string)
	return ids, cursor
}

func TestPagesAddUpToTheWholeList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 5 {
		w.tenant(fmt.Sprintf("t%d", i))
		w.endpoint(w.a, nil)
	}
	for range 7 {
		w.event(w.a, "order.paid")
		w.operational(w.a.tenant, 0, hook.BreakerOpened)
	}
	for path, key := range map[string]string{
		"/v1/tenants":                w.admin,
		"/v1/tenants?q=t":            w.admin,
		"/v1/keys":                   w.admin,
		"/v1/tenants/acme/endpoints": w.a.read,
		"/v1/tenants/acme/events":    w.a.read,
		"/v1/tenants/acme/events?type=order.*&type=x": w.a.read,
		"/v1/tenants/-/deliveries":                    w.admin,
		"/v1/tenants/acme/deliveries?status=pending":  w.a.read,
		"/v1/operational-events":                      w.adminRead,
		"/v1/tenants/acme/operational-events?type=*":  w.a.read,
	} {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		all, cursor := w.page(path+sep+"limit=250", key)
		if cursor != "" || len(all) < 5 {
			t.Fatalf("%s: %d items, cursor %q", path, len(all), cursor)
		}
		for _, order := range []string{"desc", "asc"} {
			var got []string
			next := ""
			for {
				ids, cursor := w.page(path+sep+"limit=2&order="+order+"&cursor="+next, key)
				got = append(got, ids...)
				if next = cursor; next == "" || len(got) > len(all) {
					break
				}
			}
			want := slices.Clone(all)
			if order == "asc" {
				slices.Reverse(want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", path, order, diff)
			}
		}
	}
}

// TestPagesAreStable inserts while a client is paging.
func TestPagesAreStable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 4 {
		w.event(w.a, "a")
	}
	first, cursor := w.page("/v1/tenants/acme/events?limit=2", w.a.read)
	w.event(w.a, "a")
	second, _ := w.page("/v1/tenants/acme/events?limit=2&cursor="+cursor, w.a.read)
	if len(second) != 2 || slices.ContainsFunc(second, func(id string) bool { return slices.Contains(first, id) }) {
		t.Errorf("second page %v after first page %v", second, first)
	}
}

func TestCursorsWorkForTheirOwnListOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		w.event(w.a, "a")
		w.event(w.b, "a")
		w.endpoint(w.a, nil)
	}
	const path = "/v1/tenants/acme/events"
	_, cursor := w.page(path+"?limit=1", w.a.read)
	if cursor == "" {
		t.Fatal("no cursor")
	}
	forged := []byte(cursor)
	forged[len(forged)/2] ^= 1
	for name, tc := range map[string]struct{ path, key string }{
		"another tenant":      {"/v1/tenants/bolt/events?limit=1&cursor=" + cursor, w.b.read},
		"all tenants":         {"/v1/tenants/-/events?limit=1&cursor=" + cursor, w.admin},
		"another list":        {"/v1/tenants/acme/endpoints?limit=1&cursor=" + cursor, w.a.read},
		"another filter":      {path + "?type=a&cursor=" + cursor, w.a.read},
		"another order":       {path + "?order=asc&cursor=" + cursor, w.a.read},
		"one bit changed":     {path + "?cursor=" + url.QueryEscape(string(forged)), w.a.read},
		"cut short":           {path + "?cursor=" + cursor[:len(cursor)-4], w.a.read},
		"an id for a cursor":  {path + "?cursor=evt_0000000000000", w.a.read},
		"bytes of no meaning": {path + "?cursor=" + strings.Repeat("A", 60), w.a.read},
	} {
		r := w.do(http.MethodGet, tc.path, tc.key, nil)
		if p := r.problem(t); r.status != 400 || p.Code != "invalid_cursor" {
			t.Errorf("%s = %d %s", name, r.status, r.body)
		}
	}
	w.must(200, http.MethodGet, path+"?limit=3&cursor="+cursor, w.a.read, nil)
	w.must(200, http.MethodGet, path+"/?limit=3&cursor="+cursor, w.a.read, nil) // the same list
}

// TestShortPagesLeadToTheRest finds one delivery among many, looking at few for each page.
func TestShortPagesLeadToTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, map[string]any{"uid": "one"})
	for range 9 {
		w.event(w.a, "order.paid")
	}
	rows := w.deliveries(w.a)
	w.settle(rows[4], hook.Delivered, 0)
	w.look = 2
	const query = "endpoint=one&status=delivered"
	for _, order := range []string{"asc", "desc"} {
		var got []string
		pages, cursor := 0, ""
		for {
			ids, next := w.page("/v1/tenants/acme/deliveries?"+query+"&order="+order+"&cursor="+cursor, w.a.read)
			got = append(got, ids...)
			if pages++; next == "" || pages > 9 {
				break
			}
			cursor = next
		}
		if diff := cmp.Diff([]string{hook.DeliveryPrefix.Format(rows[4].ID)}, got); diff != "" || pages != 5 {
			t.Errorf("%s: %d pages, want 5 (-want +got):\n%s", order, pages, diff)
		}
	}
	for query, want := range map[string]string{
		"?" + query: `{"count":0,"exact":false}`,
		"":          `{"count":9,"exact":true}`,
	} {
		if got := w.must(200, http.MethodGet, "/v1/tenants/acme/deliveries/count"+query, w.a.read, nil); !strings.Contains(string(got.body), want[1:len(want)-1]) {
			t.Errorf("count of %s = %s, want %s", query, got.body, want)
		}
	}
}

func TestDeliveryFiltersSelect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ep1 := w.endpoint(w.a, map[string]any{"uid": "one", "types": []string{"order.*"}})
	ep2 := w.endpoint(w.a, map[string]any{"uid": "two"})
	evt := w.event(w.a, "order.paid") // to both
	w.clock.pass(time.Hour)
	w.event(w.a, "user.new") // to two
	rows := w.deliveries(w.a)
	w.settle(rows[0], hook.Dead, hook.DeadExhausted)
	w.settle(rows[1], hook.Pending, 0)
	w.must(200, http.MethodPost, "/v1/tenants/acme/endpoints/two/pause", w.a.write, nil)
	for query, want := range map[string]int{
		"":                                    3,
		"?status=dead":                        1,
		"?status=dead&status=pending":         3,
		"?status=delivered":                   0,
		"?status=retrying":                    1,
		"?status=held":                        2,
		"?status=held&endpoint=one":           0,
		"?status=held&endpoint=two":           2,
		"?reason=exhausted":                   1,
		"?reason=gone":                        0,
		"?endpoint=one":                       1,
		"?endpoint=" + ep1 + "&endpoint=two":  3,
		"?endpoint=" + ep2 + "&type=user.new": 1,
		"?type=order.*":                       2,
		"?event=" + evt:                       2,
		"?since=30m":                          1,
		"?until=30m":                          2,
		"?since=2h&until=30m&type=order.paid": 2,
		"?since=2026-03-02T11:00:00Z":         1,
	} {
		ids, _ := w.page("/v1/tenants/acme/deliveries"+query, w.a.read)
		count := w.must(200, http.MethodGet, "/v1/tenants/acme/deliveries/count"+query, w.a.read, nil).object(t)
		if len(ids) != want || count["count"] != float64(want) || count["exact"] != true {
			t.Errorf("%s: %d listed, %v counted, want %d", query, len(ids), count["count"], want)
		}
	}
	ids, _ := w.page("/v1/tenants/acme/events/"+evt+"/deliveries", w.a.read)
	if len(ids) != 2 {
		t.Errorf("deliveries of the event: %v", ids)
	}
}

func TestEventFiltersSelect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, nil)
	r := w.must(202, http.MethodPost, "/v1/tenants/acme/events", w.a.send, `{"type":"order.paid","payload":{"a": 1}}`, "Idempotency-Key", "k1")
	id := r.text(t, "id")
	w.event(w.a, "user.new")
	for query, want := range map[string]int{
		"":                         2,
		"?type=order.*":            1,
		"?type=order":              0,
		"?q=" + id:                 1,
		"?q=k1":                    1,
		"?q=k1&type=user.new":      0,
		"?q=k2":                    0,
		"?q=evt_0000000000000":     0,
		"?since=1m":                2,
		"?q=" + id + "&until=1m":   0,
		"?with=payload&type=*":     2,
		"?until=2026-03-01T00:00Z": -1,
	} {
		if want < 0 {
			w.must(400, http.MethodGet, "/v1/tenants/acme/events"+query, w.a.read, nil)
			continue
		}
		if ids, _ := w.page("/v1/tenants/acme/events"+query, w.a.read); len(ids) != want {
			t.Errorf("%s: %v, want %d", query, ids, want)
		}
	}
	list := string(w.must(200, http.MethodGet, "/v1/tenants/acme/events?q=k1", w.a.read, nil).body)
	with := string(w.must(200, http.MethodGet, "/v1/tenants/acme/events?q=k1&with=payload", w.a.read, nil).body)
	if strings.Contains(list, `"payload"`) || !strings.Contains(with, `"payload":{"a":1}`) {
		t.Errorf("without payload: %s\nwith payload: %s", list, with)
	}
}

// TestListsAreReadable whatever publishers put into a payload.
func TestListsAreReadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/v1/tenants/" + w.a.id + "/events"
	const payload = "{\"name\":\"M\xfcller\"}"
	w.must(202, http.MethodPost, path, w.a.send, `{"type":"a","payload":`+payload+`}`)
	r := w.must(200, http.MethodGet, path+"?with=payload", w.a.read, nil)
	var got struct {
		Data []struct {
			Payload       json.RawMessage
			PayloadBase64 []byte `json:"payload_base64"`
		}
	}
	w.ok(json.Unmarshal(r.body, &got))
	if len(got.Data) != 1 || got.Data[0].Payload != nil || string(got.Data[0].PayloadBase64) != payload {
		t.Errorf("list = %s", r.body)
	}
}
