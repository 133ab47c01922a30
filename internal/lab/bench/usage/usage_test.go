package usage_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/bench/usage"
)

func TestMain(m *testing.M) {
	if runtime.GOOS != "linux" {
		fmt.Println("NOT TESTED: /proc is Linux's")
		return
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("NOT TESTED with -short: starts processes")
		return
	}
	os.Exit(m.Run())
}

// shell starts a script that says "ready" and then waits for its input to end.
func shell(t *testing.T, script string) int {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script+"; echo ready; read _")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	if _, err := stdout.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

const work = `i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done`

func TestCPUOfProcessAndChildren(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		alone  bool // the process itself did the work
	}{
		"itself":             {work, true},
		"a child that ended": {"(" + work + ")", false},
		// The child says when it is ready, its parent waits as it does in the end.
		"a child that goes on": {"(" + work + "; echo ready; exec >/dev/null 2>&1; while kill -0 $$; do sleep 0.1; done) & read _", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := shell(t, tc.script)
			const least = 30 * time.Millisecond
			alone, err := usage.Of(pid)
			if err != nil {
				t.Fatal(err)
			}
			if (alone.CPU >= least) != tc.alone {
				t.Errorf("the process itself used %v", alone.CPU)
			}
			tree, err := usage.OfTree(pid)
			if err != nil {
				t.Fatal(err)
			}
			if tree.CPU < least {
				t.Errorf("the tree used %v, want at least %v", tree.CPU, least)
			}
			if tree.Peak < alone.Peak || alone.Peak < 100<<10 || alone.Now < 10<<10 {
				t.Errorf("memory: %+v of the process, %+v of the tree", alone, tree)
			}
		})
	}
}

func TestBytesWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(onDisk(t), "file")
	// The shell itself never writes; dd has ended and counts for its parent.
	pid := shell(t, "dd if=/dev/zero of="+path+" bs=64k count=32 conv=fsync 2>/dev/null")
	u, err := usage.OfTree(pid)
	if err != nil {
		t.Fatal(err)
	}
	if u.Written < 2<<20 {
		t.Errorf("%d bytes written, want 2 MiB", u.Written)
	}
}

// onDisk returns a folder that is not in memory: a temporary one, else one
// beside the source, else one where files survive a restart.
func onDisk(t *testing.T) string {
	t.Helper()
	if dir := t.TempDir(); !inMemory(dir) {
		return dir
	}
	for _, parent := range []string{".", "/var/tmp"} {
		dir, err := os.MkdirTemp(parent, "testdata-") //nolint:usetesting // the temporary folder is in memory
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		if !inMemory(dir) {
			return dir
		}
	}
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		t.Fatal("writes to a disk must be counted here, but all folders are in memory")
	}
	t.Skip("NOT TESTED: all folders of this machine are in memory")
	return ""
}

func inMemory(path string) bool {
	out, err := exec.Command("stat", "-f", "-c", "%T", path).Output()
	return err == nil && strings.Contains(string(out), "tmpfs")
}

func TestBusyGrows(t *testing.T) {
	t.Parallel()
	before, err := usage.Busy()
	if err != nil {
		t.Fatal(err)
	}
	shell(t, work)
	after, err := usage.Busy()
	if err != nil || after-before < 20*time.Millisecond {
		t.Errorf("busy from %v to %v, error %v", before, after, err)
	}
}

func TestUnknownProcess(t *testing.T) {
	t.Parallel()
	if u, err := usage.OfTree(1 << 30); err == nil {
		t.Errorf("a process that is not there used %+v", u)
	}
}
