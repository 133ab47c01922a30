package process_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// makeLines returns what make would run for a target, one command on each line.
func makeLines(t *testing.T, target string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-n", target)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make -n %s: %v\n%s", target, err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestFromACloneToADelivery: after the clone one command leads to delivered events
// (TestDemo plays it), and one to a server that says what to try. Each of them only
// compiles and starts the binary: nothing else has to be installed or typed.
func TestFromACloneToADelivery(t *testing.T) {
	t.Parallel()
	for target, starts := range map[string]string{"demo": "bin/breakwater demo", "run": "bin/breakwater serve --dev"} {
		lines := makeLines(t, target)
		if len(lines) != 3 || !strings.HasPrefix(lines[0], "echo 'compiling") || !strings.Contains(lines[1], " build ") || lines[2] != starts {
			t.Errorf("make %s runs\n%s\nwant a message, the compiler and %s", target, strings.Join(lines, "\n"), starts)
		}
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, try, _ := strings.Cut(string(readme), "\n## Try it\n")
	first := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(try, 2)
	if len(first) != 2 || !strings.HasPrefix(first[0][1], "make run ") || !strings.HasPrefix(first[1][1], "make demo ") {
		t.Errorf("the quick start does not begin with make run and make demo: %q", first)
	}
}

// TestMakeSaysWhatItDoes: compiling takes a minute or two, and whoever waits knows
// why: the message is there before the compiler is called.
func TestMakeSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	compiler := filepath.Join(t.TempDir(), "go")
	if err := os.WriteFile(compiler, []byte("#!/bin/sh\necho the compiler was called >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"run", "demo", "build", "scene"} {
		cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", target, "GO="+compiler)
		cmd.Dir = filepath.Join("..", "..")
		var said bytes.Buffer
		cmd.Stderr = &said
		began := time.Now()
		if err := cmd.Run(); err == nil {
			t.Errorf("make %s works without a compiler", target)
		}
		if took := time.Since(began); timesJudged() && took > 2*time.Second {
			t.Errorf("make %s needs %v to say something", target, took)
		}
		message, rest, _ := strings.Cut(said.String(), "\n")
		if !strings.HasPrefix(message, "compiling Breakwater: a minute or two") || !strings.HasPrefix(rest, "the compiler was called\n") {
			t.Errorf("make %s says:\n%s", target, &said)
		}
	}
}
