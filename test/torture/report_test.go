package torture_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/test/torture/check"
)

// result is one line of the table.
type result struct {
	part, store string
	faults      string // "250 kills"
	skipped     string // why nothing was done
	control     bool   // losses are what it has to find

	accepted, expected, again int
	lost                      int // events: lost or unknown to the API
	claims                    int // false claims
	other                     int // everything else that package check finds
	unreadable                int // images on which the server did not start, or that are damaged
	hit                       int // cuts in which anything was found
	took                      time.Duration
}

func (r *result) count(v check.Verdict) {
	r.accepted += v.Accepted
	r.expected += v.Expected
	r.again += v.Again
	r.lost += distinct(v.Lost, v.Missing)
	r.claims += distinct(v.FalseClaims)
	r.other += distinct(v.Waiting, v.GivenUp, v.Phantoms, v.Altered, v.SplitKeys, v.Miscounted)
}

// distinct counts events once, however many of their deliveries are concerned.
func distinct(lists ...[]string) int {
	seen := make(map[string]bool)
	for _, list := range lists {
		for _, event := range list {
			seen[event] = true
		}
	}
	return len(seen)
}

// report is the table of the run, in the form in which docs/reliability.md
// shows it.
type report struct {
	mu    sync.Mutex
	lines []result
}

var results report

// fileLine adds a line to the table. A part in which nothing was accepted has
// tested nothing.
func fileLine(t *testing.T, line result) {
	t.Helper()
	results.add(line)
	t.Logf("%+v", line)
	if line.accepted == 0 && line.unreadable == 0 {
		t.Error("nothing was accepted: nothing was tested")
	}
}

func (r *report) add(line result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (r *report) print(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\nseed %d\n\n", todo.seed)
	fmt.Fprintln(w, "| What | Store | Faults | Accepted | Deliveries | Lost | False claims | Other findings | Unreadable | Arrived again | Time |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|")
	for _, l := range r.lines {
		if l.skipped != "" {
			fmt.Fprintf(w, "| %s | %s | **skipped**: %s | | | | | | | | |\n", l.part, l.store, l.skipped)
			continue
		}
		faults := l.faults
		if l.control {
			faults += fmt.Sprintf(", %d with a finding", l.hit)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", l.part, l.store, faults,
			thousands(l.accepted), thousands(l.expected), thousands(l.lost), thousands(l.claims), thousands(l.other),
			thousands(l.unreadable), thousands(l.again), l.took.Round(time.Second))
	}
	fmt.Fprintln(w)
}

// thousands writes 12345 as 12,345.
func thousands(n int) string {
	text := fmt.Sprint(n)
	var b strings.Builder
	for i, digit := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}
