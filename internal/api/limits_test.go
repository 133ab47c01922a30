package api_test

import (
	"database/sql"
	"net/http"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// TestOperatorsBoundsHoldForWhatIsWritten: what a tenant writes is held against the operator's
// bounds; what was stored before them stays, and the rest of it can be changed.
func TestOperatorsBoundsHoldForWhatIsWritten(t *testing.T) {
	t.Parallel()
	limits := &policy.Limits{MaxAttempts: 30, RequireBreaker: true}
	w := newWorldWith(t, func(cfg *api.Config) { cfg.PolicyLimits = limits })
	path := "/v1/tenants/" + w.a.id + "/endpoints"
	refused := func(r reply, field, bound string) {
		t.Helper()
		p := r.problem(t)
		if r.status != 422 || len(p.Errors) != 1 || p.Errors[0].Path != field || !strings.Contains(p.Errors[0].Message, bound) {
			t.Errorf("= %d %s, want %s refused with %q", r.status, r.body, field, bound)
		}
	}
	many := `{"url":"https://a.example","policy":{"retry":{"max_attempts":50}}}`
	refused(w.do(http.MethodPost, path, w.a.write, many), "policy.retry.max_attempts", "at most 30")
	refused(w.do(http.MethodPost, path, w.a.write, `{"url":"https://a.example","policy":{"breaker":{"enabled":false}}}`),
		"policy.breaker.enabled", "to true")
	refused(w.do(http.MethodPatch, "/v1/tenants/"+w.a.id, w.admin, `{"policy":{"retry":{"max_attempts":50}}}`),
		"policy.retry.max_attempts", "at most 30")

	id := w.endpoint(w.a, nil)
	w.exec(`UPDATE endpoints SET policy = '{"retry":{"max_attempts":50}}'`)
	w.must(200, http.MethodGet, path+"/"+id, w.a.read, nil)
	w.must(200, http.MethodPatch, path+"/"+id, w.a.write, `{"description":"other"}`)
	refused(w.do(http.MethodPatch, path+"/"+id, w.a.write, `{"policy":{"timeout":{"total":"20s"}}}`), "policy.retry.max_attempts", "at most 30")
}

// exec changes the store behind the API's back.
func (w *world) exec(query string) {
	w.t.Helper()
	db, err := sql.Open("sqlite", "file:"+w.path+"?_pragma=busy_timeout(5000)")
	w.ok(err)
	_, err = db.ExecContext(w.ctx(), query)
	w.ok(err)
	w.ok(db.Close())
}
