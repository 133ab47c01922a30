package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// attempted makes a new event of a tenant have an attempt, and returns its id.
func (w *world) attempted(s side, typ string, state hook.DeliveryState, reason hook.EndReason) string {
	w.t.Helper()
	w.event(s, typ)
	rows := w.deliveries(s)
	w.settle(rows[len(rows)-1], state, reason)
	return hook.AttemptPrefix.Format(w.deliveries(s)[len(rows)-1].Last.AttemptID)
}

func TestAttemptsAreListedOverAllDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.endpoint(w.a, map[string]any{"types": []string{"order.paid"}})
	w.endpoint(w.a, map[string]any{"uid": "two", "types": []string{"order.made"}})
	w.endpoint(w.b, nil)
	paid := w.attempted(w.a, "order.paid", hook.Dead, hook.DeadExhausted)
	w.clock.pass(time.Second)
	made := w.attempted(w.a, "order.made", hook.Delivered, 0)
	w.clock.pass(time.Second)
	foreign := w.attempted(w.b, "order.paid", hook.Dead, hook.DeadExhausted)

	const base = "/v1/tenants/acme/attempts"
	for query, want := range map[string][]string{
		"":                           {made, paid},
		"?order=asc":                 {paid, made},
		"?endpoint=" + one:           {paid},
		"?endpoint=two":              {made},
		"?type=order.*":              {made, paid},
		"?type=order.paid":           {paid},
		"?class=success":             {made},
		"?reason=server_error":       {paid},
		"?kind=first":                {made, paid},
		"?kind=probe&kind=manual":    nil,
		"?since=1h&until=1h":         nil,
		"?class=success&type=refund": nil,
	} {
		if got, _ := w.page(base+query, w.a.read); !cmp.Equal(got, want) {
			t.Errorf("%s = %v, want %v", query, got, want)
		}
	}
	if got, _ := w.page("/v1/tenants/-/attempts", w.adminRead); !cmp.Equal(got, []string{foreign, made, paid}) {
		t.Errorf("all tenants: %v", got)
	}
	first, cursor := w.page(base+"?limit=1", w.a.read)
	second, last := w.page(base+"?limit=1&cursor="+cursor, w.a.read)
	if !cmp.Equal(first, []string{made}) || !cmp.Equal(second, []string{paid}) || last != "" {
		t.Errorf("pages: %v, %v, cursor %q at the end", first, second, last)
	}
	if a := w.must(200, http.MethodGet, base+"/"+paid, w.a.read, nil).object(t); a["id"] != paid || a["response"].(map[string]any)["body"] != "oops" {
		t.Errorf("attempt = %v", a)
	}
	if a := w.must(200, http.MethodGet, base+"/"+made, w.a.read, nil).object(t); a["id"] != made || a["class"] != "success" {
		t.Errorf("attempt = %v", a)
	}
	w.clock.pass(2 * time.Hour)
	if got, _ := w.page(base, w.a.read); got != nil {
		t.Errorf("without since, attempts of long ago are listed: %v", got)
	}
	if got, _ := w.page(base+"?since=3h", w.a.read); len(got) != 2 {
		t.Errorf("with since: %v", got)
	}
}

func TestWrongFiltersOfAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for query, path := range map[string]string{
		"kind=second": "query.kind", "class=good": "query.class", "reason=none": "query.reason",
		"type=a..b": "query.type", "endpoint=nobody": "query.endpoint",
	} {
		for _, route := range []string{"/v1/tenants/acme/attempts", "/v1/tenants/acme/attempts/stream"} {
			r := w.must(400, http.MethodGet, route+"?"+query, w.a.read, nil)
			if p := r.problem(t); p.Code != "invalid_parameter" || len(p.Errors) != 1 || p.Errors[0].Path != path {
				t.Errorf("%s?%s = %s", route, query, r.body)
			}
		}
	}
	w.must(422, http.MethodGet, "/v1/tenants/acme/attempts/stream?since=1h", w.a.read, nil)
	w.must(400, http.MethodGet, "/v1/tenants/acme/attempts/stream", w.a.read, nil, "Last-Event-ID", "evt_1")
	w.must(404, http.MethodGet, "/v1/tenants/acme/attempts/att_1", w.a.read, nil)
}

// tail is an open stream of attempts.
type tail struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
}

// follow opens a stream over a real connection.
func (w *world) follow(server *httptest.Server, path, key string, headers ...string) *tail {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	w.ok(err)
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := server.Client().Do(req)
	w.ok(err)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("stream: %s", resp.Status)
	}
	out := &tail{t: w.t, lines: bufio.NewScanner(resp.Body), close: func() { cancel(); _ = resp.Body.Close() }}
	w.t.Cleanup(out.close)
	return out
}

// next returns the name, id and data of the next event; an empty name at the end.
func (s *tail) next() (event, id, data string) {
	for s.lines.Scan() {
		line := s.lines.Text()
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && event != "":
			return event, id, data
		case name == "event":
			event = value
		case name == "id":
			id = value
		case name == "data":
			data = value
		}
	}
	return "", "", ""
}

func (w *world) serve() *httptest.Server {
	server := httptest.NewServer(w.handler)
	w.t.Cleanup(func() { w.api.Stop(); server.Close() })
	return server
}

func quickly(cfg *api.Config) { cfg.StreamEvery = time.Millisecond }

func TestAttemptsAreStreamedAsTheyEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	w.endpoint(w.a, nil)
	w.endpoint(w.b, nil)
	server := w.serve()
	before := w.attempted(w.a, "order.paid", hook.Dead, hook.DeadExhausted)
	w.clock.pass(time.Second)
	s := w.follow(server, "/v1/tenants/acme/attempts/stream?type=order.*", w.a.read)
	w.attempted(w.b, "order.paid", hook.Delivered, 0)
	w.attempted(w.a, "refund.made", hook.Delivered, 0)
	var want []string
	for i := range 5 {
		state, reason := hook.Delivered, hook.EndReason(0)
		if i%2 == 0 {
			state, reason = hook.Dead, hook.DeadExhausted
		}
		want = append(want, w.attempted(w.a, "order.made", state, reason))
		w.clock.pass(time.Second)
	}
	for _, id := range want {
		event, got, data := s.next()
		var entry view.AttemptEntry
		w.ok(json.Unmarshal([]byte(data), &entry))
		if event != "attempt" || got != id || entry.ID != id || entry.Type != "order.made" {
			t.Fatalf("%s %s %s, want attempt %s", event, got, data, id)
		}
	}
	s.close()

	// What ended since is sent to a client that comes back, once.
	s = w.follow(server, "/v1/tenants/acme/attempts/stream", w.a.read, "Last-Event-ID", want[2])
	for _, id := range want[3:] {
		if event, got, _ := s.next(); event != "attempt" || got != id {
			t.Fatalf("after a return: %s %s, want attempt %s", event, got, id)
		}
	}
	s.close()
	w.clock.pass(10 * time.Minute)
	s = w.follow(server, "/v1/tenants/acme/attempts/stream", w.a.read, "Last-Event-ID", before)
	if event, _, data := s.next(); event != "lagged" || data != `{"skipped":null}` {
		t.Fatalf("after too long: %s %s, want lagged", event, data)
	}
	last := w.attempted(w.a, "order.paid", hook.Delivered, 0)
	if event, got, _ := s.next(); event != "attempt" || got != last {
		t.Fatalf("then: %s %s, want attempt %s", event, got, last)
	}
	w.api.Stop()
	if event, _, _ := s.next(); event != "" {
		t.Errorf("the stream goes on after the server has stopped, with %s", event)
	}
}

// TestStreamBringsWhatIsStoredLate: an attempt that ended before the stream began and is
// stored after it is sent, one that was stored is not.
func TestStreamBringsWhatIsStoredLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	w.endpoint(w.a, nil)
	w.clock.pass(time.Second)
	w.attempted(w.a, "order.paid", hook.Delivered, 0)
	w.event(w.a, "order.paid")
	late := w.id()
	w.clock.pass(time.Second)
	s := w.follow(w.serve(), "/v1/tenants/acme/attempts/stream", w.a.read)
	w.settleBy(late, w.deliveries(w.a)[1], hook.Delivered, 0)
	w.clock.pass(time.Second)
	then := w.attempted(w.a, "order.paid", hook.Delivered, 0)
	for _, want := range []string{hook.AttemptPrefix.Format(late), then} {
		if event, got, _ := s.next(); event != "attempt" || got != want {
			t.Errorf("%s %s, want attempt %s", event, got, want)
		}
	}
}

func TestStreamEndsWithItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	server := w.serve()
	key := w.must(201, http.MethodPost, "/v1/keys", w.admin, `{"name":"n","scope":"tenant:read","tenant":"acme"}`).object(t)
	s := w.follow(server, "/v1/tenants/acme/attempts/stream", key["key"].(string))
	w.must(204, http.MethodDelete, "/v1/keys/"+key["id"].(string), w.admin, nil)
	w.clock.pass(time.Minute)
	if event, _, _ := s.next(); event != "" {
		t.Errorf("a revoked key is sent %s", event)
	}
}

func TestStreamsOfAKeyAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	server := w.serve()
	for range 10 {
		w.follow(server, "/v1/tenants/acme/attempts/stream", w.a.read)
	}
	r := w.must(429, http.MethodGet, "/v1/tenants/acme/attempts/stream", w.a.read, nil)
	if p := r.problem(t); p.Code != "rate_limited" {
		t.Errorf("one more: %s", r.body)
	}
	w.follow(server, "/v1/tenants/acme/attempts/stream", w.a.write)
}
