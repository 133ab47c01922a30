package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/lab/promtest"
)

func TestRules(t *testing.T) {
	t.Parallel()
	r := runWith(nil, "", "rules", "--severity-label", "prio", "--job", "hooks", "--docs-url", "https://wiki.example/", "--lease-ttl", "30s")
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("rules = %d %s", r.code, r.stderr)
	}
	for _, want := range []string{
		"alert: BreakwaterRetryStorm", "prio: page", `up{job="hooks"} == 0`, "https://wiki.example/docs/alerts.md#retry_storm",
		`breakwater_lease_age_seconds{job="hooks"} > 30`,
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in the rules", want)
		}
	}
	if err := promtest.Find(t).CheckRules([]byte(r.stdout)); err != nil {
		t.Error(err)
	}
}

// TestRulesHaveTheServersSettings: thresholds, switched-off rules and the runbook's
// address are those of the server.
func TestRulesHaveTheServersSettings(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "breakwater.yaml")
	text := "alerts: {dead_rate: {percent: 3}, retry_storm: {enabled: false}}\nalert: {runbook_url: 'https://wiki.example/alerts'}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runWith(nil, "", "rules", "--config", config)
	if r.code != 0 {
		t.Fatalf("rules = %d %s", r.code, r.stderr)
	}
	for _, want := range []string{"[1d])) > 3 and", "https://wiki.example/alerts#dead_rate"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in the rules", want)
		}
	}
	if strings.Contains(r.stdout, "BreakwaterRetryStorm") {
		t.Error("a rule that is switched off is there")
	}
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	r := runWith(nil, "", "dashboard-json", "--datasource", "main")
	var d struct {
		Title  string
		Panels []struct{ Datasource struct{ UID string } }
	}
	if err := json.Unmarshal([]byte(r.stdout), &d); err != nil || r.code != 0 {
		t.Fatalf("dashboard-json = %d %s, %v", r.code, r.stderr, err)
	}
	if d.Title != "Breakwater" || len(d.Panels) < 40 || d.Panels[1].Datasource.UID != "main" {
		t.Errorf("dashboard %s with %d panels, %+v", d.Title, len(d.Panels), d.Panels[1])
	}
}

func TestMonitoringFlagsAreChecked(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"severity label":  {"rules", "--severity-label", "a b"},
		"documentation":   {"rules", "--docs-url", "wiki"},
		"datasource":      {"dashboard-json", "--datasource", "a b"},
		"wrong number of": {"dashboard-json", "main"},
	} {
		if r := runWith(nil, "", args...); r.code != 2 || !strings.Contains(r.stderr, want) || r.stdout != "" {
			t.Errorf("%v = %d %s", args, r.code, r.stderr)
		}
	}
}
