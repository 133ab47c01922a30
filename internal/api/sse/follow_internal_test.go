package sse

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// logOf is a stream over ids, as they are committed.
func logOf(t *testing.T, committed *[]hook.ID, failing map[hook.ID]error) (*follower[hook.ID], *httptest.ResponseRecorder) {
	t.Helper()
	w := httptest.NewRecorder()
	return &follower[hook.ID]{
		r: httptest.NewRequestWithContext(t.Context(), "GET", "/", nil), to: NewWriter(&patient{w}), sent: map[hook.ID]bool{},
		Log: Log[hook.ID]{
			Name: "row", Prefix: hook.EventPrefix, ID: func(id hook.ID) hook.ID { return id },
			Read: func(_ context.Context, from hook.ID, p store.Page) (rows []hook.ID, next hook.ID, err error) {
				for _, id := range *committed {
					if id >= from && id > p.After && len(rows) < p.Limit {
						rows = append(rows, id)
					}
				}
				if len(rows) == p.Limit {
					next = rows[len(rows)-1]
				}
				return rows, next, nil
			},
			Data: func(_ context.Context, id hook.ID) ([]byte, func(), error) { return []byte("{}"), nil, failing[id] },
		},
	}, w
}

type patient struct{ *httptest.ResponseRecorder }

func (*patient) SetWriteDeadline(time.Time) error { return nil }

// TestRowsAreSentOnceInTheirOrder: also those that are committed late, and those whose
// data could not be read at first; not those that are gone.
func TestRowsAreSentOnceInTheirOrder(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(ms int) hook.ID { return hook.IDFloor(now.Add(time.Duration(ms) * time.Millisecond)) }
	committed := []hook.ID{at(-1), at(20), at(30), at(40)}
	failing := map[hook.ID]error{at(30): errors.New("no room"), at(40): hook.ErrNotFound}
	f, w := logOf(t, &committed, failing)
	f.from, f.looked = at(0), now
	look := func(when int, wantDone bool, want ...hook.ID) {
		t.Helper()
		w.Body.Reset()
		all, err := f.read(now.Add(time.Duration(when) * time.Millisecond))
		took, done := f.send()
		if !all || err != nil || !took || done != wantDone {
			t.Fatalf("read %v %v, sent %v %v", all, err, took, done)
		}
		var text strings.Builder
		for _, id := range want {
			text.WriteString("event: row\nid: " + hook.EventPrefix.Format(id) + "\ndata: {}\n\n")
		}
		if got := w.Body.String(); got != text.String() {
			t.Errorf("sent %q, want %q", got, text.String())
		}
	}
	look(50, false, at(20))
	delete(failing, at(30))
	committed = append(committed, at(10))
	look(60, true, at(10), at(30))
	look(70, true)
}

// TestMoreThanALookMayFindIsSkipped tells too much from enough.
func TestMoreThanALookMayFindIsSkipped(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for rows, want := range map[int]bool{MaxLook: true, MaxLook + 1: false} {
		committed := make([]hook.ID, rows)
		for i := range committed {
			committed[i] = hook.IDFloor(now) + hook.ID(i)
		}
		f, w := logOf(t, &committed, nil)
		f.looked = now
		if all, err := f.read(now); all != want || err != nil {
			t.Errorf("%d rows: %v, %v", rows, all, err)
		}
		if !f.tellLagged() || w.Body.String() != "event: lagged\ndata: {\"skipped\":null}\n\n" {
			t.Errorf("told %q", w.Body)
		}
	}
}
