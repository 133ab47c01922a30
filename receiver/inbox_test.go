package receiver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/receiver"
)

func accept(t *testing.T, s *receiver.SQL, e receiver.Event, want bool) {
	t.Helper()
	if first, err := s.Accept(t.Context(), e); first != want || err != nil {
		t.Errorf("Accept(%q) = %v, %v; want %v", e.ID, first, err, want)
	}
}

// TestAcceptAmongMany: of 50 copies over two pools one is the first.
func TestAcceptAmongMany(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{})
		nodes := []*receiver.SQL{s, d.on(t, d.open(t), receiver.SQLOptions{})}
		var firsts atomic.Int32
		together(50, func(i int) {
			first, err := nodes[i%2].Accept(t.Context(), receiver.Event{ID: "evt_1", Body: []byte(body)})
			if err != nil {
				t.Errorf("Accept: %v", err)
			}
			if first {
				firsts.Add(1)
			}
		})
		if n := count(t, db, "webhook_seen_inbox"); n != 1 || firsts.Load() != 1 {
			t.Errorf("%d firsts, %d events in the inbox; want one", firsts.Load(), n)
		}
	})
}

// TestEventsComeOutAsTheyWentIn, whatever bytes are in them.
func TestEventsComeOutAsTheyWentIn(t *testing.T) {
	t.Parallel()
	onEachThatWaits(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{})
		events := map[string]receiver.Event{}
		for _, e := range []receiver.Event{
			{ID: id, Type: "order.paid", DeliveryID: "dlv_1", Attempt: 3, Timestamp: sentAt, Body: []byte(body)},
			{ID: "evt_bytes", Timestamp: sentAt, Body: []byte("\x00\xff'\";--\n")},
			{ID: "evt_unicode", Type: "größe.水", Timestamp: sentAt, Body: []byte("é")},
			{ID: "evt_large", Type: strings.Repeat("t", 1<<16), Timestamp: sentAt, Body: []byte(strings.Repeat("x", 1<<20))},
			{ID: strings.Repeat("i", 255), Timestamp: sentAt, Body: []byte{}},
		} {
			accept(t, s, e, true)
			events[e.ID] = e
		}
		accept(t, s, receiver.Event{ID: "evt_zero", Type: "a\x00b", DeliveryID: "\xff" + strings.Repeat("ü", 200), Timestamp: sentAt}, true)
		events["evt_zero"] = receiver.Event{ID: "evt_zero", Type: "a\uFFFDb", DeliveryID: "\uFFFD" + strings.Repeat("ü", 126), Timestamp: sentAt, Body: []byte{}}

		got := map[string]receiver.Event{}
		work(t, db, s, 1, len(events), func(_ context.Context, e receiver.Event) error {
			got[e.ID] = e
			return nil
		})
		for id, want := range events {
			e := got[id]
			if e.Type != want.Type || e.DeliveryID != want.DeliveryID || e.Attempt != want.Attempt || !e.Timestamp.Equal(want.Timestamp) || !bytes.Equal(e.Body, want.Body) {
				t.Errorf("%.200s came out as %.200s", fmt.Sprint(want), fmt.Sprint(e))
			}
		}
	})
}

// TestAcceptIsPartOfTheTransaction of the work that calls it.
func TestAcceptIsPartOfTheTransaction(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{})
		for _, outcome := range []error{errWork, nil} {
			_, err := s.Once(t.Context(), "evt_1", func(ctx context.Context) error {
				if first, err := s.Accept(ctx, receiver.Event{ID: "evt_2"}); !first || err != nil {
					t.Errorf("Accept = %v, %v; want first", first, err)
				}
				return outcome
			})
			want := 1
			if outcome != nil {
				want = 0
			}
			if n := count(t, db, "webhook_seen_inbox"); n != want || !errors.Is(err, outcome) {
				t.Errorf("%d events after %v, want %d", n, err, want)
			}
		}
	})
}

// TestDoneEventsAreKnownForTheTTL, and those that are not done for ever.
func TestDoneEventsAreKnownForTheTTL(t *testing.T) {
	t.Parallel()
	onEachThatWaits(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{TTL: time.Hour})
		for _, id := range []string{"evt_done", "evt_young", "evt_aside"} {
			accept(t, s, receiver.Event{ID: id, Body: []byte(body)}, true)
		}
		work(t, db, s, 1, 3, func(_ context.Context, e receiver.Event) error {
			if e.ID == "evt_aside" {
				return receiver.Permanent(errWork)
			}
			return nil
		})
		accept(t, s, receiver.Event{ID: "evt_waiting"}, true)
		execute(t, db, fmt.Sprintf("UPDATE webhook_seen_inbox SET due_at = due_at - %d WHERE id <> 'evt_young'", time.Hour.Milliseconds()))
		for _, id := range []string{"evt_young", "evt_aside", "evt_waiting"} {
			accept(t, s, receiver.Event{ID: id}, false)
		}
		other := d.on(t, db, receiver.SQLOptions{Scope: "other", TTL: time.Hour})
		if n, err := other.Purge(t.Context()); n != 0 || err != nil {
			t.Errorf("Purge of another scope = %d, %v; want none", n, err)
		}
		accept(t, s, receiver.Event{ID: "evt_done"}, true)
		accept(t, s, receiver.Event{ID: "evt_done"}, false)
		work(t, db, s, 1, 2, func(context.Context, receiver.Event) error { return nil })
		execute(t, db, fmt.Sprintf("UPDATE webhook_seen_inbox SET due_at = due_at - %d WHERE id <> 'evt_young'", time.Hour.Milliseconds()))
		if n, err := s.Purge(t.Context()); n != 2 || err != nil {
			t.Errorf("Purge = %d, %v; want the two done ones", n, err)
		}
		if n := count(t, db, "webhook_seen_inbox"); n != 2 {
			t.Errorf("%d events left, want the young one and the one set aside", n)
		}
	})
}

func TestAcceptRefuses(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database) {
		s := d.on(t, d.open(t), receiver.SQLOptions{})
		for name, bad := range badIDs {
			first, err := s.Accept(t.Context(), receiver.Event{ID: bad})
			if code, _ := receiver.Status(err); first || code != 422 {
				t.Errorf("%s: Accept = %v, %v; want 422", name, first, err)
			}
		}
		if first, err := s.Accept(t.Context(), receiver.Event{ID: "evt_1"}); first || err == nil {
			t.Errorf("without a table: Accept = %v, %v; want an error", first, err)
		}
		if _, err := s.SetAside(t.Context(), 1); err == nil {
			t.Error("without a table: SetAside succeeded")
		}
		for _, limit := range []int{-1, 0, 1001} {
			if _, err := s.SetAside(t.Context(), limit); err == nil || !strings.Contains(err.Error(), "limit must be") {
				t.Errorf("SetAside(%d): %v; want a refusal", limit, err)
			}
		}
	})
}
