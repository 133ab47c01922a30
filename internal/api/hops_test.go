package api_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestBinaryPayloadKeepsItsWord: what is called JSON is pasted into envelopes,
// so it has to be JSON.
func TestBinaryPayloadKeepsItsWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/v1/tenants/" + w.a.id + "/events"
	body := func(contentType, payload string) map[string]any {
		return map[string]any{"type": "a", "content_type": contentType, "payload_base64": base64.StdEncoding.EncodeToString([]byte(payload))}
	}
	for name, tc := range map[string]struct{ contentType, payload, field string }{
		"a second type":      {"application/json", `1,"type":"forged","x":2`, "payload_base64"},
		"a profile of JSON":  {"application/cloudevents+json; charset=utf-8", `{`, "payload_base64"},
		"not UTF-8":          {"application/json", "\"\xff\"", "payload_base64"},
		"nothing":            {"application/json", "", "payload_base64"},
		"a parameter of our": {"text/plain; breakwater-hops=0", "x", "content_type"},
	} {
		r := w.do(http.MethodPost, path, w.a.send, body(tc.contentType, tc.payload))
		if p := r.problem(t); r.status != 422 || len(p.Errors) != 1 || p.Errors[0].Path != tc.field {
			t.Errorf("%s = %d %s", name, r.status, r.body)
		}
	}
	for _, ok := range [][2]string{{"application/json", ` {"a":[1,2]} `}, {"text/plain", "\xff\x00"}, {"application/x+json", "null"}} {
		w.must(202, http.MethodPost, path, w.a.send, body(ok[0], ok[1]))
	}
}

// TestListsAreReadable whatever publishers put into a payload.
func TestListsAreReadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/v1/tenants/" + w.a.id + "/events"
	const payload = "{\"name\":\"M\xfcller\"}"
	w.must(202, http.MethodPost, path, w.a.send, `{"type":"a","payload":`+payload+`}`)
	r := w.must(200, http.MethodGet, path+"?with=payload", w.a.read, nil)
	var got struct {
		Data []struct {
			Payload       json.RawMessage
			PayloadBase64 []byte `json:"payload_base64"`
		}
	}
	w.ok(json.Unmarshal(r.body, &got))
	if len(got.Data) != 1 || got.Data[0].Payload != nil || string(got.Data[0].PayloadBase64) != payload {
		t.Errorf("list = %s", r.body)
	}
}

// TestLoopsEnd sends an event round: each delivery is posted as an event.
func TestLoopsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.endpoint(w.a, nil)
	path := "/v1/tenants/" + w.a.id + "/events"
	for name, tc := range map[string]struct{ path, body string }{
		"event": {path, `{"type":"a","payload":1}`},
		"batch": {path + "/batch", `{"events":[{"type":"a","payload":1}]}`},
	} {
		for hops := 1; hops < hook.MaxHops; hops++ {
			w.must(202, http.MethodPost, tc.path, w.a.send, tc.body, "Breakwater-Hops", fmt.Sprint(hops))
			last := w.ingest.got[len(w.ingest.got)-1]
			if plain, n := hook.CutHops(last.ContentType); n != hops || plain != "application/json" {
				t.Errorf("%s with %d hops is handed over as %q", name, hops, last.ContentType)
			}
		}
		r := w.do(http.MethodPost, tc.path, w.a.send, tc.body, "Breakwater-Hops", "3")
		if p := r.problem(t); r.status != 422 || p.Code != "loop_detected" {
			t.Errorf("%s after three deliveries = %d %s", name, r.status, r.body)
		}
	}
	r := w.do(http.MethodPost, "/v1/tenants/"+w.a.id+"/endpoints/"+id+"/test", w.a.write, nil, "Breakwater-Hops", "1")
	if p := r.problem(t); r.status != 422 || p.Code != "loop_detected" {
		t.Errorf("a delivery that asks for a test = %d %s", r.status, r.body)
	}
	for _, odd := range []string{"", "x", "-1", "1e9"} {
		w.must(400, http.MethodPost, path, w.a.send, `{"type":"a","payload":1}`, "Breakwater-Hops", odd)
	}

	// Whoever reads sees what was posted.
	got := w.must(200, http.MethodGet, path, w.a.read, nil)
	if strings.Contains(string(got.body), "hops") {
		t.Errorf("events = %s", got.body)
	}
}

// slowBody announces much and sends little.
type slowBody struct{ sent, asked int }

func (b *slowBody) Read(p []byte) (int, error) {
	b.asked = max(b.asked, len(p))
	if b.sent > 0 {
		return 0, io.ErrUnexpectedEOF
	}
	b.sent = copy(p, `{"type"`)
	return b.sent, nil
}

// TestBodiesCostWhatHasArrived: announcing a body is free, so it must cost us
// nothing either.
func TestBodiesCostWhatHasArrived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := &slowBody{}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/tenants/"+w.a.id+"/events/batch", body)
	r.ContentLength = 256 << 10
	r.Header.Set("Authorization", "Bearer "+w.a.send)
	rec := httptest.NewRecorder()
	w.api.Handler().ServeHTTP(rec, r)
	if rec.Code != 400 || body.asked > 64<<10 {
		t.Errorf("= %d, with a buffer of %d for a body that never came", rec.Code, body.asked)
	}

	large := `{"type":"a","payload":"` + strings.Repeat("x", 60<<10) + `"}`
	w.must(202, http.MethodPost, "/v1/tenants/"+w.a.id+"/events", w.a.send, large)
	batch := `{"events":[` + large + `,` + large + `,` + large + `]}`
	w.must(202, http.MethodPost, "/v1/tenants/"+w.a.id+"/events/batch", w.a.send, batch)
	if got := len(w.ingest.got); got != 4 || string(w.ingest.got[3].Payload) != `"`+strings.Repeat("x", 60<<10)+`"` {
		t.Errorf("%d events arrived", got)
	}
}
