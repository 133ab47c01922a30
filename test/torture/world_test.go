package torture_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/test/torture/check"
)

// world is one run: a receiver with its endpoints, servers, and the history
// that they write.
type world struct {
	t   *testing.T
	rng *rand.Rand
	dir string // of the history
	*receiver
	all   []*endpoint
	names []string
}

// usual are the endpoints of most runs: quick ones, a slow one whose queue
// grows, and one that fails now and then.
func usual() []*endpoint {
	return []*endpoint{
		{name: "quick", low: 0, high: 2 * time.Millisecond, concurrency: 10},
		{name: "steady", low: 2 * time.Millisecond, high: 20 * time.Millisecond, concurrency: 10},
		{name: "slow", low: 50 * time.Millisecond, high: 150 * time.Millisecond, concurrency: 4},
		{name: "flaky", low: 0, high: 10 * time.Millisecond, failures: 0.1, concurrency: 4},
	}
}

func newWorld(t *testing.T, rng *rand.Rand, stamp func() int64, endpoints []*endpoint) *world {
	t.Helper()
	w := &world{t: t, rng: rng, dir: t.TempDir(), all: endpoints}
	w.receiver = receive(t, w.dir, rng, stamp, endpoints...)
	for _, e := range endpoints {
		w.names = append(w.names, e.name)
	}
	return w
}

// create makes the endpoints at a server.
func (w *world) create(server string) {
	w.t.Helper()
	for _, e := range w.all {
		body, err := json.Marshal(map[string]any{
			"uid": e.name, "url": w.url + "/" + e.name, "types": []string{"only." + e.name, "all.of-them"},
			"policy": map[string]any{
				"concurrency": e.concurrency,
				"retry":       map[string]any{"max_attempts": 20, "min_delay": "1s", "jitter": "none", "backoff": map[string]any{"kind": "schedule", "delays": []string{"1s"}}},
				"breaker":     map[string]any{"probe": map[string]any{"min": "1s", "max": "2s"}},
			},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		var out struct{ ID, Secret string }
		if err := call(w.t.Context(), http.MethodPost, server+tenant+"/endpoints", body, &out); err != nil {
			w.t.Fatalf("create endpoint: %v", err)
		}
		secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(out.Secret, "whsec_"))
		if err != nil {
			w.t.Fatal(err)
		}
		w.mu.Lock()
		e.id, e.secret = out.ID, secret
		w.mu.Unlock()
	}
}

// quiet waits until nothing is pending any more. That it does not come to that
// is for the checker to say.
func quiet(server string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		var out struct{ Count int }
		err := call(ctx, http.MethodGet, server+tenant+"/deliveries/count?status=pending", nil, &out)
		switch {
		case err == nil && out.Count == 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("after %v: %d pending, %w", limit, out.Count, errors.Join(err, ctx.Err()))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// claims reads everything that the API says of events and deliveries.
func (w *world) claims(server string) (events []string, claims []check.Claim, err error) {
	byID := make(map[string]string)
	for _, e := range w.all {
		byID[e.id] = e.name
	}
	type row struct{ ID, Event, Endpoint, Status string }
	err = list(server, "/events", func(r row) { events = append(events, r.ID) })
	if err != nil {
		return nil, nil, err
	}
	err = list(server, "/deliveries", func(r row) {
		claims = append(claims, check.Claim{Event: r.Event, Endpoint: byID[r.Endpoint], Status: r.Status})
	})
	return events, claims, err
}

// list walks all pages of a list.
func list[T any](server, path string, each func(T)) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for cursor := ""; ; {
		query := url.Values{"limit": {"250"}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		var page struct {
			Data       []T
			NextCursor *string `json:"next_cursor"`
		}
		if err := again(ctx, func(int) error {
			return call(ctx, http.MethodGet, server+tenant+path+"?"+query.Encode(), nil, &page)
		}); err != nil {
			return fmt.Errorf("list %s: %w", path, err)
		}
		for _, one := range page.Data {
			each(one)
		}
		if page.NextCursor == nil {
			return nil
		}
		cursor = *page.NextCursor
	}
}

// judge lets what is pending be delivered and compares the three accounts.
func (w *world) judge(server string, limit time.Duration) check.Verdict {
	w.t.Helper()
	w.beKind()
	if err := quiet(server, limit); err != nil {
		w.t.Logf("not quiet: %v", err)
	}
	v := check.Judge(w.history(server))
	// A request whose client gave up may have been accepted since it was quiet.
	for again := 0; len(v.Waiting) > 0 && again < 3; again++ {
		if err := quiet(server, limit); err != nil {
			w.t.Logf("not quiet: %v", err)
		}
		v = check.Judge(w.history(server))
	}
	for _, finding := range v.Findings() {
		w.t.Error(finding)
	}
	if !v.Clean() {
		w.keep()
	}
	return v
}

// history adds the API's claims to what was written down, and reads all of it
// from the files.
func (w *world) history(server string) check.History {
	w.t.Helper()
	events, claims, err := w.claims(server)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := errors.Join(
		writeJournal(filepath.Join(w.dir, eventsFile), events), writeJournal(filepath.Join(w.dir, claimsFile), claims),
	); err != nil {
		w.t.Fatal(err)
	}
	h, err := readHistory(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// keep copies the history to a place that outlives the test.
func (w *world) keep() {
	dir, err := os.MkdirTemp("", "breakwater-torture-history-")
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(w.dir))
	}
	w.t.Logf("history kept in %s (%v)", dir, err)
}
