package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const acmeTypes = "/v1/tenants/acme/event-types"

const orderType = `{"type":"order.paid","description":"an order was paid","schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"example":{"total":1}}`

func TestEventTypesAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.notifier.times("tenant " + w.a.id)
	r := w.must(201, http.MethodPost, acmeTypes, w.a.write, orderType)
	m := r.object(t)
	if r.header.Get("Location") != "/v1/tenants/"+w.a.id+"/event-types/order.paid" || m["version"] != 1.0 || m["tenant"] != w.a.id ||
		m["schema"].(map[string]any)["type"] != "object" || m["example"].(map[string]any)["total"] != 1.0 {
		t.Errorf("created = %s %v", r.body, r.header)
	}
	w.must(201, http.MethodPost, acmeTypes, w.admin, `{"type":"order.made"}`)
	list := w.must(200, http.MethodGet, acmeTypes+"?order=asc", w.a.read, nil).object(t)["data"].([]any)
	if len(list) != 2 || list[1].(map[string]any)["schema"] != nil || list[1].(map[string]any)["example"] != nil {
		t.Errorf("list = %v", list)
	}
	one := acmeTypes + "/order.paid"
	r = w.must(200, http.MethodPatch, one, w.a.write, `{"description":"paid","schema":{"type":"object"}}`, "If-Match", `"1"`)
	m = r.object(t)
	if r.header.Get("ETag") != `"2"` || m["description"] != "paid" || len(m["schema"].(map[string]any)) != 1 || m["example"] == nil {
		t.Errorf("changed = %s", r.body)
	}
	w.must(412, http.MethodPatch, one, w.a.write, `{"description":"late"}`, "If-Match", `"1"`)
	m = w.must(200, http.MethodPatch, one, w.a.write, `{"schema":null,"example":null}`).object(t)
	if m["schema"] != nil || m["example"] != nil || m["description"] != "paid" {
		t.Errorf("cleared = %v", m)
	}
	w.must(204, http.MethodDelete, one, w.a.write, nil)
	w.must(404, http.MethodGet, one, w.a.read, nil)
	w.must(404, http.MethodDelete, one, w.a.write, nil)
	if n := w.notifier.times("tenant " + w.a.id); n != before+5 {
		t.Errorf("the caches were told %d times, want 5", n-before)
	}
	audit := string(w.must(200, http.MethodGet, "/v1/tenants/acme/audit?subject=order.paid", w.a.read, nil).body)
	for _, action := range []string{"event_type.create", "event_type.change", "event_type.delete"} {
		if !strings.Contains(audit, action) {
			t.Errorf("%s is not in the audit log: %s", action, audit)
		}
	}
}

func TestEventTypesOfOthersAreNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(201, http.MethodPost, acmeTypes, w.a.write, orderType)
	w.must(404, http.MethodGet, acmeTypes+"/order.paid", w.b.read, nil)
	w.must(404, http.MethodGet, "/v1/tenants/bolt/event-types/order.paid", w.b.read, nil)
	w.must(201, http.MethodPost, "/v1/tenants/bolt/event-types", w.b.write, `{"type":"order.paid"}`)
	w.must(200, http.MethodGet, "/v1/tenants/-/event-types/order.paid", w.b.read, nil)
	w.must(400, http.MethodGet, "/v1/tenants/-/event-types/order.paid", w.admin, nil)
	if n := len(w.must(200, http.MethodGet, "/v1/tenants/-/event-types", w.admin, nil).object(t)["data"].([]any)); n != 2 {
		t.Errorf("an operator sees %d event types", n)
	}
	w.must(403, http.MethodPost, acmeTypes, w.a.read, orderType)
	w.must(403, http.MethodPost, acmeTypes, w.a.send, orderType)
}

func TestWrongEventTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(201, http.MethodPost, acmeTypes, w.a.write, orderType)
	if r := w.must(409, http.MethodPost, acmeTypes, w.a.write, orderType).object(t); r["code"] != "state_conflict" || !strings.Contains(fmt.Sprint(r["detail"]), "PATCH") {
		t.Errorf("a second time = %v", r)
	}
	for body, path := range map[string]string{
		`{}`:                      "type",
		`{"type":"a b"}`:          "type",
		`{"type":"order.*"}`:      "type",
		`{"type":"a","schema":1}`: "schema",
		`{"type":"a","schema":{"type":"number!"}}`:                                       "schema",
		`{"type":"a","schema":{"$ref":"https://example.com/x"}}`:                         "schema",
		`{"type":"a","schema":{"items":{"$ref":"#"}}}`:                                   "schema",
		`{"type":"a","schema":{"enum":["` + strings.Repeat("x", 65<<10) + `"]}}`:         "schema",
		`{"type":"a","example":"` + strings.Repeat("x", 65<<10) + `"}`:                   "example",
		`{"type":"a","schema":{"required":["x"]},"example":{}}`:                          "example",
		`{"type":"a","schema":{"properties":{"x":{"type":"null"}}},"example":{"x":[1]}}`: "example.x",
		`{"type":"a","description":"` + strings.Repeat("x", 1001) + `"}`:                 "description",
		`{"type":"a","owner":"me"}`:                                                      "owner",
	} {
		r := w.must(422, http.MethodPost, acmeTypes, w.a.write, body).object(t)
		if first := r["errors"].([]any)[0].(map[string]any); first["path"] != path {
			t.Errorf("%.80s: %v", body, r["errors"])
		}
	}
	w.must(422, http.MethodPatch, acmeTypes+"/order.paid", w.a.write, `{"schema":{"required":["other"]}}`) // the example does not fit
	w.must(404, http.MethodPatch, acmeTypes+"/a%20b", w.a.write, `{}`)
}

// TestFilterOfAnEndpoint: it is checked when it is written, and shown with what went
// wrong since.
func TestFilterOfAnEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, map[string]any{"uid": "plain"})
	w.endpoint(w.a, map[string]any{"uid": "rich", "filter": " payload.total > 100 ", "body": "slack"})
	get := func(uid string) map[string]any {
		return w.must(200, http.MethodGet, acmeEndpoints+"/"+uid, w.a.read, nil).object(t)
	}
	if m := get("plain"); m["filter"] != nil || m["body"] != "payload" {
		t.Errorf("plain = %v", m)
	}
	m := get("rich")
	if health := m["health"].(map[string]any); m["filter"] != "payload.total > 100" || m["body"] != "slack" || health["filter_errors"] != 0.0 || health["filter_error"] != nil {
		t.Errorf("rich = %v", m)
	}
	for filter, says := range map[string]string{
		"payload.total >": "at character 15", "nobody == 1": "at character 1: unknown name nobody", "1..9 == nil": "at character 2", "type": "expected bool",
	} {
		for _, r := range []reply{
			w.must(422, http.MethodPatch, acmeEndpoints+"/rich", w.a.write, map[string]any{"filter": filter}),
			w.must(422, http.MethodPost, acmeEndpoints, w.a.write, map[string]any{"url": "https://example.com/", "filter": filter}),
		} {
			p := r.object(t)
			if first := p["errors"].([]any)[0].(map[string]any); p["code"] != "validation_failed" || first["path"] != "filter" || !strings.Contains(first["message"].(string), says) {
				t.Errorf("%s: %s", filter, r.body)
			}
		}
	}
	w.must(422, http.MethodPatch, acmeEndpoints+"/rich", w.a.write, map[string]any{"filter": `type == "` + strings.Repeat("x", 1000) + `"`})
	w.must(200, http.MethodPatch, acmeEndpoints+"/rich", w.a.write, `{"filter":null}`)
	if m := get("rich"); m["filter"] != nil {
		t.Errorf("cleared = %v", m["filter"])
	}
	w.must(422, http.MethodPatch, acmeEndpoints+"/rich", w.a.write, `{"body":"fax"}`)
	w.must(422, http.MethodPatch, acmeEndpoints+"/rich", w.a.write, `{"body":"cloudevents_binary","headers":{"Ce-Id":"mine"}}`)
	w.must(200, http.MethodPatch, acmeEndpoints+"/rich", w.a.write, `{"body":"cloudevents","headers":{"Ce-Id":"mine"}}`)
}
