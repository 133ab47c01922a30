package api_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
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

func TestIdempotencyKeyStandsForOneEvent(t *testing.T) {
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

func TestTestEventGoesToOneEndpointOnly(t *testing.T) {
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
