package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/cli"
)

// short makes a simulation quick.
var short = []string{"simulate", "--outage", "30s", "--capacity", "20", "--load", "0.3"}

func simulate(args ...string) result {
	return runWith(nil, "", append(append([]string{}, short...), args...)...)
}

func TestSimulate(t *testing.T) {
	t.Parallel()
	got := simulate("--policy", "law", "--policy", "full-5+cap10+hold")
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("exit %d, stderr %q", got.code, got.stderr)
	}
	for _, want := range []string{"law in base, seed 1", "full-5+cap10+hold in base", "RE-CRASHED", "0/1", "the law", "open breaker holds, then releases"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s", want, got.stdout)
		}
	}
	if again := simulate("--policy", "law", "--policy", "full-5+cap10+hold"); again.stdout != got.stdout {
		t.Error("the same seed gives another output")
	}
	if other := simulate("--policy", "law", "--policy", "full-5+cap10+hold", "--seed", "2"); other.stdout == got.stdout {
		t.Error("another seed gives the same output")
	}
}

func TestSimulateJSON(t *testing.T) {
	t.Parallel()
	got := simulate("--json", "--seeds", "3", "--rate", "5", "--load", "0.3")
	if got.code != 2 {
		t.Errorf("--rate with --load: exit %d, want 2", got.code)
	}
	got = runWith(nil, "", "simulate", "--outage", "30s", "--capacity", "20", "--rate", "5", "--latency", "100ms", "--json", "--seeds", "3")
	if got.code != 0 {
		t.Fatalf("exit %d, stderr %q", got.code, got.stderr)
	}
	var doc struct {
		Data []struct {
			Scenario struct {
				Load    float64
				Latency string
			}
			Strategy string
			Summary  struct{ Runs int }
			Results  []struct{ Seed int }
		}
	}
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil {
		t.Fatalf("not JSON: %v", err)
	}
	d := doc.Data[0]
	if len(doc.Data) != 1 || d.Scenario.Load != 0.25 || d.Scenario.Latency != "100ms" || d.Strategy != "law" || d.Summary.Runs != 3 || d.Results[2].Seed != 3 {
		t.Errorf("document %+v", doc)
	}
}

func TestSimulateFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) string {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	scenario := write("s.yaml", "name: mine\ncapacity: 20\noutages: [{at: 10s, for: 20s}]\nhorizon: 1m\n")
	law := write("p.yaml", "preset: quick\nretry: {jitter: none}\n")
	got := runWith(nil, "", "simulate", "--scenario", scenario, "--policy", law, "--quiet",
		"--png", path("x.png"), "--svg", path("x.svg"), "--csv", path("x.csv"))
	if got.code != 0 || !strings.HasPrefix(got.stdout, "mine") || strings.Count(got.stdout, "\n") != 1 {
		t.Fatalf("exit %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
	if !strings.Contains(got.stderr, "jitter none synchronises retries") {
		t.Errorf("the policy's warning is missing: %q", got.stderr)
	}
	for name, begin := range map[string]string{"x.png": "\x89PNG", "x.svg": "<?xml", "x.csv": "strategy,second"} {
		raw, err := os.ReadFile(path(name))
		if err != nil || !bytes.HasPrefix(raw, []byte(begin)) {
			t.Errorf("%s: %v, begins with %q", name, err, raw[:min(len(raw), 10)])
		}
	}
	if got := runWith(nil, "", "simulate", "--scenario", scenario, "--svg", path("no/such/dir.svg")); got.code != 1 || !strings.Contains(got.stderr, "--svg:") {
		t.Errorf("exit %d, stderr %q", got.code, got.stderr)
	}
}

func TestSimulateAssert(t *testing.T) {
	t.Parallel()
	if got := simulate("--assert", "recrashes==0,dead==0,drain<=4"); got.code != 0 {
		t.Errorf("exit %d, stderr %q", got.code, got.stderr)
	}
	got := simulate("--assert", "recrashes==0,waste==0,drain<0.5")
	if got.code != 8 {
		t.Errorf("exit %d, want 8", got.code)
	}
	for _, want := range []string{"base, law: missed waste==0: it is 0.0", "missed drain<0.5", "the check failed: 2 goals are missed"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("no %q in %q", want, got.stderr)
		}
	}
	if got := runWith(nil, "", "simulate", "--policy", "full-5", "--assert", "goals"); got.code != 8 || !strings.Contains(got.stderr, "missed recrashes==0") {
		t.Errorf("the scenario's own goals: exit %d, stderr %q", got.code, got.stderr)
	}
}

// TestSimulateTwoOutages: a scenario with two outages has a row that tells them
// apart, and what a run did not come to does not read as none.
func TestSimulateTwoOutages(t *testing.T) {
	t.Parallel()
	csv := filepath.Join(t.TempDir(), "x.csv")
	got := runWith(nil, "", "simulate", "--name", "cliff-c100-0.3ms-r50-30s", "--policy", "exp-nojitter", "--until", "1m", "--csv", csv)
	if got.code != 0 {
		t.Fatalf("exit %d, stderr %q", got.code, got.stderr)
	}
	lines := strings.Split(got.stdout, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "SCENARIO") {
			continue
		}
		head, row := strings.Fields(line), strings.Fields(lines[i+1])
		if want := []string{"cliff-c100-0.3ms-r50-30s", "exp-nojitter", "10", "10", "0", "-", "-", "never", "never", "never", "never"}; !slices.Equal(row[:11], want) || head[2]+head[3] != "CRASHES1" {
			t.Errorf("row %q, want %q under %q", row, want, head)
		}
	}
	if strings.Contains(got.stdout, "RE-CRASHED") || !strings.Contains(got.stdout, "CRASHES 2") {
		t.Errorf("not the table of two outages:\n%s", got.stdout)
	}
	raw, err := os.ReadFile(csv)
	if err != nil || bytes.Count(raw, []byte("\n")) != 61 {
		t.Errorf("%d lines in the CSV, %v; want those of a minute", bytes.Count(raw, []byte("\n")), err)
	}
}

// TestSimulateUsage: what is wrong is named, and the exit code is 2.
func TestSimulateUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	badScenario := file("s.yaml", "capacity: fast\nload: [1]\n")
	badPolicy := file("p.yaml", "retry: {max_attempts: 0}\n")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"argument":          {[]string{"now"}, "wrong number of arguments"},
		"flag":              {[]string{"--polcy", "law"}, "did you mean --policy?"},
		"policy":            {[]string{"--policy", "full5"}, `--policy: unknown strategy "full5"`},
		"policy suggestion": {[]string{"--policy", "full5"}, "did you mean full-5?"},
		"policy file":       {[]string{"--policy", badPolicy}, "policy.retry.max_attempts"},
		"policy directory":  {[]string{"--policy", dir}, "--policy: read"},
		"name":              {[]string{"--name", "bas"}, `--name: "bas" is not known; did you mean base?`},
		"set":               {[]string{"--set", "all"}, `--set: "all" is not known; known: matrix, capacity`},
		"scenario":          {[]string{"--scenario", badScenario}, "capacity must be a number (line 1); load must be a number (line 2)"},
		"no scenario":       {[]string{"--scenario", filepath.Join(dir, "none")}, "--scenario: open"},
		"two choices":       {[]string{"--name", "base", "--matrix"}, "--name, --matrix: only one of them"},
		"rate and load":     {[]string{"--rate", "5", "--load", "0.5"}, "--rate, --load: only one of them"},
		"rate":              {[]string{"--rate", "60"}, "--rate: must be below the capacity, which is 50"},
		"load":              {[]string{"--load", "2"}, "load must be between 0.001 and 0.99"},
		"capacity":          {[]string{"--capacity", "-1"}, "capacity must be between 0.1 and 100000"},
		"latency":           {[]string{"--latency", "1h"}, "latency must be between 100µs and 2m"},
		"outage":            {[]string{"--outage", "0s"}, "outages[0].for must be between 1s"},
		"endpoints":         {[]string{"--endpoints", "0"}, "endpoints must be between 1 and 1000"},
		"seeds":             {[]string{"--seeds", "0"}, "--seeds: must be between 1 and 100000"},
		"workers":           {[]string{"--workers", "0"}, "--workers: must be at least 1"},
		"changed set":       {[]string{"--matrix", "--load", "0.5"}, "--load: cannot change a whole set"},
		"picture of a set":  {[]string{"--matrix", "--svg", "x.svg"}, "--png, --svg and --csv need a single scenario"},
		"until":             {[]string{"--until", "1s"}, "--until: must be at least 10s"},
		"assert":            {[]string{"--assert", "drain"}, `--assert: "drain" must be a comparison`},
		"unknown value":     {[]string{"--assert", "speed>1"}, `--assert: "speed>1": "speed" is not known; known: broken_holds`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runWith(nil, "", append([]string{"simulate"}, tc.args...)...)
			if got.code != 2 || got.stdout != "" || !strings.Contains(got.stderr, tc.want) {
				t.Errorf("exit %d, stdout %q, stderr %q; want 2 and %q", got.code, got.stdout, got.stderr, tc.want)
			}
		})
	}
}

func TestSimulateList(t *testing.T) {
	t.Parallel()
	got := runWith(nil, "", "simulate", "--list")
	for _, want := range []string{"--set matrix:", "--name drain-4h\n", "--policy law\n", "--policy exp-nojitter+cap10+hold\n"} {
		if got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("exit %d, no %q", got.code, want)
		}
	}
}

// TestSimulateInterrupted: a signal ends a long simulation.
func TestSimulateInterrupted(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 1)
	signals <- os.Interrupt
	var stdout, stderr bytes.Buffer
	code := cli.Run(cli.Host{
		Args:   []string{"simulate", "--seeds", "100000"},
		Stdout: &stdout, Stderr: &stderr, Signals: signals,
	})
	if code != 130 || stdout.Len() > 0 {
		t.Errorf("exit %d, stdout %q; want 130 and nothing", code, stdout.String())
	}
}
