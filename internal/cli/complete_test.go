package cli_test

import (
	"strings"
	"testing"
	"time"
)

// TestCompletionAsksTheServer: Tab knows what there is, and what a flag may hold.
func TestCompletionAsksTheServer(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{
		"GET /v1/tenants/default/endpoints": {{200, `{"data":[{"id":"ep_1","uid":"orders","url":"https://a.example/"},{"id":"ep_2","uid":null,"url":"https://b.example/"}],"next_cursor":null}`}},
		"GET /v1/tenants/acme/endpoints":    {{200, `{"data":[{"id":"ep_3","uid":null,"url":"https://c.example/"}],"next_cursor":null}`}},
		"GET /v1/tenants":                   {{200, `{"data":[{"id":"ten_1","uid":"acme","name":"ACME"}],"next_cursor":null}`}},
		"GET /v1/policies":                  {{200, `{"data":[{"name":"gentle","description":"for small ones"}],"next_cursor":null}`}},
	})
	environ := []string{"BREAKWATER_URL=" + s.URL, "BREAKWATER_API_KEY=bw_x"}
	for line, want := range map[string][]string{
		"endpoints get ":               {"orders\thttps://a.example/", "ep_2\thttps://b.example/", ":4"},
		"endpoints pause orders ":      {"ep_2\thttps://b.example/", ":4"},
		"--tenant acme endpoints get ": {"ep_3\thttps://c.example/", ":4"},
		"deliveries list --endpoint ":  {"orders\thttps://a.example/", "ep_2\thttps://b.example/", ":4"},
		"deliveries list --status ":    {"pending", "delivered", "dead", "cancelled", "held", "retrying", ":4"},
		"policies get ":                {"gentle\tfor small ones", ":4"},
		"tail --tenant ":               {"acme\tACME", ":4"},
		"replay show ":                 {":4"}, // the server has no answer
	} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		got := runWith(environ, "", args...)
		if lines := strings.Split(strings.TrimSpace(got.stdout), "\n"); strings.Join(lines, "|") != strings.Join(want, "|") {
			t.Errorf("%q: %q, want %q\n%s", line, lines, want, got.stderr)
		}
	}
	began := time.Now()
	got := runWith([]string{"BREAKWATER_URL=http://127.0.0.1:1"}, "", "__complete", "endpoints", "get", "")
	if strings.TrimSpace(got.stdout) != ":4" || time.Since(began) > 30*time.Second {
		t.Errorf("without a server: %q", got.stdout)
	}
}
