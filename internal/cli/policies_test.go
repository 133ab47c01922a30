package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPoliciesAreSavedByName(t *testing.T) {
	t.Parallel()
	const gold = `{"name":"gold","description":"paying","policy":{},"ladder":[],"used_by":{"tenants":2,"endpoints":0},"created_at":"2026-03-02T10:00:00.000Z","updated_at":"2026-03-02T10:00:00.000Z","version":1,"warnings":["jitter none synchronises retries"]}`
	s := newServer(t, map[string][]answer{
		"POST /v1/policies":        always(201, gold),
		"GET /v1/policies":         always(200, `{"data":[`+gold+`],"next_cursor":null}`),
		"GET /v1/policies/gold":    always(200, gold),
		"DELETE /v1/policies/gold": always(409, `{"code":"state_conflict","detail":"the policy is used by 0 endpoints and 2 tenants; give them another one first"}`),
	})
	file := filepath.Join(t.TempDir(), "gold.yaml")
	if err := os.WriteFile(file, []byte("preset: full-5\nretry: {jitter: none}\nclassify: {statuses: {409: success}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := s.run("policies", "create", "gold", "--file", file, "--description=paying")
	if got.code != 0 || got.stdout != "gold\n" || !strings.Contains(got.stderr, "jitter none") {
		t.Errorf("create: exit %d, %q (%s)", got.code, got.stdout, got.stderr)
	}
	want := `{"name":"gold","description":"paying","policy":{"classify":{"statuses":{"409":"success"}},"preset":"full-5","retry":{"jitter":"none"}}}`
	if body := strings.TrimSpace(s.got[0].Body); body != want {
		t.Errorf("create sent %s", body)
	}
	if got := s.run("policies", "list"); got.code != 0 || !strings.Contains(got.stdout, "gold  2        0") {
		t.Errorf("list:\n%s%s", got.stdout, got.stderr)
	}
	if got := s.run("policies", "get", "gold"); got.code != 0 || !strings.Contains(got.stdout, `"gold"`) {
		t.Errorf("get: exit %d, %q", got.code, got.stdout)
	}
	if got := s.run("policies", "delete", "gold"); got.code == 0 || !strings.Contains(got.stderr, "2 tenants") {
		t.Errorf("delete in use: exit %d, %q", got.code, got.stderr)
	}
	for _, args := range [][]string{{"policies", "create", "gold"}, {"policies", "create", "gold", "--file", filepath.Join(t.TempDir(), "none")}, {"policies", "create"}} {
		if got := s.run(args...); got.code == 0 || got.stderr == "" {
			t.Errorf("%v: exit %d, %q", args, got.code, got.stderr)
		}
	}
}
