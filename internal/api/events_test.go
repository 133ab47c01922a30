package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const acmeEvents = "/v1/tenants/acme/events"

func TestAcceptKeepsBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, payload := range map[string]string{
		"object":         `{ "b" : 1,	"a":2 }`,
		"null":           `null`,
		"number":         `1e400`,
		"lone surrogate": `"\ud800"`,
		"invalid UTF-8":  "\"\xff\xfe\"",
		"duplicate keys": `{"a":1,"a":2}`,
		"escapes":        `{"\u0061":"\/\\\""}`,
		"deep":           strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"brackets":       `{"x":"]}[{","y":["\"}"]}`,
		"empty string":   `""`,
	} {
		id := w.must(202, http.MethodPost, acmeEvents, w.a.send, "{\"type\":\"a\" ,\n\"payload\" : "+payload+"\r\n}").text(t, "id")
		if got := w.ingest.last(t).Payload; string(got) != payload {
			t.Errorf("%s: handed over %q, want %q", name, got, payload)
		}
		r := w.must(200, http.MethodGet, acmeEvents+"/"+id+"/payload", w.a.read, nil)
		if string(r.body) != payload || r.header.Get("X-Payload-Type") != "application/json" {
			t.Errorf("%s: payload route gives %q of type %q", name, r.body, r.header.Get("X-Payload-Type"))
		}
		if e := w.do(http.MethodGet, acmeEvents+"/"+id, w.a.read, nil); e.status != 200 || !json.Valid(e.body) {
			t.Errorf("%s: event = %d %s", name, e.status, e.body)
		}
	}
}

func TestAcceptFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ep := w.endpoint(w.a, map[string]any{"uid": "main", "types": []string{"never"}})
	epID, err := hook.EndpointPrefix.Parse(ep)
	w.ok(err)
	for name, tc := range map[string]struct {
		body    string
		headers []string
		want    hook.Submission
		count   int
	}{
		"plain": {body: `{"type":"a.b","payload":1}`, want: hook.Submission{Type: "a.b", Payload: []byte("1"), ContentType: "application/json"}},
		"no media type, keyed": {
			body: `{"type":"a","payload":1}`, headers: []string{"Idempotency-Key", "k~1"},
			want: hook.Submission{Type: "a", Payload: []byte("1"), ContentType: "application/json", Key: "k~1"},
		},
		"curl's media type": {
			body: `{"type":"a","payload":1}`, headers: []string{"Content-Type", "application/x-www-form-urlencoded"},
			want: hook.Submission{Type: "a", Payload: []byte("1"), ContentType: "application/json"},
		},
		"base64": {
			body: `{"type":"a","payload_base64":"AP8=","content_type":"image/png"}`, headers: []string{"Content-Type", "application/json; charset=utf-8"},
			want: hook.Submission{Type: "a", Payload: []byte{0, 0xff}, ContentType: "image/png"},
		},
		"empty base64": {
			body: `{"type":"a","payload_base64":"","content_type":"text/plain"}`,
			want: hook.Submission{Type: "a", Payload: []byte{}, ContentType: "text/plain"},
		},
		"deliver_at": {
			body: `{"type":"a","payload":1,"deliver_at":"2026-03-02T12:00:00.5+01:00"}`,
			want: hook.Submission{Type: "a", Payload: []byte("1"), ContentType: "application/json", DeliverAt: time.Date(2026, 3, 2, 11, 0, 0, 5e8, time.UTC)},
		},
		"delay in days": {
			body: `{"type":"a","payload":1,"delay":"30d"}`,
			want: hook.Submission{Type: "a", Payload: []byte("1"), ContentType: "application/json", Delay: 720 * time.Hour},
		},
		"targets by uid and id": {
			body: `{"type":"a","payload":1,"endpoints":["main","` + ep + `"]}`, count: 1,
			want: hook.Submission{Type: "a", Payload: []byte("1"), ContentType: "application/json", Endpoints: []hook.ID{epID}},
		},
	} {
		r := w.must(202, http.MethodPost, acmeEvents, w.a.send, tc.body, tc.headers...)
		got := w.ingest.last(t)
		if hashed := got.ContentHash != [32]byte{}; hashed != (got.Key != "") {
			t.Errorf("%s: content hash %t with key %q", name, hashed, got.Key)
		}
		got.ContentHash = [32]byte{}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if n := r.object(t)["deliveries"]; n != float64(tc.count) {
			t.Errorf("%s: deliveries = %v, want %d", name, n, tc.count)
		}
	}
}

// TestContentHash checks that the hash tells apart what must not be confused.
func TestContentHash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, map[string]any{"uid": "main"})
	w.endpoint(w.a, map[string]any{"uid": "mai"})
	w.endpoint(w.a, map[string]any{"uid": "n"})
	seen := map[[32]byte]string{}
	for i, body := range []string{
		`{"type":"a","payload":1}`,
		`{"type":"a1","payload":1}`,
		`{"type":"a","payload":11}`,
		`{"type":"a","payload": {"a":1,"b":2}}`,
		`{"type":"a","payload": {"b":2,"a":1}}`,
		`{"type":"a","payload":1,"delay":"60s"}`,
		`{"type":"a","payload":1,"delay":"1m"}`,
		`{"type":"a","payload":1,"deliver_at":"2026-03-02T11:00:00Z"}`,
		`{"type":"a","payload":1,"endpoints":["main"]}`,
		`{"type":"a","payload":1,"endpoints":["mai","n"]}`,
		`{"type":"a","payload_base64":"MQ==","content_type":"application/json"}`,
		`{"type":"a","payload_base64":"eA==","content_type":"text/plain"}`, // x after text/plain
		`{"type":"a","payload_base64":"","content_type":"text/plainx"}`,
	} {
		w.must(202, http.MethodPost, acmeEvents, w.a.send, body, "Idempotency-Key", fmt.Sprint("k", i))
		h := w.ingest.last(t).ContentHash
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one hash", body, other)
		}
		seen[h] = body
	}
	w.must(202, http.MethodPost, acmeEvents, w.a.send, `{ "payload":1, "type":"a" }`, "Idempotency-Key", "other")
	if _, ok := seen[w.ingest.last(t).ContentHash]; !ok {
		t.Error("white space and the order of members change the hash")
	}
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, nil)
	post := func(key, body string) reply {
		return w.do(http.MethodPost, acmeEvents, w.a.send, body, "Idempotency-Key", key)
	}
	first := post("k", `{"type":"a","payload":{"n":1}}`)
	again := post("k", `{"type":"a","payload":{"n":1}}`)
	if first.status != 202 || first.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("first = %d %v", first.status, first.header)
	}
	if again.status != 202 || again.header.Get("Idempotency-Replayed") != "true" || !bytes.Equal(first.body, again.body) {
		t.Errorf("again = %d %s, first %s", again.status, again.body, first.body)
	}
	if r := post("k", `{"type":"a","payload":{"n":2}}`); r.status != 409 || r.problem(t).Code != "idempotency_key_reused" {
		t.Errorf("other content = %d %s", r.status, r.body)
	}
	other := w.must(202, http.MethodPost, "/v1/tenants/bolt/events", w.b.send, `{"type":"a","payload":{"n":1}}`, "Idempotency-Key", "k")
	if other.text(t, "id") == first.text(t, "id") {
		t.Error("two tenants share a key")
	}
	ids := make([]string, 20)
	var group sync.WaitGroup
	for i := range ids {
		group.Go(func() { ids[i] = string(post("race", `{"type":"a","payload":1}`).body) })
	}
	group.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("answers differ: %q", ids)
		}
	}
}

// slowDown is an error that knows how long to wait.
type slowDown struct{ error }

func (slowDown) RetryAfter() time.Duration { return 7500 * time.Millisecond }
func (s slowDown) Unwrap() error           { return s.error }

func TestIngestErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tc := range []struct {
		err    error
		status int
		code   string
		wait   string
	}{
		{hook.ErrKeyReused, 409, "idempotency_key_reused", ""},
		{hook.ErrFanoutTooBig, 422, "fanout_too_large", ""},
		{hook.ErrTooLarge, 413, "payload_too_large", ""},
		{hook.ErrRateLimited, 429, "rate_limited", "1"},
		{slowDown{hook.ErrRateLimited}, 429, "rate_limited", "8"},
		{hook.ErrBacklogFull, 429, "backlog_full", "10"},
		{hook.ErrTenantFull, 507, "tenant_storage_full", "600"},
		{hook.ErrOverloaded, 503, "overloaded", "1"},
		{hook.ErrDraining, 503, "draining", "5"},
		{fmt.Errorf("commit: %w", hook.ErrStoreUnavailable), 503, "store_unavailable", "2"},
		{fmt.Errorf("read tenant: %w", store.ErrDamaged), 503, "store_damaged", "30"},
		{fmt.Errorf("read tenant: %w", store.ErrFatal), 503, "store_unavailable", "2"},
		{hook.ErrStoreFull, 507, "disk_full", "30"},
		{hook.ErrUnknownTarget, 422, "validation_failed", ""},
		{&hook.Invalid{Code: "schema_mismatch", Fields: []hook.FieldError{{Path: "payload.x", Message: "no"}}}, 422, "schema_mismatch", ""},
		{errors.New("disk on fire: password=hunter2"), 500, "internal", ""},
	} {
		w.ingest.fail = tc.err
		r := w.do(http.MethodPost, acmeEvents, w.a.send, `{"type":"a","payload":1}`)
		if p := r.problem(t); r.status != tc.status || p.Code != tc.code || r.header.Get("Retry-After") != tc.wait {
			t.Errorf("%v: %d %s, Retry-After %q, want %d %s %q", tc.err, r.status, p.Code, r.header.Get("Retry-After"), tc.status, tc.code, tc.wait)
		}
		if strings.Contains(string(r.body), "hunter2") {
			t.Errorf("the answer holds the error: %s", r.body)
		}
	}
	if !strings.Contains(w.logs.String(), "disk on fire") {
		t.Error("the unforeseen error was not logged")
	}
}

func TestPanicIsAProblem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ingest.panic = true
	r := w.do(http.MethodPost, acmeEvents, w.a.send, `{"type":"a","payload":1}`, "X-Request-Id", "my-request_1")
	if p := r.problem(t); r.status != 500 || p.Code != "internal" || p.RequestID != "my-request_1" {
		t.Errorf("= %d %s", r.status, r.body)
	}
	if !strings.Contains(w.logs.String(), "ingest is broken") || !strings.Contains(w.logs.String(), "my-request_1") {
		t.Errorf("log: %s", w.logs)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, nil)
	batch := func(body string) (reply, []map[string]any) {
		r := w.do(http.MethodPost, acmeEvents+"/batch", w.a.send, body)
		var out []map[string]any
		for _, item := range r.object(t)["results"].([]any) {
			out = append(out, item.(map[string]any))
		}
		return r, out
	}
	r, items := batch(`{"events":[{"type":"a","payload":{"x" : 1},"idempotency_key":"k"},{"type":"b c","payload":1},7,
		{"type":"a","payload":{"x" : 1},"idempotency_key":"k"},{"type":"a","payload":2,"idempotency_key":"k"},
		{"type":"a","payload":1,"endpoints":["none"]},{"type":"a","payload":"` + strings.Repeat("x", 65<<10) + `"}]}`)
	if r.status != 202 || r.object(t)["accepted"] != 2.0 || r.object(t)["rejected"] != 5.0 {
		t.Fatalf("= %d %s", r.status, r.body)
	}
	for i, want := range []struct {
		status float64
		code   string
	}{
		{202, ""},
		{422, "type_invalid"},
		{422, "validation_failed"},
		{202, ""},
		{409, "idempotency_key_reused"},
		{422, "validation_failed"},
		{413, "payload_too_large"},
	} {
		e, _ := items[i]["error"].(map[string]any)
		code, _ := e["code"].(string)
		if items[i]["index"] != float64(i) || items[i]["status"] != want.status || code != want.code {
			t.Errorf("item %d = %v, want %v", i, items[i], want)
		}
	}
	if items[0]["id"] != items[3]["id"] || items[3]["replayed"] != true || items[0]["deliveries"] != 1.0 {
		t.Errorf("items 0 and 3: %v %v", items[0], items[3])
	}
	if !strings.Contains(string(r.body), `"events[1].type"`) {
		t.Errorf("the bad field is not named: %s", r.body)
	}
	if got := w.ingest.got[0].Payload; string(got) != `{"x" : 1}` || cap(got) > 1000 {
		t.Errorf("payload %q with a capacity of %d", got, cap(got))
	}
	if r, _ := batch(`{"events":[{"type":"a"}]}`); r.status != 422 {
		t.Errorf("none accepted = %d", r.status)
	}
	w.ingest.fail = hook.ErrOverloaded
	if r, _ := batch(`{"events":[{"type":"a","payload":1},{"type":"a","payload":1}]}`); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("store overloaded = %d %v", r.status, r.header)
	}
	if r, _ := batch(`{"events":[{"type":"a","payload":1},{"type":"a b","payload":1}]}`); r.status != 422 {
		t.Errorf("some malformed, store overloaded = %d", r.status)
	}
}

func TestTestEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, map[string]any{"uid": "other"})
	ep := w.endpoint(w.a, map[string]any{"uid": "main", "types": []string{"never"}})
	r := w.must(202, http.MethodPost, "/v1/tenants/acme/endpoints/main/test", w.a.write, `{"payload":{"a" :1}}`)
	got := w.ingest.last(t)
	if got.Type != "breakwater.test" || string(got.Payload) != `{"a" :1}` || len(got.Endpoints) != 1 {
		t.Errorf("handed over %+v", got)
	}
	d := w.must(200, http.MethodGet, "/v1/tenants/acme/deliveries/"+r.text(t, "delivery"), w.a.read, nil)
	if d.text(t, "endpoint") != ep || d.text(t, "event") != r.text(t, "event") {
		t.Errorf("delivery %s", d.body)
	}
	w.must(202, http.MethodPost, "/v1/tenants/acme/endpoints/main/test", w.a.write, nil)
}
