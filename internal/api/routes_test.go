package api_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// row is what the tests know about a route: the scopes that may use it, and a
// body that gets past the form checks.
type row struct {
	scopes string // "" for routes without a key
	body   string
}

const (
	readers = "admin admin:read tenant:write tenant:read"
	writers = "admin tenant:write"
	senders = "admin tenant:write tenant:send"
	anybody = "admin admin:read tenant:write tenant:read tenant:send"
)

// routeRows has one row for every route. A new route without one fails.
var routeRows = map[string]row{
	"POST /v1/backup":                                               {"admin", ""},
	"GET /v1/tenants":                                               {"admin admin:read", ""},
	"POST /v1/tenants":                                              {"admin", `{"name":"n"}`},
	"GET /v1/tenants/{tenant}":                                      {readers, ""},
	"PATCH /v1/tenants/{tenant}":                                    {"admin", `{"name":"n"}`},
	"DELETE /v1/tenants/{tenant}":                                   {"admin", ""},
	"GET /v1/tenants/{tenant}/endpoints":                            {readers, ""},
	"POST /v1/tenants/{tenant}/endpoints":                           {writers, `{"url":"https://example.com"}`},
	"GET /v1/tenants/{tenant}/endpoints/{endpoint}":                 {readers, ""},
	"PATCH /v1/tenants/{tenant}/endpoints/{endpoint}":               {writers, `{"description":"d"}`},
	"DELETE /v1/tenants/{tenant}/endpoints/{endpoint}":              {writers, ""},
	"POST /v1/tenants/{tenant}/endpoints/{endpoint}/pause":          {writers, `{}`},
	"POST /v1/tenants/{tenant}/endpoints/{endpoint}/disable":        {writers, `{}`},
	"POST /v1/tenants/{tenant}/endpoints/{endpoint}/resume":         {writers, `{}`},
	"POST /v1/tenants/{tenant}/endpoints/{endpoint}/probe":          {writers, `{}`},
	"POST /v1/tenants/{tenant}/endpoints/{endpoint}/reset":          {writers, `{}`},
	"POST /v1/tenants/{tenant}/endpoints/{endpoint}/test":           {writers, `{}`},
	"POST /v1/tenants/{tenant}/endpoints/{endpoint}/rotate-secret":  {writers, `{}`},
	"GET /v1/tenants/{tenant}/endpoints/{endpoint}/secret":          {writers, ""},
	"GET /v1/tenants/{tenant}/endpoints/{endpoint}/lane":            {readers, ""},
	"GET /v1/tenants/{tenant}/endpoints/{endpoint}/policy":          {readers, ""},
	"GET /v1/tenants/{tenant}/lanes":                                {readers, ""},
	"GET /v1/tenants/{tenant}/endpoints/{endpoint}/stats":           {readers, ""},
	"GET /v1/tenants/{tenant}/stats":                                {readers, ""},
	"GET /v1/tenants/{tenant}/endpoint-health":                      {readers, ""},
	"GET /v1/tenants/{tenant}/operational-events":                   {readers, ""},
	"POST /v1/tenants/{tenant}/events":                              {senders, `{"type":"t","payload":1}`},
	"POST /v1/tenants/{tenant}/events/batch":                        {senders, `{"events":[{"type":"t","payload":1}]}`},
	"GET /v1/tenants/{tenant}/events":                               {readers, ""},
	"GET /v1/tenants/{tenant}/events/{event}":                       {readers, ""},
	"GET /v1/tenants/{tenant}/event-types":                          {readers, ""},
	"POST /v1/tenants/{tenant}/event-types":                         {writers, `{"type":"t"}`},
	"GET /v1/tenants/{tenant}/event-types/{type}":                   {readers, ""},
	"PATCH /v1/tenants/{tenant}/event-types/{type}":                 {writers, `{"description":"d"}`},
	"DELETE /v1/tenants/{tenant}/event-types/{type}":                {writers, ""},
	"GET /v1/tenants/{tenant}/events/{event}/deliveries":            {readers, ""},
	"GET /v1/tenants/{tenant}/events/{event}/payload":               {readers, ""},
	"GET /v1/tenants/{tenant}/deliveries":                           {readers, ""},
	"GET /v1/tenants/{tenant}/deliveries/count":                     {readers, ""},
	"GET /v1/tenants/{tenant}/deliveries/{delivery}":                {readers, ""},
	"GET /v1/tenants/{tenant}/deliveries/{delivery}/attempts":       {readers, ""},
	"POST /v1/tenants/{tenant}/deliveries/{delivery}/retry":         {writers, `{}`},
	"GET /v1/tenants/{tenant}/attempts":                             {readers, ""},
	"GET /v1/tenants/{tenant}/attempts/stream":                      {readers, ""},
	"GET /v1/tenants/{tenant}/events/stream":                        {readers, ""},
	"GET /v1/tenants/{tenant}/attempts/{attempt}":                   {readers, ""},
	"POST /v1/tenants/{tenant}/deliveries/{delivery}/cancel":        {writers, `{}`},
	"GET /v1/tenants/{tenant}/dead-letters":                         {readers, ""},
	"GET /v1/tenants/{tenant}/dead-letters/count":                   {readers, ""},
	"GET /v1/tenants/{tenant}/dead-letters/groups":                  {readers, ""},
	"POST /v1/tenants/{tenant}/dead-letters/discard":                {writers, `{"all":true,"expect_count":0}`},
	"GET /v1/tenants/{tenant}/audit":                                {readers, ""},
	"GET /v1/audit":                                                 {"admin admin:read", ""},
	"GET /v1/nodes":                                                 {"admin admin:read", ""},
	"POST /v1/tenants/{tenant}/portal-links":                        {writers, `{}`},
	"GET /v1/config":                                                {"admin admin:read", ""},
	"GET /v1/tenants/{tenant}/replays":                              {readers, ""},
	"POST /v1/tenants/{tenant}/replays":                             {writers, `{"all":true}`},
	"GET /v1/tenants/{tenant}/replays/{replay}":                     {readers, ""},
	"PATCH /v1/tenants/{tenant}/replays/{replay}":                   {writers, `{"per_minute":5}`},
	"POST /v1/tenants/{tenant}/replays/{replay}/pause":              {writers, `{}`},
	"POST /v1/tenants/{tenant}/replays/{replay}/resume":             {writers, `{}`},
	"POST /v1/tenants/{tenant}/replays/{replay}/cancel":             {writers, `{}`},
	"GET /v1/tenants/{tenant}/alerts":                               {readers, ""},
	"GET /v1/tenants/{tenant}/alert-channels":                       {readers, ""},
	"POST /v1/tenants/{tenant}/alert-channels":                      {writers, `{"name":"n","kind":"email","to":["a@example.com"]}`},
	"GET /v1/tenants/{tenant}/alert-channels/{channel}":             {readers, ""},
	"PATCH /v1/tenants/{tenant}/alert-channels/{channel}":           {writers, `{"name":"n"}`},
	"DELETE /v1/tenants/{tenant}/alert-channels/{channel}":          {writers, ""},
	"POST /v1/tenants/{tenant}/alert-channels/{channel}/test":       {writers, ""},
	"POST /v1/tenants/{tenant}/endpoints/{endpoint}/policy/preview": {readers, `{"policy":{}}`},
	"GET /v1/tenants/{tenant}/lanes/count":                          {readers, ""},
	"GET /v1/alerts":                                                {"admin admin:read", ""},
	"GET /v1/alerts/{alert}":                                        {readers, ""},
	"POST /v1/alerts/{alert}/ack":                                   {writers, `{}`},
	"GET /v1/alert-rules":                                           {"admin admin:read", ""},
	"GET /v1/alert-channels":                                        {"admin admin:read", ""},
	"POST /v1/alert-channels":                                       {"admin", `{"name":"n","kind":"email","to":["a@example.com"]}`},
	"GET /v1/alert-channels/{channel}":                              {"admin admin:read", ""},
	"PATCH /v1/alert-channels/{channel}":                            {"admin", `{"name":"n"}`},
	"DELETE /v1/alert-channels/{channel}":                           {"admin", ""},
	"POST /v1/alert-channels/{channel}/test":                        {"admin", ""},
	"GET /v1/lanes":                                                 {"admin admin:read", ""},
	"GET /v1/stats":                                                 {"admin admin:read", ""},
	"GET /v1/endpoint-health":                                       {"admin admin:read", ""},
	"GET /v1/operational-events":                                    {"admin admin:read", ""},
	"GET /v1/presets":                                               {readers, ""},
	"GET /v1/presets/{name}":                                        {readers, ""},
	"POST /v1/policies/preview":                                     {readers, `{"policy":{}}`},
	"GET /v1/policies":                                              {readers, ""},
	"POST /v1/policies":                                             {"admin", `{"name":"n","policy":{}}`},
	"GET /v1/policies/{name}":                                       {readers, ""},
	"PATCH /v1/policies/{name}":                                     {"admin", `{"description":"d"}`},
	"DELETE /v1/policies/{name}":                                    {"admin", ""},
	"GET /v1/keys":                                                  {"admin", ""},
	"POST /v1/keys":                                                 {"admin", `{"name":"k","scope":"admin"}`},
	"DELETE /v1/keys/{key}":                                         {"admin", ""},
	"GET /v1/me":                                                    {anybody, ""},
	"GET /livez":                                                    {},
	"GET /readyz":                                                   {},
	"GET /metrics":                                                  {},
	"GET /openapi.json":                                             {},
	"GET /v1/tenants/{tenant}/deliveries/{delivery}/curl":           {readers, ""},
}

// fill puts ids into a path.
func fill(path string, ids map[string]string) string {
	for name, id := range ids {
		path = strings.ReplaceAll(path, "{"+name+"}", id)
	}
	return path
}

var unknownIDs = map[string]string{
	"endpoint": "ep_0000000000000", "event": "evt_0000000000000", "delivery": "dlv_0000000000000",
	"replay": "rpl_0000000000000", "key": "key_0000000000000", "name": "none", "type": "none",
	"attempt": "att_0000000000000", "alert": "alr_0000000000000", "channel": "ach_0000000000000",
}

// TestScopesOpenTheirRoutesOnly tries every scope on every route of the table.
func TestScopesOpenTheirRoutesOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keys := map[string]string{
		"admin": w.admin, "admin:read": w.adminRead,
		"tenant:write": w.a.write, "tenant:read": w.a.read, "tenant:send": w.a.send,
	}
	routes := w.api.Routes()
	if len(routes) != len(routeRows) {
		t.Errorf("%d routes, %d rows", len(routes), len(routeRows))
	}
	for _, rt := range routes {
		name := rt.Method + " " + rt.Path
		row, ok := routeRows[name]
		if !ok {
			t.Errorf("route %s has no row", name)
			continue
		}
		ids := map[string]string{"tenant": w.a.id}
		if rt.Method == http.MethodDelete {
			ids["tenant"] = "ten_0000000000000" // keep the tenant for the others
		}
		path := fill(fill(rt.Path, ids), unknownIDs)
		if got := w.do(rt.Method, path, "", row.body).status; (got == http.StatusUnauthorized) != (row.scopes != "") {
			t.Errorf("%s without a key = %d", name, got)
		}
		for scope, key := range keys {
			if rt.Method == http.MethodDelete && strings.HasPrefix(scope, "tenant") {
				path = fill(fill(rt.Path, map[string]string{"tenant": w.a.id}), unknownIDs)
			}
			got := w.do(rt.Method, path, key, row.body)
			allowed := row.scopes == "" || slices.Contains(strings.Fields(row.scopes), scope)
			if refused := got.status == http.StatusForbidden; refused == allowed {
				t.Errorf("%s with %s = %d %s, allowed %v", name, scope, got.status, got.body, allowed)
			}
			if got.status >= 500 || got.status == http.StatusUnauthorized {
				t.Errorf("%s with %s = %d %s", name, scope, got.status, got.body)
			}
		}
	}
}

// TestForeignObjectsDoNotExist lets a key of one tenant try every id of another on every
// route. It must learn nothing, not even that the object exists.
func TestForeignObjectsDoNotExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, map[string]any{"uid": "mine"})
	w.event(w.a, "order.paid")
	foreign := map[string]string{
		"tenant": w.b.id, "endpoint": w.endpoint(w.b, map[string]any{"uid": "theirs"}), "event": w.event(w.b, "order.paid"),
		"delivery": hook.DeliveryPrefix.Format(w.deliveries(w.b)[0].ID), "replay": w.replay(w.b, `{"all":true}`),
		"channel": w.channel("/v1/tenants/bolt/alert-channels", w.b.write, hookChannel),
	}
	w.settle(w.deliveries(w.b)[0], hook.Dead, hook.DeadExhausted)
	foreign["attempt"] = hook.AttemptPrefix.Format(w.deliveries(w.b)[0].Last.AttemptID)
	under := func(tenant string) map[string]string {
		ids := maps.Clone(foreign)
		ids["tenant"] = tenant
		return ids
	}
	before := w.dump("tenants", "endpoints", "secrets", "events", "deliveries", "replays", "alert_channels", "audit")
	for _, rt := range w.api.Routes() {
		row := routeRows[rt.Method+" "+rt.Path]
		if !strings.Contains(rt.Path, "{tenant}") || !slices.Contains(strings.Fields(row.scopes), "tenant:write") {
			continue
		}
		unknown := func(ids map[string]string) string {
			return w.notFound(t, rt.Method, fill(fill(rt.Path, ids), unknownIDs), row.body)
		}
		ghost := map[string]string{"tenant": "ten_0000000000000"}
		// Under the other tenant's name.
		for _, tenant := range []string{w.b.id, "bolt"} {
			if got, want := w.notFound(t, rt.Method, fill(rt.Path, under(tenant)), row.body), unknown(ghost); got != want {
				t.Errorf("%s %s answers\n%s\nto a foreign tenant and\n%s\nto an unknown one", rt.Method, rt.Path, got, want)
			}
		}
		// The other tenant's objects under the own name.
		if strings.Count(rt.Path, "{") < 2 {
			continue
		}
		for _, tenant := range []string{w.a.id, "acme", "-"} {
			own := map[string]string{"tenant": tenant}
			if got, want := w.notFound(t, rt.Method, fill(rt.Path, under(tenant)), row.body), unknown(own); got != want {
				t.Errorf("%s %s answers\n%s\nto a foreign id and\n%s\nto an unknown one", rt.Method, rt.Path, got, want)
			}
		}
	}
	r := w.must(http.StatusNotFound, http.MethodGet, "/v1/tenants/acme/endpoints/theirs", w.a.write, nil)
	if p := r.problem(t); p.Code != "not_found" {
		t.Errorf("foreign uid: %s", r.body)
	}
	if after := w.dump("tenants", "endpoints", "secrets", "events", "deliveries", "replays", "alert_channels", "audit"); after != before {
		t.Errorf("the store changed:\n%s\nwas\n%s", after, before)
	}
}

// notFound sends a request as tenant a and returns the body of its 404 without
// the request id.
func (w *world) notFound(t *testing.T, method, path, body string) string {
	t.Helper()
	r := w.do(method, path, w.a.write, body)
	if r.status != http.StatusNotFound {
		t.Errorf("%s %s = %d %s, want 404", method, path, r.status, r.body)
	}
	m := r.object(t)
	delete(m, "request_id")
	out, err := json.Marshal(m)
	w.ok(err)
	return string(out)
}

// TestListsStayInTheirTenant checks that "-" shows a tenant's key its own
// objects only, and an admin key those of all.
func TestListsStayInTheirTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range []side{w.a, w.b} {
		w.endpoint(s, nil)
		w.event(s, "order.paid")
		w.settle(w.deliveries(s)[0], hook.Dead, hook.DeadExhausted)
		w.replay(s, `{"all":true}`)
		w.operational(s.tenant, 0, hook.BreakerOpened)
		w.alert("retry_storm", hook.AlertSubject{Tenant: s.tenant})
		w.channel("/v1/tenants/"+s.id+"/alert-channels", s.write, mailChannel)
	}
	for _, path := range []string{"endpoints", "events", "deliveries", "dead-letters", "replays", "lanes", "operational-events", "alerts", "alert-channels"} {
		mine := w.must(200, http.MethodGet, "/v1/tenants/-/"+path, w.a.read, nil)
		if s := string(mine.body); strings.Contains(s, w.b.id) || !strings.Contains(s, w.a.id) {
			t.Errorf("%s of tenant a: %s", path, s)
		}
		all := string(w.must(200, http.MethodGet, "/v1/tenants/-/"+path, w.adminRead, nil).body)
		if !strings.Contains(all, w.b.id) || !strings.Contains(all, w.a.id) {
			t.Errorf("%s of all: %s", path, all)
		}
	}
	for path, want := range map[string]string{"/v1/tenants/-/dead-letters/count": `{"count":1,"exact":true}`} {
		if got := strings.TrimSpace(string(w.must(200, http.MethodGet, path, w.a.read, nil).body)); got != want {
			t.Errorf("%s = %s, want %s", path, got, want)
		}
	}
}

// TestDocumentDescribesEveryRoute checks that the OpenAPI document is complete.
func TestDocumentDescribesEveryRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	doc := w.must(200, http.MethodGet, "/openapi.json", "", nil).object(t)
	if v, _ := doc["openapi"].(string); !strings.HasPrefix(v, "3.1") {
		t.Errorf("openapi = %v", doc["openapi"])
	}
	paths, _ := doc["paths"].(map[string]any)
	for _, rt := range w.api.Routes() {
		ops, _ := paths[rt.Path].(map[string]any)
		op, _ := ops[strings.ToLower(rt.Method)].(map[string]any)
		if op == nil {
			t.Errorf("%s %s is not described", rt.Method, rt.Path)
			continue
		}
		if op["operationId"] == nil || op["summary"] == nil || op["responses"] == nil {
			t.Errorf("%s %s lacks an id, a summary or responses", rt.Method, rt.Path)
		}
		if (op["security"] != nil) != (len(rt.Scopes) > 0) {
			t.Errorf("%s %s: security = %v", rt.Method, rt.Path, op["security"])
		}
		if rb := op["requestBody"]; rb == nil && routeRows[rt.Method+" "+rt.Path].body != "" {
			t.Errorf("%s %s: its body is not described", rt.Method, rt.Path)
		}
	}
	checkRefs(t, doc, doc)
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	for name, strict := range map[string]bool{"Delivery": false, "Problem": false, "TenantCreateBody": true, "Signature": true, "Replay": false, "ReplayPreview": false, "Lane": false, "OperationalEvent": false} {
		s, _ := schemas[name].(map[string]any)
		if s == nil || (s["additionalProperties"] == false) != strict {
			t.Errorf("schema %s: %v, strict %v", name, s["additionalProperties"], strict)
		}
	}
	for _, alien := range []string{"ErrorModel", "ErrorDetail"} {
		if schemas[alien] != nil {
			t.Errorf("schema %s is not ours", alien)
		}
	}
}

// checkRefs follows every reference of the document.
func checkRefs(t *testing.T, doc map[string]any, node any) {
	t.Helper()
	switch n := node.(type) {
	case map[string]any:
		if ref, ok := n["$ref"].(string); ok {
			var at any = doc
			for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
				m, _ := at.(map[string]any)
				at = m[part]
			}
			if at == nil {
				t.Errorf("reference %s leads nowhere", ref)
			}
		}
		for _, v := range n {
			checkRefs(t, doc, v)
		}
	case []any:
		for _, v := range n {
			checkRefs(t, doc, v)
		}
	}
}
