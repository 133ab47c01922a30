package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

const goldPolicy = `{"name":"gold","description":"for paying customers","policy":{"preset":"full-5","timeout":{"total":"12s"}}}`

func (w *world) timeoutOf(uid string) any {
	w.t.Helper()
	m := w.must(200, http.MethodGet, acmeEndpoints+"/"+uid+"/policy", w.a.read, nil).object(w.t)
	return m["resolved"].(map[string]any)["timeout"].(map[string]any)["total"]
}

func TestAPolicyIsSavedByNameAndUsedLikeAPreset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.must(201, http.MethodPost, "/v1/policies", w.admin, goldPolicy)
	m := r.object(t)
	if r.header.Get("Location") != "/v1/policies/gold" || m["version"] != 1.0 || len(m["ladder"].([]any)) != 4 ||
		m["policy"].(map[string]any)["preset"] != "full-5" || m["description"] != "for paying customers" {
		t.Errorf("created = %s %v", r.body, r.header)
	}
	w.endpoint(w.a, map[string]any{"uid": "direct", "policy": map[string]any{"preset": "gold", "retry": map[string]any{"max_attempts": 3}}})
	w.endpoint(w.a, map[string]any{"uid": "through"})
	w.must(200, http.MethodPatch, "/v1/tenants/acme", w.admin, `{"policy":{"preset":"gold"}}`)
	for _, uid := range []string{"direct", "through"} {
		if got := w.timeoutOf(uid); got != "12s" {
			t.Errorf("timeout of %s = %v", uid, got)
		}
	}
	shown := w.must(200, http.MethodGet, acmeEndpoints+"/direct/policy", w.a.read, nil).object(t)
	if origin := shown["origin"].(map[string]any); origin["timeout.total"] != "policy gold" || origin["retry.max_attempts"] != "endpoint" {
		t.Errorf("origin = %v", origin)
	}
	for _, path := range []string{"/v1/policies/gold", "/v1/policies"} {
		if got := w.must(200, http.MethodGet, path, w.a.read, nil); !strings.Contains(string(got.body), `"used_by":{"tenants":1,"endpoints":1}`) {
			t.Errorf("%s = %s", path, got.body)
		}
	}
	pre := w.must(200, http.MethodPost, "/v1/policies/preview", w.a.read, `{"policy":{"preset":"gold"}}`).object(t)
	if len(pre["ladder"].([]any)) != 4 {
		t.Errorf("preview = %v", pre)
	}
	changes := w.must(200, http.MethodPost, acmeEndpoints+"/through/policy/preview", w.a.read, `{"policy":{"preset":"gold"}}`).object(t)
	if n := len(changes["changes"].([]any)); n != 0 {
		t.Errorf("%d changes between a tenant's policy and the same one of the endpoint", n)
	}
}

func TestAChangeOfANamedPolicyReachesAllWhoUseIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(201, http.MethodPost, "/v1/policies", w.admin, goldPolicy)
	w.endpoint(w.a, map[string]any{"uid": "direct", "policy": map[string]any{"preset": "gold"}})
	w.must(200, http.MethodPatch, "/v1/tenants/bolt", w.admin, `{"policy":{"preset":"gold"}}`)
	rev, err := w.db.ConfigRev(w.ctx(), w.a.tenant)
	w.ok(err)
	before := map[string]int{}
	for _, s := range []side{w.a, w.b} {
		before[s.id] = w.notifier.times("tenant " + s.id)
	}
	r := w.must(200, http.MethodPatch, "/v1/policies/gold", w.admin, `{"policy":{"timeout":{"total":"25s"}}}`, "If-Match", `"1"`)
	if r.header.Get("ETag") != `"2"` || w.timeoutOf("direct") != "25s" {
		t.Errorf("changed = %s, timeout %v", r.body, w.timeoutOf("direct"))
	}
	for _, s := range []side{w.a, w.b} {
		if n := w.notifier.times("tenant " + s.id); n != before[s.id]+1 {
			t.Errorf("the lanes of tenant %s were told %d times, want once", s.id, n-before[s.id])
		}
	}
	if now, err := w.db.ConfigRev(w.ctx(), w.a.tenant); err != nil || now != rev+1 {
		t.Errorf("revision of the configuration = %d, %v, want %d", now, err, rev+1)
	}
	if r := w.do(http.MethodPatch, "/v1/policies/gold", w.admin, `{"description":"x"}`, "If-Match", `"1"`); r.status != 412 {
		t.Errorf("a change of an old version = %d %s", r.status, r.body)
	}
	w.must(200, http.MethodPatch, acmeEndpoints+"/direct", w.a.write, `{"policy":{"timeout":{"connect":"11s","total":null}}}`)
	r = w.do(http.MethodPatch, "/v1/policies/gold", w.admin, `{"policy":{"timeout":{"connect":"5s","total":"5s"}}}`)
	if p := r.problem(t); r.status != 422 || p.Code != "invalid_policy" || !strings.Contains(p.Detail, "does not fit endpoint ep_") {
		t.Errorf("a policy that breaks one of its users = %d %s", r.status, r.body)
	}
	if audit := w.must(200, http.MethodGet, "/v1/audit?subject=gold", w.admin, nil); !strings.Contains(string(audit.body), `"policy.create"`) ||
		!strings.Contains(string(audit.body), `"policy.change"`) {
		t.Errorf("audit = %s", audit.body)
	}
}

func TestANamedPolicyInUseStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(201, http.MethodPost, "/v1/policies", w.admin, goldPolicy)
	w.endpoint(w.a, map[string]any{"uid": "one", "policy": map[string]any{"preset": "gold"}})
	w.endpoint(w.a, map[string]any{"uid": "two", "policy": map[string]any{"preset": "gold"}})
	r := w.do(http.MethodDelete, "/v1/policies/gold", w.admin, nil)
	if p := r.problem(t); r.status != 409 || p.Code != "state_conflict" || p.Current != "used" || !strings.Contains(p.Detail, "2 endpoints and 0 tenants") {
		t.Errorf("delete in use = %d %s", r.status, r.body)
	}
	w.must(200, http.MethodPatch, acmeEndpoints+"/one", w.a.write, `{"policy":{"preset":"quick"}}`)
	w.must(200, http.MethodPatch, acmeEndpoints+"/two", w.a.write, `{"policy":null}`)
	w.must(204, http.MethodDelete, "/v1/policies/gold", w.admin, nil)
	w.must(404, http.MethodGet, "/v1/policies/gold", w.a.read, nil)
	r = w.do(http.MethodPatch, acmeEndpoints+"/one", w.a.write, `{"policy":{"preset":"gold"}}`)
	if p := r.problem(t); r.status != 422 || p.paths()[0] != "policy.preset" {
		t.Errorf("use of a deleted policy = %d %s", r.status, r.body)
	}
}

func TestNamedPoliciesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.PolicyLimits = &policy.Limits{MaxAttempts: 20} })
	w.must(201, http.MethodPost, "/v1/policies", w.admin, goldPolicy)
	for name, tc := range map[string]struct {
		body, path, code string
		status           int
	}{
		"a preset's name":       {`{"name":"quick","policy":{}}`, "name", "validation_failed", 422},
		"capital letters":       {`{"name":"Gold","policy":{}}`, "name", "validation_failed", 422},
		"no name":               {`{"name":"","policy":{}}`, "name", "validation_failed", 422},
		"a long name":           {`{"name":"` + strings.Repeat("a", 65) + `","policy":{}}`, "name", "validation_failed", 422},
		"no policy":             {`{"name":"x"}`, "policy", "validation_failed", 422},
		"not an object":         {`{"name":"x","policy":7}`, "policy", "invalid_policy", 422},
		"an unknown key":        {`{"name":"x","policy":{"retries":3}}`, "policy.retries", "invalid_policy", 422},
		"start from another":    {`{"name":"x","policy":{"preset":"gold"}}`, "policy.preset", "invalid_policy", 422},
		"beyond the bounds":     {`{"name":"x","policy":{"retry":{"max_attempts":40}}}`, "policy.retry.max_attempts", "invalid_policy", 422},
		"an unprintable letter": {`{"name":"x","policy":{},"description":"a\u0000b"}`, "description", "validation_failed", 422},
		"taken":                 {`{"name":"gold","policy":{}}`, "", "uid_taken", 409},
		"an unknown field":      {`{"name":"x","policy":{},"tenant":"acme"}`, "tenant", "validation_failed", 422},
	} {
		r := w.do(http.MethodPost, "/v1/policies", w.admin, tc.body)
		p := r.problem(t)
		if r.status != tc.status || p.Code != tc.code || tc.path != "" && (len(p.Errors) == 0 || !strings.HasSuffix(p.Errors[0].Path, tc.path)) {
			t.Errorf("%s = %d %s", name, r.status, r.body)
		}
	}
	w.must(404, http.MethodGet, "/v1/policies/No%20such", w.a.read, nil)
	w.must(404, http.MethodPatch, "/v1/policies/none", w.admin, `{}`)
	w.must(404, http.MethodDelete, "/v1/policies/none", w.admin, nil)
}

func TestNamedPoliciesAreListedInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 3 {
		w.must(201, http.MethodPost, "/v1/policies", w.admin, fmt.Sprintf(`{"name":"p-%d","policy":{}}`, i))
	}
	first := w.must(200, http.MethodGet, "/v1/policies?limit=2", w.a.read, nil).object(t)
	second := w.must(200, http.MethodGet, "/v1/policies?limit=2&cursor="+first["next_cursor"].(string), w.a.read, nil).object(t)
	if len(first["data"].([]any)) != 2 || len(second["data"].([]any)) != 1 || second["next_cursor"] != nil {
		t.Errorf("pages = %v, %v", first, second)
	}
}
