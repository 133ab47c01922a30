// Package manual runs the commands that the pages show, as their readers do: every
// block of shell in the README and in docs/ is executed with the real binary, or
// says above itself why it is not.
//
// Two comments that readers do not see tell more than the text of a page:
//
//	<!-- run: COMMAND -->     runs here: what the text tells a person to do by hand
//	<!-- not run: REASON -->  the next block is not run
package manual_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "embed"

	"github.com/breakwaterhq/breakwater/test/program"
)

const root = "../.."

//go:embed prelude.sh
var prelude string

// binary is the built product.
var binary string

func TestMain(m *testing.M) {
	program.Main(m.Run, &binary)
}

func pages(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(all) == 0 {
		t.Fatal("no pages: ", err)
	}
	return append(all, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"))
}

func TestCommandsOfThePages(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := parse(string(text))
		if err != nil {
			t.Errorf("%s: %v", page, err)
		}
		if !anyRuns(blocks) {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			run(t, filepath.Base(page), blocks)
		})
	}
}

func anyRuns(blocks []block) bool {
	for _, b := range blocks {
		if b.notRun == "" && !b.hidden {
			return true
		}
	}
	return false
}

// problem is what the server answers when it refuses something.
var problem = regexp.MustCompile(`urn:breakwater:problem:(\w+)`)

// run executes the blocks of a page. What a server refuses, the page has to show.
func run(t *testing.T, page string, blocks []block) {
	t.Helper()
	script, folder := script(blocks), t.TempDir()
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	server, sink := program.Address(), program.Address()
	script = strings.NewReplacer("127.0.0.1:8080", server, "127.0.0.1:9000", sink, "bin/breakwater", "breakwater").Replace(script)

	bash := exec.CommandContext(t.Context(), "bash", "-c", prelude+script)
	var out bytes.Buffer
	bash.Dir, bash.Stdout, bash.Stderr = folder, &out, &out
	bash.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "HOME="+folder,
		"ROOT="+repository, "FOLDER="+folder, "SERVER="+server, "SINK="+sink, "GOCACHE="+goCache(t), "GOFLAGS=")
	err = bash.Run()
	said := out.String()
	if err != nil {
		server, _ := os.ReadFile(filepath.Join(folder, "server.log"))
		sink, _ := os.ReadFile(filepath.Join(folder, "sink.log"))
		t.Fatalf("%s: %v\n%s\nthe server wrote:\n%s\nthe sink wrote:\n%s", page, err, tail(said), tail(string(server)), tail(string(sink)))
	}
	parts := strings.Split(said, mark)[1:]
	for i, b := range blocks {
		for _, found := range problem.FindAllStringSubmatch(parts[i], -1) {
			if !strings.Contains(b.after, found[1]) {
				t.Errorf("%s:%d: the server refuses a command with %s, which the page does not say:\n%s", page, b.line, found[1], parts[i])
			}
		}
	}
}

// mark separates what the blocks of a page print.
const mark = "### next\n"

func script(blocks []block) string {
	var s strings.Builder
	for _, b := range blocks {
		fmt.Fprintf(&s, "printf %q\n", mark)
		if b.notRun == "" {
			fmt.Fprintf(&s, "%s\n", b.text)
		}
	}
	return s.String()
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// goCache is the compiler's, wherever HOME points.
func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
