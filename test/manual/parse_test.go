package manual_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// block is a piece of shell of a page.
type block struct {
	line   int
	text   string
	hidden bool   // in a comment
	notRun string // why
	after  string // the page from here to the next block
}

const (
	fence       = "```"
	shellFence  = fence + "sh"
	runPrefix   = "<!-- run: "
	skipPrefix  = "<!-- not run: "
	commentTail = " -->"
)

// parse returns the shell of a page.
func parse(page string) (blocks []block, err error) {
	var notRun string
	var inside, other bool
	for i, line := range strings.Split(page, "\n") {
		last := len(blocks) - 1
		switch {
		case inside && line == fence:
			inside = false
		case inside:
			blocks[last].text += line + "\n"
		case line == shellFence || strings.HasPrefix(line, shellFence+" "):
			blocks = append(blocks, block{line: i + 1, notRun: notRun})
			inside, notRun = true, ""
		case notRun != "" && line != "":
			err = errors.Join(err, fmt.Errorf("line %d: no shell follows \"not run\"", i+1))
			notRun = ""
		case strings.HasPrefix(line, fence):
			other = !other
		case other:
		case strings.HasPrefix(line, runPrefix):
			blocks = append(blocks, block{line: i + 1, hidden: true, text: strings.TrimSuffix(line[len(runPrefix):], commentTail)})
		case strings.HasPrefix(line, skipPrefix):
			notRun = strings.TrimSuffix(line[len(skipPrefix):], commentTail)
		}
		if last = len(blocks) - 1; last >= 0 && !inside {
			blocks[last].after += line + "\n"
		}
	}
	return blocks, err
}

func TestParse(t *testing.T) {
	t.Parallel()
	blocks, err := parse("a\n<!-- run: echo one -->\n```sh\necho two\necho three\n```\nb\n```json\n{}\n```\n<!-- not run: too long -->\n```sh\nmake bench\n```\nc")
	if err != nil || len(blocks) != 3 {
		t.Fatalf("%d blocks, %v; want 3: %+v", len(blocks), err, blocks)
	}
	one, two, three := blocks[0], blocks[1], blocks[2]
	if !one.hidden || one.text != "echo one" {
		t.Errorf("the hidden one is %+v", one)
	}
	if two.text != "echo two\necho three\n" || two.line != 3 || !strings.Contains(two.after, "b\n```json\n{}") || strings.Contains(two.after, "\nc") {
		t.Errorf("the shown one is %+v", two)
	}
	if three.notRun != "too long" || three.text != "make bench\n" {
		t.Errorf("the one that is not run is %+v", three)
	}
	if _, err := parse("<!-- not run: no reason -->\ntext"); err == nil {
		t.Error("nothing was said about a remark that belongs to nothing")
	}
}
