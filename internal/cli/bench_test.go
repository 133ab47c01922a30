package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchMistakes: nothing is started before the command line is understood.
func TestBenchMistakes(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "no", "such", "folder")
	for name, tc := range map[string]struct {
		args string
		want string
	}{
		"unknown subject":     {"bench --only sqlit", `no subject "sqlit"; did you mean sqlite?`},
		"unknown row":         {"bench --rows bass", `no row "bass"; did you mean base?`},
		"no setting":          {"bench --with stats.enabled", `--with: "stats.enabled" is not a setting: want name=value`},
		"no rounds":           {"bench --rounds -1", "rounds must be 1 to 100"},
		"too many":            {"bench --publishers 100000", "publishers must be 1 to 4096"},
		"too short":           {"bench --duration 1ms", "duration must be at least 100ms"},
		"endpoints":           {"bench --endpoints -1", "endpoints must be 1 to 500000"},
		"output":              {"bench --quick --out /dev/null/x", "--out:"},
		"data":                {"bench --quick --only sqlite --dir " + missing, "make folder for the data"},
		"argument":            {"bench quick", "wrong number of arguments"},
		"unknown flag":        {"bench --publisher 3", "did you mean --publishers?"},
		"nothing waiting":     {"bench backlog --waiting 0", "--waiting: must be 1 to"},
		"no nodes":            {"bench nodes --nodes 0", "--nodes: must be 1 to 10"},
		"relay has no target": {"bench relay", "Target"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runWith(nil, "", strings.Fields(tc.args)...)
			want := 2
			if name == "data" {
				want = 1
			}
			if got.code != want || !strings.Contains(got.stderr, tc.want) {
				t.Errorf("exit %d, stderr %q; want %q", got.code, got.stderr, tc.want)
			}
		})
	}
}

func TestBenchHelp(t *testing.T) {
	t.Parallel()
	got := runWith(nil, "", "bench", "--help")
	for _, want := range []string{"256 publishers, 1 KiB, fan-out 1", "batches of 100", "backlog", "--profile"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s", want, got.stdout)
		}
	}
	if strings.Contains(got.stdout, "bare relay that bench compares") {
		t.Error("the relay is not for people")
	}
}
