package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// accepted sends an event and returns its id.
func (w *world) accepted(s side, body string) string {
	w.t.Helper()
	w.clock.pass(time.Second)
	return w.must(202, http.MethodPost, "/v1/tenants/"+s.id+"/events", s.write, body).object(w.t)["id"].(string)
}

// TestEventsAreStreamedWithTheirPayload: also those that no endpoint takes, and only
// those of the tenant.
func TestEventsAreStreamedWithTheirPayload(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly, func(cfg *api.Config) { cfg.MaxPayload = 1 << 20 })
	server := w.serve()
	before := w.accepted(w.a, `{"type":"order.paid","payload":{"order":41}}`)
	w.clock.pass(5 * time.Second)
	const path = "/v1/tenants/acme/events/stream"
	s := w.follow(server, path+"?type=order.*&type=refund.made", w.a.read)
	w.accepted(w.b, `{"type":"order.paid","payload":1}`)
	w.accepted(w.a, `{"type":"user.made","payload":1}`)
	large := `"` + strings.Repeat("x", 90<<10) + `<&>"`
	want := []string{
		w.accepted(w.a, `{"type":"order.paid","payload":{"order":42,"text":"<a>\n"}}`),
		w.accepted(w.a, `{"type":"refund.made","content_type":"text/plain","payload_base64":"aGk="}`),
		w.accepted(w.a, `{"type":"order.made","payload":`+large+`}`),
	}
	s.lines.Buffer(nil, 1<<20)
	for i, id := range want {
		event, got, data := s.next()
		var e view.Event
		w.ok(json.Unmarshal([]byte(data), &e))
		if event != "event" || got != id || e.ID != id || e.Deliveries != nil {
			t.Fatalf("%s %s %.200s, want event %s", event, got, data, id)
		}
		if payload := []string{`{"order":42,"text":"<a>\n"}`, "hi", large}[i]; string(e.Payload)+string(e.PayloadBase64) != payload || e.Size != len(payload) {
			t.Errorf("%s: %.100s, %d bytes", id, e.Payload, e.Size)
		}
	}
	s.close()

	// Who comes back misses nothing, and gets nothing twice.
	s = w.follow(server, path, w.a.read, "Last-Event-ID", want[1])
	s.lines.Buffer(nil, 1<<20)
	if event, got, _ := s.next(); event != "event" || got != want[2] {
		t.Fatalf("after a return: %s %s, want %s", event, got, want[2])
	}
	s.close()
	w.clock.pass(10 * time.Minute)
	s = w.follow(server, path, w.a.read, "Last-Event-ID", before)
	if event, _, data := s.next(); event != "lagged" || data != `{"skipped":null}` {
		t.Fatalf("after too long: %s %s, want lagged", event, data)
	}
	w.must(400, http.MethodGet, path, w.a.read, nil, "Last-Event-ID", "att_0000000000000")
	w.must(400, http.MethodGet, path+"?type=a..b", w.a.read, nil)
	w.must(422, http.MethodGet, path+"?endpoint=x", w.a.read, nil)
	w.must(403, http.MethodGet, path, w.a.send, nil)
	w.must(404, http.MethodGet, path, w.b.read, nil)
	w.api.Stop()
	if event, _, _ := s.next(); event != "" {
		t.Errorf("the stream goes on after the server has stopped, with %s", event)
	}
	if r := w.must(503, http.MethodGet, path, w.a.read, nil); r.problem(t).Code != "overloaded" {
		t.Errorf("a stream of a server that stops: %s", r.body)
	}
}
