package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestChangesAreLimitedPerKey: a tenant's key may save up a minute of changes;
// reads, other keys and the operator are not held up.
func TestChangesAreLimitedPerKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.KeyWriteRate = 0.2 })
	ep := w.endpoint(w.a, nil) // one of twelve
	path := "/v1/tenants/-/endpoints/" + ep
	for i := range 11 {
		w.must(200, http.MethodPatch, path, w.a.write, fmt.Sprintf(`{"description":"%d"}`, i))
	}
	for name, c := range map[string]struct{ method, path, body string }{
		"change":           {http.MethodPatch, path, `{"description":"x"}`},
		"create":           {http.MethodPost, "/v1/tenants/-/endpoints", `{"url":"https://example.com"}`},
		"delete":           {http.MethodDelete, path, ""},
		"pause":            {http.MethodPost, path + "/pause", ""},
		"read of a secret": {http.MethodGet, path + "/secret", ""},
	} {
		var body any
		if c.body != "" {
			body = c.body
		}
		r := w.do(c.method, c.path, w.a.write, body)
		if p := r.problem(t); r.status != 429 || p.Code != "rate_limited" || r.header.Get("Retry-After") != "5" ||
			!strings.Contains(p.Detail, "api.key_write_rate") {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	w.must(200, http.MethodGet, path, w.a.write, nil)
	w.must(202, http.MethodPost, "/v1/tenants/-/events", w.a.write, `{"type":"a","payload":1}`)
	w.must(201, http.MethodPost, "/v1/tenants/-/endpoints", w.b.write, `{"url":"https://example.com"}`)
	for range 20 {
		w.must(200, http.MethodPatch, "/v1/tenants/"+w.a.id, w.admin, `{"name":"x"}`)
	}
	w.clock.pass(5 * time.Second)
	w.must(200, http.MethodPatch, path, w.a.write, `{"description":"later"}`)
	w.must(429, http.MethodPatch, path, w.a.write, `{"description":"too soon"}`)
}

// TestChangesNeedRoom: without room on the disk nothing is changed, but the
// operator may delete what fills it.
func TestChangesNeedRoom(t *testing.T) {
	t.Parallel()
	var full error
	w := newWorld(t, func(c *api.Config) { c.ControlRoom = func() error { return full } })
	ep := w.endpoint(w.a, nil)
	key := w.must(201, http.MethodPost, "/v1/keys", w.admin, `{"name":"k","scope":"tenant:send","tenant":"`+w.a.id+`"}`).text(t, "id")
	full = fmt.Errorf("%w: no room", hook.ErrStoreFull)
	before := w.dump("endpoints", "tenants", "audit", "api_keys")
	for _, c := range []struct{ method, path, key, body string }{
		{http.MethodPatch, "/v1/tenants/-/endpoints/" + ep, w.a.write, `{"description":"x"}`},
		{http.MethodDelete, "/v1/tenants/-/endpoints/" + ep, w.a.write, ""},
		{http.MethodPatch, "/v1/tenants/" + w.a.id, w.admin, `{"name":"x"}`},
	} {
		var body any
		if c.body != "" {
			body = c.body
		}
		r := w.do(c.method, c.path, c.key, body)
		if p := r.problem(t); r.status != 507 || p.Code != "disk_full" || r.header.Get("Retry-After") == "" {
			t.Errorf("%s %s: %d %s", c.method, c.path, r.status, r.body)
		}
	}
	if after := w.dump("endpoints", "tenants", "audit", "api_keys"); after != before {
		t.Error("something was changed")
	}
	w.must(200, http.MethodGet, "/v1/tenants/-/endpoints/"+ep, w.a.write, nil)
	w.must(204, http.MethodDelete, "/v1/keys/"+key, w.admin, nil)
}

// TestAuditKeepsAPartOfLargeChanges: the record of a change is bounded, however
// much was changed, and still says what.
func TestAuditKeepsAPartOfLargeChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ep := w.endpoint(w.a, nil)
	large := func(char string) string {
		var entries []string
		for i := range 20 {
			entries = append(entries, fmt.Sprintf(`"key-%d":%q`, i, strings.Repeat(char, 500)))
		}
		return `{"description":"short","metadata":{` + strings.Join(entries, ",") + `}}`
	}
	before := len(w.dump("audit"))
	for _, char := range []string{"é", "ü"} {
		w.must(200, http.MethodPatch, "/v1/tenants/-/endpoints/"+ep, w.a.write, large(char))
	}
	audit := w.dump("audit")
	if grown := len(audit) - before; grown > 4000 {
		t.Errorf("two large changes left %d bytes in the audit log", grown)
	}
	if !strings.Contains(audit, "short") || !strings.Contains(audit, "bytes)") || strings.Contains(audit, "\ufffd") {
		t.Errorf("the record does not tell what was changed: %s", audit[before:])
	}
}

// TestReplayNeedsRoom: a tenant that has stored as much as it may starts no
// replay, whose attempts would be stored too.
func TestReplayNeedsRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) {
		c.TenantRoom = func(t hook.Tenant) error { return fmt.Errorf("%w: %s", hook.ErrTenantFull, t.UID) }
	})
	ep := w.endpoint(w.a, nil)
	w.event(w.a, "a")
	r := w.do(http.MethodPost, "/v1/tenants/-/replays", w.a.write, `{"endpoint":"`+ep+`"}`)
	if p := r.problem(t); r.status != 507 || p.Code != "tenant_storage_full" || r.header.Get("Retry-After") != "600" {
		t.Errorf("replay of a full tenant: %d %s", r.status, r.body)
	}
	w.must(200, http.MethodPost, "/v1/tenants/-/replays", w.a.write, `{"endpoint":"`+ep+`","dry_run":true}`)
}
