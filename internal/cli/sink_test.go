package cli_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestSinkFlagsAreDocumented: the page about the sink names every flag that
// --help shows, and none that does not exist.
func TestSinkFlagsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/sink.md")
	if err != nil {
		t.Fatal(err)
	}
	help := runWith(nil, "", "sink", "--help").stdout
	own, _, _ := strings.Cut(help, "Global Flags:")
	_, own, _ = strings.Cut(own, "\nFlags:")
	flags := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`).FindAllStringSubmatch(own, -1) {
		flags[m[1]] = true
	}
	if len(flags) < 25 {
		t.Fatalf("only %d flags in:\n%s", len(flags), help)
	}
	table := regexp.MustCompile("(?m)^\\| `--([\\w-]+)`").FindAllStringSubmatch(string(page), -1)
	documented := map[string]bool{"help": true}
	for _, m := range table {
		documented[m[1]] = true
		if !flags[m[1]] {
			t.Errorf("docs/sink.md has a row for --%s, which does not exist", m[1])
		}
	}
	for name := range flags {
		if !documented[name] {
			t.Errorf("docs/sink.md has no row for --%s", name)
		}
	}
}
