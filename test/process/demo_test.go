package process_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDemo: one command plays it to its end, tells what happens, and leaves nothing behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir, temp := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "breakwater.yaml"), []byte("listen: nowhere\n"), 0o600); err != nil {
		t.Fatal(err) // the demo has settings of its own
	}
	cmd := exec.CommandContext(t.Context(), binary, "demo", "--outage", "5s", "--json", "--record", filepath.Join(dir, "demo.svg"))
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "BREAKWATER_LISTEN=nowhere")
	if err := cmd.Run(); err != nil {
		t.Fatalf("demo: %v\n%s", err, &stderr)
	}
	type ending struct {
		Events    int64 `json:"events"`
		Delivered int64 `json:"delivered"`
		Waiting   int64 `json:"waiting"`
		Crashes   int64 `json:"crashes"`
	}
	var got struct {
		Plain ending `json:"retry_loop"`
		Ours  ending `json:"breakwater"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, &stdout)
	}
	for name, e := range map[string]ending{"the retry loop": got.Plain, "Breakwater": got.Ours} {
		if e.Delivered == 0 || e.Delivered+e.Waiting != e.Events {
			t.Errorf("%s: %d of %d events delivered and %d waiting", name, e.Delivered, e.Events, e.Waiting)
		}
	}
	if got.Ours.Crashes > got.Plain.Crashes {
		t.Errorf("Breakwater crashed the endpoint %d times, the retry loop %d", got.Ours.Crashes, got.Plain.Crashes)
	}
	for _, want := range []string{"dashboard http://127.0.0.1:", "both endpoints go down", "Breakwater's breaker opened", "both endpoints are back"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("nobody said %q:\n%s", want, &stderr)
		}
	}
	if picture, err := os.ReadFile(filepath.Join(dir, "demo.svg")); err != nil || !bytes.Contains(picture, []byte("crashed the endpoint again")) {
		t.Errorf("the recording: %v, %d bytes", err, len(picture))
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("the demo left %v behind, %v", left, err)
	}
}

func TestDemoRefusesWrongSettings(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--rate 1":       "--rate: from 5 to 100",
		"--outage 1h":    "--outage: from 5s to 40s",
		"--port 70000":   "--port: from 0 to 65535",
		"--outage often": "--outage",
		"now":            "wrong number of arguments",
	} {
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"demo"}, strings.Fields(args)...)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("demo %s: %v, %s", args, err, out)
		}
	}
}
