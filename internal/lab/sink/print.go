package sink

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tick prints the status line of each second and flushes the log.
func (s *Sink) tick(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var last Counts
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			last = s.printSecond(now, last)
			// A log that cannot be written is reported when Run ends.
			_ = s.log.flush()
		}
	}
}

// printSecond tells what happened since last and returns where it is now.
func (s *Sink) printSecond(now time.Time, last Counts) Counts {
	s.mu.Lock()
	c := s.counts()
	var crashes []Crash
	if n := min(c.Crashes-last.Crashes, int64(len(s.crashLog))); n > 0 {
		crashes = slices.Clone(s.crashLog[len(s.crashLog)-int(n):])
	}
	s.mu.Unlock()
	if c.Requests < last.Requests { // the counts were reset
		last = Counts{}
	}
	for _, crash := range crashes {
		s.print("%s\n", crashLine(crash))
	}
	if c.Requests == last.Requests && c.answered() == last.answered() {
		return c
	}
	if s.told.all() {
		return c
	}
	line := fmt.Sprintf("%s in %d ok %d fail %d dup %d badsig %d inflight %d", now.Format(time.TimeOnly),
		c.Requests-last.Requests, c.OK-last.OK, c.Failed-last.Failed, c.Duplicates-last.Duplicates,
		c.BadSignatures-last.BadSignatures, c.InFlight)
	s.print("%s\n", line+nonZero(
		"down", c.WhileDown-last.WhileDown, "refused", c.Refused-last.Refused,
		"429", c.Throttled-last.Throttled, "early", c.BrokenHolds-last.BrokenHolds,
	))
	return c
}

// maxRequestLines is how many requests of a second have a line each.
const maxRequestLines = 20

// teller counts the lines of the current second.
type teller struct {
	mu          sync.Mutex
	told, quiet int
}

// line reports whether there is room for one more.
func (t *teller) line() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told < maxRequestLines {
		t.told++
		return true
	}
	t.quiet++
	return false
}

// all reports whether all requests of the second had a line, and begins the next.
func (t *teller) all() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.told > 0 && t.quiet == 0
	t.told, t.quiet = 0, 0
	return all
}

// tell prints the line of a request.
func (s *Sink) tell(e *entry) {
	if !s.cfg.Requests || !s.told.line() {
		return
	}
	answered := strconv.Itoa(e.Status)
	if e.Status == 0 {
		answered = "reset"
	}
	line := fmt.Sprintf("%s %s %q %s %s signature %s", e.Time.Format("15:04:05.000"), answered, e.Path,
		cmp.Or(e.Type, "no type"), cmp.Or(e.WebhookID, "no webhook-id"), e.Signature)
	if e.Attempt > 1 {
		line += fmt.Sprintf(" attempt %d", e.Attempt)
	}
	if e.Duplicate {
		line += " duplicate"
	}
	if e.Early {
		line += " early"
	}
	s.print("%s\n", line)
}

func crashLine(c Crash) string {
	at := c.At.Format("15:04:05.000")
	switch c.Why {
	case crashArrivals:
		return fmt.Sprintf("%s crash: %d requests within a second", at, c.Load)
	case crashQueue:
		return fmt.Sprintf("%s crash: the queue is full, %d requests within a second", at, c.Load)
	default:
		return at + " crash: " + c.Why
	}
}

// nonZero writes " name n" for the pairs whose number is not zero.
func nonZero(pairs ...any) string {
	var out strings.Builder
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != int64(0) {
			fmt.Fprintf(&out, " %v %v", pair...)
		}
	}
	return out.String()
}

// maxPathLines bounds the paths whose totals are printed; GET /_sink has all.
const maxPathLines = 20

func (s *Sink) printTotals() {
	r := s.Report()
	s.print("total %d ok %d fail %d dup %d badsig %d unsigned %d throttled %d early %d crashes %d max-inflight %d ids %d "+
		"refused %d down %d max-per-second %d\n",
		r.Requests, r.OK, r.Failed, r.Duplicates, r.BadSignatures, r.Unsigned, r.Throttled, r.BrokenHolds, r.Crashes, r.MaxInFlight, r.UniqueIDs,
		r.Refused, r.WhileDown, r.MaxPerSecond)
	for _, crash := range r.CrashLog {
		s.print("  %s\n", crashLine(crash))
	}
	if len(r.Paths) < 2 {
		return
	}
	busiest := slices.SortedFunc(maps.Keys(r.Paths), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Paths[b].Requests, r.Paths[a].Requests), cmp.Compare(a, b))
	})
	for _, path := range busiest[:min(len(busiest), maxPathLines)] {
		t := r.Paths[path]
		s.print("  %q %d ok %d fail %d dup %d max-per-second %d%s\n", path, t.Requests, t.OK, t.Failed, t.Duplicates, t.MaxPerSecond,
			nonZero("down", t.WhileDown, "refused", t.Refused, "429", t.Throttled, "early", t.BrokenHolds))
	}
	if more := len(busiest) - maxPathLines; more > 0 {
		s.print("  and %d paths more\n", more)
	}
}

// print writes for people. A closed terminal is no reason to stop.
func (s *Sink) print(format string, args ...any) {
	if s.cfg.Out != nil {
		_, _ = fmt.Fprintf(s.cfg.Out, format, args...)
	}
}
