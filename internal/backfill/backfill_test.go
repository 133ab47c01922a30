package backfill_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/backfill"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// shelf is a store of events that nobody has a delivery of, each read of which takes
// some time.
type shelf struct {
	events []hook.Event
	slow   time.Duration
	most   int // bytes of payloads that were read together
	err    error
}

func (s *shelf) TenantByID(_ context.Context, id hook.ID) (hook.Tenant, error) {
	return hook.Tenant{ID: id, UID: "acme"}, s.err
}

func (s *shelf) MissingEvents(_ context.Context, j *hook.ReplayJob, p store.Page) (out []store.MissingEvent, next hook.ID, _ error) {
	time.Sleep(s.slow)
	r := store.MissingRange(j, p)
	for i := range s.events {
		e := &s.events[i]
		if e.ID < r.From || e.ID >= r.To {
			continue
		}
		if len(out) == p.Limit {
			return out, out[p.Limit-1].ID, s.err
		}
		out = append(out, store.MissingEvent{ID: e.ID, Size: len(e.Payload)})
	}
	return out, 0, s.err
}

func (s *shelf) Events(_ context.Context, ids []hook.ID) (out []hook.Event, _ error) {
	time.Sleep(s.slow)
	sum := 0
	for _, e := range slices.Backward(s.events) { // in any order
		if slices.Contains(ids, e.ID) {
			out = append(out, e)
			sum += len(e.Payload)
		}
	}
	s.most = max(s.most, sum)
	return out, s.err
}

func (s *shelf) finder(t *testing.T, cfg backfill.Config) *backfill.Finder {
	t.Helper()
	cfg.Store = s
	f, err := backfill.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var now = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// numbered are events a second apart, the last one a second old.
func numbered(n int) *shelf {
	s := &shelf{}
	for i := range n {
		at := now.Add(time.Duration(i-n) * time.Second)
		s.events = append(s.events, hook.Event{
			ID: hook.IDFloor(at), TenantID: 1, Type: "a", CreatedAt: at, ContentType: "application/json", Payload: fmt.Appendf(nil, `{"n":%d}`, i),
		})
	}
	return s
}

func job(filter string) *hook.ReplayJob {
	return &hook.ReplayJob{
		TenantID: 1, EndpointID: 2, CreatedAt: now, EndID: store.ReplayEnd(now),
		Filter: hook.ReplayFilter{Since: now.Add(-1000 * time.Hour), Missing: &hook.MissingFilter{Types: []string{"*"}, Filter: filter}},
	}
}

// walk takes steps to the end and returns the numbers of what was found.
func walk(t *testing.T, f *backfill.Finder, j *hook.ReplayJob, limit int) (found []hook.ID, steps int) {
	t.Helper()
	for ; j.Cursor < j.EndID; steps++ {
		m, err := f.Missing(t.Context(), now, j, limit)
		if err != nil {
			t.Fatal(err)
		}
		if m.Upto <= j.Cursor || len(m.Events) > limit {
			t.Fatalf("step %d: %d events up to %d, was at %d", steps, len(m.Events), m.Upto, j.Cursor)
		}
		for _, e := range m.Events {
			if e.ID <= j.Cursor || e.ID > m.Upto {
				t.Fatalf("step %d: event %d is not between %d and %d", steps, e.ID, j.Cursor, m.Upto)
			}
			found = append(found, e.ID)
		}
		j.Cursor = m.Upto
	}
	return found, steps
}

func TestStepsFindEverythingOnce(t *testing.T) {
	t.Parallel()
	for name, filter := range map[string]string{"no filter": "", "filter": "payload.n % 3 == 0", "one that takes the tenant": `tenant == "acme" && payload.n % 3 == 0`} {
		s := numbered(1700)
		var want []hook.ID
		for i := range s.events {
			if filter == "" || i%3 == 0 {
				want = append(want, s.events[i].ID)
			}
		}
		f := s.finder(t, backfill.Config{Patience: time.Hour, Counting: time.Hour})
		if found, _ := walk(t, f, job(filter), 7); !slices.Equal(found, want) {
			t.Errorf("%s: %d were found, want %d", name, len(found), len(want))
		}
		n, exact, err := f.Count(t.Context(), now, job(filter), 10_000)
		if n != int64(len(want)) || !exact || err != nil {
			t.Errorf("%s: counted %d, exact %v, %v; want %d", name, n, exact, err, len(want))
		}
		n, exact, err = f.Count(t.Context(), now, job(filter), 5)
		if n != 5 || exact || err != nil {
			t.Errorf("%s: counted %d, exact %v, %v; want 5 and more", name, n, exact, err)
		}
	}
}

// TestContentIsSeenAsAtAccept: where a filter cannot be evaluated the event matches.
func TestContentIsSeenAsAtAccept(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		filter, contentType, payload string
		want                         int
	}{
		"matches":           {"payload.n > 1", "application/json", `{"n":2}`, 1},
		"does not":          {"payload.n > 1", "application/json", `{"n":1}`, 0},
		"with notes":        {"payload.n > 1", hook.WithTrace(hook.WithHops("application/json", 1), hook.Trace{}), `{"n":1}`, 0},
		"by its suffix":     {"payload.n > 1", "application/x+json", `{"n":1}`, 0},
		"fails":             {"payload.n > 1", "application/json", `{"n":"x"}`, 1},
		"is not JSON":       {"payload.n > 1", "application/json", `{"n":`, 1},
		"is no JSON at all": {`type == "b"`, "text/plain", `{`, 0},
		"is no filter":      {"payload.n >", "application/json", `{"n":1}`, 1},
	} {
		s := numbered(1)
		s.events[0].ContentType, s.events[0].Payload = tc.contentType, []byte(tc.payload)
		if found, _ := walk(t, s.finder(t, backfill.Config{}), job(tc.filter), 5); len(found) != tc.want {
			t.Errorf("%s: %d found, want %d", name, len(found), tc.want)
		}
	}
}

func TestOldEventsAreNotFound(t *testing.T) {
	t.Parallel()
	s := numbered(100)
	f := s.finder(t, backfill.Config{Age: 10 * time.Second})
	if found, _ := walk(t, f, job(""), 50); len(found) != 10 || found[0] != s.events[90].ID {
		t.Errorf("%d found, want the ten youngest", len(found))
	}
	j := job("")
	j.CreatedAt, j.EndID = now.Add(-time.Hour), store.ReplayEnd(now.Add(-time.Hour)) // all of it is too old by now
	if found, steps := walk(t, f, j, 50); len(found) != 0 || steps != 1 {
		t.Errorf("%d found in %d steps, want none in one", len(found), steps)
	}
}

func TestPayloadsAreBounded(t *testing.T) {
	t.Parallel()
	s := numbered(20)
	for i := range s.events {
		s.events[i].Payload = fmt.Appendf(nil, `{"n":1,"x":"%01048000d"}`, 0)
	}
	found, _ := walk(t, s.finder(t, backfill.Config{Patience: time.Hour}), job("payload.n == 1"), 50)
	if len(found) != 20 || s.most > 5<<20 {
		t.Errorf("%d found, %d bytes at once", len(found), s.most)
	}
}

// TestSearchesEnd: what takes long is left for the next step, and none is left out.
func TestSearchesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := numbered(1200)
		s.slow = time.Second
		f := s.finder(t, backfill.Config{})
		// Reading alone makes a step late, which then looks at one event.
		found, steps := walk(t, f, job("payload.n % 300 == 0"), 50)
		if len(found) != 4 || steps < 1200 {
			t.Errorf("%d found in %d steps", len(found), steps)
		}
		began := time.Now()
		n, exact, err := f.Count(t.Context(), now, job("payload.n >= 0"), 10_000)
		if n == 0 || n >= 1200 || exact || err != nil || time.Since(began) > 10*time.Second {
			t.Errorf("counted %d, exact %v, %v in %v", n, exact, err, time.Since(began))
		}
	})
}

func TestFailuresAreTold(t *testing.T) {
	t.Parallel()
	s := numbered(3)
	s.err = errors.New("away")
	f := s.finder(t, backfill.Config{})
	for _, filter := range []string{"", "payload.n == 1"} {
		if _, err := f.Missing(t.Context(), now, job(filter), 5); !errors.Is(err, s.err) {
			t.Errorf("Missing = %v", err)
		}
		if _, _, err := f.Count(t.Context(), now, job(filter), 5); !errors.Is(err, s.err) {
			t.Errorf("Count = %v", err)
		}
	}
	if _, err := backfill.New(backfill.Config{}); err == nil {
		t.Error("a finder without a store was made")
	}
}
