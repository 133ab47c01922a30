package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestErrorsAreBounded sends bodies that break as many rules as fit in.
func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	events := "/v1/tenants/" + w.a.id + "/events"
	endpoint := w.endpoint(w.a, nil)
	unknown := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"é%d":1`, i)
		}
		return b.String()
	}
	long := `,"` + strings.Repeat("é", 10_000) + `":1`
	targets := strings.Repeat(`"nobody",`, 999) + `"nobody"`
	for name, tc := range map[string]struct{ method, path, body string }{
		"unknown members":         {"POST", events, `{"type":"a"` + unknown(2000) + `}`},
		"repeated members":        {"POST", events, `{"type":"a"` + strings.Repeat(`,"type":"a"`, 2000) + `}`},
		"long names":              {"POST", events, `{"type":"a"` + long + `}`},
		"unknown endpoints":       {"POST", events, `{"type":"a","payload":1,"endpoints":[` + targets + `]}`},
		"members of a batch":      {"POST", events + "/batch", `{"events":[]` + unknown(10_000) + `}`},
		"control route":           {"POST", "/v1/tenants", `{"uid":"x"` + unknown(1000) + `}`},
		"more than anybody needs": {"POST", "/v1/tenants", `{"uid":"x"` + unknown(10_000) + `}`},
		"policy":                  {"PATCH", "/v1/tenants/" + w.a.id + "/endpoints/" + endpoint, `{"policy":{"preset":"default"` + unknown(1000) + long + `}}`},
	} {
		r := w.do(tc.method, tc.path, w.admin, tc.body)
		p := r.problem(t)
		if r.status != 422 || len(p.Errors) == 0 || len(p.Errors) > 20 || len(r.body) > 20_000 || !utf8.Valid(r.body) {
			t.Errorf("%s = %d with %d errors in %d bytes", name, r.status, len(p.Errors), len(r.body))
		}
	}
}

// TestRepeatedNamesAreRefused: decoders disagree on which of two counts.
func TestRepeatedNamesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/v1/tenants/" + w.a.id + "/endpoints"
	for name, tc := range map[string]struct{ body, want string }{
		"top":         {`{"url":"https://a.example","url":"https://b.example"}`, "url"},
		"nested":      {`{"url":"https://a.example","policy":{"retry":{"max_attempts":3},"timeout":{"total":"1s"},"retry":{"min_delay":"1s"}}}`, "policy.retry"},
		"deep":        {`{"url":"https://a.example","policy":{"retry":{"max_attempts":3,"max_attempts":4}}}`, "policy.retry.max_attempts"},
		"spelled out": {`{"url":"https://a.example","policy":{"retry":{"max_attempts":3,"max\u005fattempts":4}}}`, "policy.retry.max_attempts"},
		"in a list":   {`{"url":"https://a.example","types":["a",{"b":1,"b":2}]}`, "types[1].b"},
	} {
		r := w.do(http.MethodPost, path, w.a.write, tc.body)
		if p := r.problem(t); r.status != 422 || len(p.Errors) != 1 || p.Errors[0].Path != tc.want || p.Errors[0].Code != "not_allowed" {
			t.Errorf("%s = %d %s", name, r.status, r.body)
		}
	}
	w.must(201, http.MethodPost, path, w.a.write, `{"url":"https://a.example","policy":{"retry":{"max_attempts":3},"timeout":{"total":"20s"}}}`)

	// What is a receiver's is sent as it came.
	id := w.endpoint(w.a, nil)
	twice := `{"n":1,"n":2,"deep":{"n":1,"n":2}}`
	w.must(202, http.MethodPost, path+"/"+id+"/test", w.a.write, `{"payload":`+twice+`}`)
	w.must(202, http.MethodPost, "/v1/tenants/"+w.a.id+"/events", w.a.send, `{"type":"a","payload":`+twice+`}`)
	for i, s := range w.ingest.got {
		if string(s.Payload) != twice {
			t.Errorf("payload %d = %s", i, s.Payload)
		}
	}
}
