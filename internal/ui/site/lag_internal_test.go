package site

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// stuck is the connection of a browser that reads nothing.
type stuck struct {
	*httptest.ResponseRecorder
	deadline time.Time
	full     bool
}

func (s *stuck) SetWriteDeadline(t time.Time) error { s.deadline = t; return nil }

func (s *stuck) Write(b []byte) (int, error) {
	if s.full {
		return 0, os.ErrDeadlineExceeded
	}
	return s.ResponseRecorder.Write(b)
}

// TestSlowReadersAreDroppedAndTold: a write that takes too long ends the stream, and
// the next one of that session begins with what happened, once.
func TestSlowReadersAreDroppedAndTold(t *testing.T) {
	t.Parallel()
	w := &stuck{ResponseRecorder: httptest.NewRecorder()}
	open := &stream{w: w, out: http.NewResponseController(w), sent: map[string]uint64{}}
	if !open.send("now", map[string]string{"at": "x"}) || w.deadline.IsZero() || open.lagged {
		t.Fatal("a browser that reads was dropped")
	}
	if got := w.Body.String(); got != "event: now\ndata: {\"at\":\"x\"}\n\n" {
		t.Errorf("sent %q", got)
	}
	w.full = true
	if open.send("now", map[string]string{"at": "y"}) || !open.lagged {
		t.Fatal("a browser that reads nothing was kept")
	}

	all := newStreams()
	session := [16]byte{1}
	if lagged, ok := all.enter(session); lagged || !ok {
		t.Fatal("the first stream is said to be late")
	}
	all.leave(session, open.lagged)
	for i, want := range []bool{true, false} {
		lagged, ok := all.enter(session)
		if !ok || lagged != want {
			t.Errorf("stream %d after it: told %v, want %v", i, lagged, want)
		}
	}
	if lagged, _ := all.enter([16]byte{2}); lagged {
		t.Error("another session is told")
	}
}

// TestGoneReadersAreNotLate: who left did not read slowly.
func TestGoneReadersAreNotLate(t *testing.T) {
	t.Parallel()
	w := &gone{httptest.NewRecorder()}
	open := &stream{w: w, out: http.NewResponseController(w)}
	if open.write("x") || open.lagged {
		t.Errorf("lagged %v", open.lagged)
	}
}

type gone struct{ *httptest.ResponseRecorder }

func (*gone) SetWriteDeadline(time.Time) error { return nil }
func (*gone) Write([]byte) (int, error)        { return 0, errors.New("broken pipe") }
func (*gone) WriteString(string) (int, error)  { return 0, errors.New("broken pipe") }

// TestBlocksHaveNoLineOfTheirOwn: whatever a block has in it, it is one line of the
// stream.
func TestBlocksHaveNoLineOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := &stuck{ResponseRecorder: httptest.NewRecorder()}
	open := &stream{w: w, out: http.NewResponseController(w)}
	open.send("swap", map[string]string{"html": "a\nevent: ended\r\n\ndata: x\u2028"})
	if lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n"); len(lines) != 2 {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}

// TestOpenPagesTakeAHundredthOfAProcessorAtMost: however long a page takes to look at, it
// is left alone for so much longer that its share is small, but never for long.
func TestOpenPagesTakeAHundredthOfAProcessorAtMost(t *testing.T) {
	t.Parallel()
	for _, took := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 70 * time.Millisecond, 100 * time.Millisecond} { // no page takes longer
		l := looks{took, took}
		wait := l.pause(took)
		if wait < streamEvery || wait > streamMost || float64(took)/float64(took+wait) > 0.01 {
			t.Errorf("after %v it waits for %v", took, wait)
		}
	}
	for _, took := range []time.Duration{time.Second, 1 << 62, -1 << 62} { // a clock that was set
		l := looks{took, took}
		if wait := l.pause(took); wait != streamMost && (took > 0 || wait != streamEvery) {
			t.Errorf("after %v it waits for %v", took, wait)
		}
	}
}

// TestPagesStayLiveOnABusyMachine: one look that had to wait for others says nothing about
// what a page costs.
func TestPagesStayLiveOnABusyMachine(t *testing.T) {
	t.Parallel()
	const cost = 5 * time.Millisecond
	var l looks
	for i, took := range []time.Duration{time.Second, 2 * time.Second, cost, 3 * time.Second, time.Minute, cost, cost, cost, time.Second} {
		if wait := l.pause(took); wait != streamEvery {
			t.Errorf("after look %d, of %v, it waits for %v", i+1, took, wait)
		}
	}
	if len(l) != looksKept {
		t.Errorf("%d looks are kept", len(l))
	}
}
