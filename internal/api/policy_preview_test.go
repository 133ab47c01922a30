package api_test

import (
	"net/http"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

func TestPolicyOfAnEndpointCanBeTried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(http.StatusOK, http.MethodPatch, "/v1/tenants/acme", w.admin, `{"policy":{"retry":{"max_attempts":7}}}`)
	e := w.endpoint(w.a, map[string]any{"policy": map[string]any{"timeout": map[string]any{"total": "20s"}}})
	path := "/v1/tenants/acme/endpoints/" + e + "/policy"
	try := func(body string) (v view.PolicyPreview) {
		t.Helper()
		w.must(http.StatusOK, http.MethodPost, path+"/preview", w.a.read, body).into(t, &v)
		return v
	}
	changed := w.watch()
	if same := try(`{"policy":{"timeout":{"total":"20s"}}}`); len(same.Changes) != 0 || len(same.Ladder) != 6 {
		t.Errorf("the same policy: changes %+v, %d retries", same.Changes, len(same.Ladder))
	}
	got := try(`{"policy":{"retry":{"max_attempts":4}}}`)
	if len(got.Changes) != 2 || got.Changes[0].Path != "retry.max_attempts" || string(got.Changes[0].From) != "7" || string(got.Changes[0].To) != "4" ||
		got.Changes[1].Path != "timeout.total" {
		t.Errorf("changes %+v", got.Changes)
	}
	if got.Origin["retry.max_attempts"] != "endpoint" || len(got.Ladder) != 3 || got.Hash == "" || len(got.Resolved) == 0 {
		t.Errorf("preview %+v", got)
	}
	if changed() {
		t.Error("a preview changed something")
	}
}
