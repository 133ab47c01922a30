package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEventTypesAreDescribed(t *testing.T) {
	t.Parallel()
	const paid = `{"type":"order.paid","tenant":"ten_1","description":"paid","schema":{"type":"object"},"example":null,"created_at":"2026-03-02T10:00:00.000Z","updated_at":"2026-03-02T10:00:00.000Z","version":2}`
	path := "/v1/tenants/default/event-types"
	s := newServer(t, map[string][]answer{
		"POST " + path: always(201, paid), "GET " + path: always(200, `{"data":[`+paid+`],"next_cursor":null}`),
		"GET " + path + "/order.paid": always(200, paid), "PATCH " + path + "/order.paid": always(200, paid), "DELETE " + path + "/order.paid": always(204, ""),
	})
	dir := t.TempDir()
	file, broken := filepath.Join(dir, "order.json"), filepath.Join(dir, "broken.json")
	for name, text := range map[string]string{file: "{\n \"type\": \"object\"}", broken: "{"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.run("event-types", "create", "order.paid", "--schema", file, "--description=paid"); got.code != 0 || got.stdout != "order.paid described, schema yes\n" {
		t.Errorf("create: exit %d, %q (%s)", got.code, got.stdout, got.stderr)
	}
	if body := strings.TrimSpace(s.got[0].Body); body != `{"description":"paid","schema":{"type":"object"},"type":"order.paid"}` {
		t.Errorf("create sent %s", body)
	}
	if got := s.run("event-types", "update", "order.paid", "--schema="); got.code != 0 || !strings.Contains(got.stdout, "version 2") {
		t.Errorf("update: exit %d, %q (%s)", got.code, got.stdout, got.stderr)
	}
	if body := strings.TrimSpace(s.got[1].Body); body != `{"schema":null}` {
		t.Errorf("update sent %s", body)
	}
	if got := s.run("event-types", "list"); got.code != 0 || !strings.Contains(got.stdout, "order.paid  yes") {
		t.Errorf("list:\n%s%s", got.stdout, got.stderr)
	}
	if got := s.run("event-types", "get", "order.paid"); got.code != 0 || !strings.Contains(got.stdout, `"order.paid"`) {
		t.Errorf("get: exit %d, %q", got.code, got.stdout)
	}
	if got := s.run("event-types", "delete", "order.paid"); got.code != 0 || !strings.Contains(got.stdout, "deleted") {
		t.Errorf("delete: exit %d, %q, %q", got.code, got.stdout, got.stderr)
	}
	for _, args := range [][]string{
		{"event-types", "create"},
		{"event-types", "update", "order.paid"},
		{"event-types", "create", "a", "--schema", broken},
		{"event-types", "create", "a", "--schema", filepath.Join(dir, "none")},
	} {
		if got := s.run(args...); got.code == 0 || got.stderr == "" {
			t.Errorf("%v: exit %d, %q", args, got.code, got.stderr)
		}
	}
}
