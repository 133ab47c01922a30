package cli_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md")

func TestManual(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := runWith(nil, "", "man", "--markdown", dir); got.code != 0 || got.stdout+got.stderr != "" {
		t.Fatalf("exit %d, %s%s", got.code, got.stdout, got.stderr)
	}
	want, err := os.ReadFile(filepath.Join(dir, "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	const page = "../../docs/cli.md"
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(page); err != nil || !bytes.Equal(is, want) {
		t.Errorf("docs/cli.md is not what the commands say (%v); run: go test ./internal/cli -run TestManual -update", err)
	}
	// Whoever reads about a command sees how it is used.
	for _, section := range strings.Split(string(want), "\n## ")[4:] {
		for command := range strings.SplitSeq(section, "\n### ") {
			name, text, _ := strings.Cut(command, "\n")
			_, usage, used := strings.Cut(text, "\nUsage: ")
			if used && !strings.Contains(usage, "```text\n"+name) {
				t.Errorf("%s has no example of itself:\n%s", name, text)
			}
			for line := range strings.Lines(usage) {
				if strings.HasPrefix(line, "breakwater ") {
					exampleIsRight(t, line)
				}
			}
		}
	}
}

// exampleIsRight fails for commands and flags that are not there.
func exampleIsRight(t *testing.T, line string) {
	t.Helper()
	command, _, _ := strings.Cut(line, " | ")
	words := strings.Fields(strings.ReplaceAll(command, "'", ""))[1:]
	if got := runWith(nil, "", append(words, "--help")...); got.code != 0 {
		t.Errorf("%s: exit %d, %s", line, got.code, got.stderr)
	}
}

func TestManPages(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		if got := runWith([]string{"SOURCE_DATE_EPOCH=1700000000"}, "", "man", dir); got.code != 0 || got.stdout+got.stderr != "" {
			t.Fatalf("exit %d, %s%s", got.code, got.stdout, got.stderr)
		}
	}
	for _, name := range []string{"breakwater.1", "breakwater-send.1", "breakwater-endpoints-rotate-secret.1", "breakwater-completion-bash.1"} {
		one, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile(filepath.Join(second, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) || !bytes.Contains(one, []byte(`"Nov 2023" "Breakwater `)) {
			t.Errorf("%s is not the same twice, or has another date:\n%.300s", name, one)
		}
	}
	all, err := filepath.Glob(filepath.Join(first, "*.1"))
	if err != nil || len(all) < 60 {
		t.Errorf("%d pages, %v", len(all), err)
	}
	if got := runWith([]string{"SOURCE_DATE_EPOCH=today"}, "", "man", first); got.code != 2 || !strings.Contains(got.stderr, "SOURCE_DATE_EPOCH") {
		t.Errorf("exit %d, %s", got.code, got.stderr)
	}
	if got := runWith(nil, "", "man", filepath.Join(all[0], "below")); got.code != 2 || !strings.Contains(got.stderr, "DIR: ") {
		t.Errorf("a folder in a file: exit %d, %s", got.code, got.stderr)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--json"}, {"--quiet"}} {
		command, flag := runWith(nil, "", append(flags, "version")...), runWith(nil, "", append(flags, "--version")...)
		if command != flag || command.code != 0 || command.stdout == "" {
			t.Errorf("version: %+v, --version: %+v", command, flag)
		}
	}
}
