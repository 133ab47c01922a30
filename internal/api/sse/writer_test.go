package sse_test

import (
	"errors"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/sse"
)

// stuck is the connection of a reader that reads nothing once it is full.
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
// the next one of that reader begins with what happened, once.
func TestSlowReadersAreDroppedAndTold(t *testing.T) {
	t.Parallel()
	w := &stuck{ResponseRecorder: httptest.NewRecorder()}
	open := sse.NewWriter(w)
	if !open.Begin() || !open.Send("now", map[string]string{"at": "x"}) || w.deadline.IsZero() || open.Lagged() {
		t.Fatal("a reader that reads was dropped")
	}
	if got := w.Body.String(); got != "retry: 2000\n\nevent: now\ndata: {\"at\":\"x\"}\n\n" {
		t.Errorf("sent %q", got)
	}
	w.full = true
	if open.Send("now", map[string]string{"at": "y"}) || !open.Lagged() {
		t.Fatal("a reader that reads nothing was kept")
	}

	all := sse.NewRoom[string](10, 10)
	if lagged, err := all.Enter("one"); lagged || err != nil {
		t.Fatal("the first stream is said to be late")
	}
	all.Leave("one", open.Lagged())
	for i, want := range []bool{true, false} {
		lagged, err := all.Enter("one")
		if err != nil || lagged != want {
			t.Errorf("stream %d after it: told %v, want %v", i, lagged, want)
		}
	}
	if lagged, _ := all.Enter("another"); lagged {
		t.Error("another reader is told")
	}
}

// TestGoneReadersAreNotLate: who left did not read slowly.
func TestGoneReadersAreNotLate(t *testing.T) {
	t.Parallel()
	open := sse.NewWriter(&gone{httptest.NewRecorder()})
	if open.Write([]byte("x")) || open.Lagged() {
		t.Errorf("lagged %v", open.Lagged())
	}
}

type gone struct{ *httptest.ResponseRecorder }

func (*gone) SetWriteDeadline(time.Time) error { return nil }
func (*gone) Write([]byte) (int, error)        { return 0, errors.New("broken pipe") }

// TestDataHasNoLineOfItsOwn: whatever an event has in it, it is one line of the stream.
func TestDataHasNoLineOfItsOwn(t *testing.T) {
	t.Parallel()
	w := &stuck{ResponseRecorder: httptest.NewRecorder()}
	sse.NewWriter(w).Send("swap", map[string]string{"html": "a\nevent: ended\r\n\ndata: <x>\u2028"})
	if lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[1], "<x>") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}

func TestRoomIsBounded(t *testing.T) {
	t.Parallel()
	r := sse.NewRoom[int](3, 2)
	for i, want := range []struct {
		reader int
		err    error
	}{{1, nil}, {1, nil}, {1, sse.ErrFullOfOne}, {2, nil}, {3, sse.ErrFull}} {
		if _, err := r.Enter(want.reader); !errors.Is(err, want.err) {
			t.Errorf("stream %d: %v, want %v", i, err, want.err)
		}
	}
	r.Leave(1, false)
	if _, err := r.Enter(3); err != nil {
		t.Errorf("after one has left: %v", err)
	}
	r.Leave(2, false)
	r.Stop()
	<-r.Stopped()
	if _, err := r.Enter(2); !errors.Is(err, sse.ErrFull) {
		t.Errorf("after the end: %v", err)
	}
}
