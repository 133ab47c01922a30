package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// directives reads a unit file. Some may be given several times.
func directives(text string) map[string][]string {
	found := map[string][]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(name, "#") {
			found[name] = append(found[name], value)
		}
	}
	return found
}

func TestUnitStartsAServerThatExists(t *testing.T) {
	t.Parallel()
	unit := directives(read(t, "deploy/systemd/breakwater.service"))
	start := strings.Fields(unit["ExecStart"][0])
	if start[0] != "/usr/bin/breakwater" || start[1] != "serve" {
		t.Fatalf("ExecStart %q", start)
	}
	example, err := filepath.Abs(filepath.Join(root, "deploy", "breakwater.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	flags := strings.NewReplacer("%E/breakwater/breakwater.yaml", example, "%S", t.TempDir()).Replace(strings.Join(start[2:], " "))
	checkSettings(t, nil, strings.Fields(flags)...)
	for name, want := range map[string]string{
		"DynamicUser": "yes", "StateDirectory": "breakwater", "StateDirectoryMode": "0700", "Restart": "always", "TimeoutStopSec": "60",
		"ProtectSystem": "strict", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "LimitNOFILE": "65536",
	} {
		if got := unit[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s=%q, want %q", name, got, want)
		}
	}
	// A reload would end the server: it knows no such signal.
	if reload := unit["ExecReload"]; reload != nil {
		t.Errorf("ExecReload=%q", reload)
	}

	postgres := directives(read(t, "deploy/systemd/postgres.conf"))
	for _, variable := range postgres["Environment"] {
		_, credential, _ := strings.Cut(variable, "%d/")
		if !strings.Contains(strings.Join(postgres["LoadCredential"], " "), credential+":/") {
			t.Errorf("%s: no credential of that name is loaded", variable)
		}
	}
	checkSettings(t, postgres["Environment"])
}

// TestUnitIsConfined asks systemd, where it is: the unit has no mistakes, with the
// drop-in and without, and is open to little.
func TestUnitIsConfined(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not on this machine: only the facts of the unit were checked")
		return
	}
	dir := t.TempDir()
	unit := filepath.Join(dir, "breakwater.service")
	text := strings.Replace(read(t, "deploy/systemd/breakwater.service"), "/usr/bin/breakwater", "/bin/sh", 1) // one that is here
	dropIn := filepath.Join(dir, "breakwater.service.d")
	if err := os.Mkdir(dropIn, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{unit: text, filepath.Join(dropIn, "postgres.conf"): read(t, "deploy/systemd/postgres.conf")} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || strings.Contains(string(out), unit) {
		t.Errorf("verify: %v\n%s", err, out)
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", unit).CombinedOutput()
	level := regexp.MustCompile(`Overall exposure level for breakwater.service: ([0-9.]+)`).FindSubmatch(out)
	if err != nil || level == nil {
		t.Fatalf("security: %v\n%s", err, out)
	}
	if exposure, err := strconv.ParseFloat(string(level[1]), 64); err != nil || exposure >= 2 {
		t.Errorf("exposure %s, want less than 2.0\n%s", level[1], out)
	}
}
