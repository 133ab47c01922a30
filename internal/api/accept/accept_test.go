package accept_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

func TestFieldsAreHandedOver(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.endpoints["main"] = 7
	for name, tc := range map[string]struct {
		body    string
		headers []string
		want    hook.Submission
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
			body: `{"type":"a","payload":1,"endpoints":["main","` + hook.EndpointPrefix.Format(7) + `"]}`,
			want: hook.Submission{Type: "a", Payload: []byte("1"), ContentType: "application/json", Endpoints: []hook.ID{7}},
		},
	} {
		got := s.accepted(eventsPath, tc.body, tc.headers...)
		if hashed := got.ContentHash != [32]byte{}; hashed != (got.Key != "") {
			t.Errorf("%s: content hash %t with key %q", name, hashed, got.Key)
		}
		got.ContentHash = [32]byte{}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestHashTellsContentApart: what must not be confused has different hashes, and
// what means the same has one.
func TestHashTellsContentApart(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.endpoints = map[string]hook.ID{"main": 1, "mai": 2, "n": 3}
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
		h := s.accepted(eventsPath, body, "Idempotency-Key", fmt.Sprint("k", i)).ContentHash
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one hash", body, other)
		}
		seen[h] = body
	}
	same := s.accepted(eventsPath, `{ "payload":1, "type":"a" }`, "Idempotency-Key", "other")
	if _, ok := seen[same.ContentHash]; !ok {
		t.Error("white space and the order of members change the hash")
	}
}

// TestBinaryPayloadKeepsItsWord: what is called JSON is pasted into envelopes,
// so it has to be JSON.
func TestBinaryPayloadKeepsItsWord(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	body := func(contentType, payload string) string {
		return fmt.Sprintf(`{"type":"a","content_type":%q,"payload_base64":%q}`, contentType, base64.StdEncoding.EncodeToString([]byte(payload)))
	}
	for name, tc := range map[string]struct{ contentType, payload, field string }{
		"a second type":      {"application/json", `1,"type":"forged","x":2`, "payload_base64"},
		"a profile of JSON":  {"application/cloudevents+json; charset=utf-8", `{`, "payload_base64"},
		"not UTF-8":          {"application/json", "\"\xff\"", "payload_base64"},
		"nothing":            {"application/json", "", "payload_base64"},
		"a parameter of our": {"text/plain; breakwater-hops=0", "x", "content_type"},
	} {
		r := s.post(eventsPath, body(tc.contentType, tc.payload))
		if p := r.problem(t); r.status != 422 || len(p.Errors) != 1 || p.Errors[0].Path != tc.field {
			t.Errorf("%s = %d %s", name, r.status, r.body)
		}
	}
	for _, good := range [][2]string{{"application/json", ` {"a":[1,2]} `}, {"text/plain", "\xff\x00"}, {"application/x+json", "null"}} {
		s.accepted(eventsPath, body(good[0], good[1]))
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
	s := newServer(t)
	body := &slowBody{}
	if r := s.postFrom(batchPath, body, maxBatchBody); r.status != 400 || body.asked > 64<<10 {
		t.Errorf("= %d, with a buffer of %d for a body that never came", r.status, body.asked)
	}

	large := `{"type":"a","payload":"` + strings.Repeat("x", 60<<10) + `"}`
	s.accepted(eventsPath, large)
	last := s.accepted(batchPath, `{"events":[`+large+`,`+large+`,`+large+`]}`)
	if got := len(s.ingest.got); got != 4 || string(last.Payload) != `"`+strings.Repeat("x", 60<<10)+`"` {
		t.Errorf("%d events arrived", got)
	}
}

// slowDown is an error that knows how long to wait.
type slowDown struct{ error }

func (slowDown) RetryAfter() time.Duration { return 7500 * time.Millisecond }
func (s slowDown) Unwrap() error           { return s.error }

func TestErrorsOfIngestHaveAnswers(t *testing.T) {
	t.Parallel()
	s := newServer(t)
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
		s.ingest.fail = tc.err
		r := s.post(eventsPath, `{"type":"a","payload":1}`)
		if p := r.problem(t); r.status != tc.status || p.Code != tc.code || r.header.Get("Retry-After") != tc.wait {
			t.Errorf("%v: %d %s, Retry-After %q, want %d %s %q", tc.err, r.status, p.Code, r.header.Get("Retry-After"), tc.status, tc.code, tc.wait)
		}
		if strings.Contains(string(r.body), "hunter2") {
			t.Errorf("the answer holds the error: %s", r.body)
		}
	}
	if !strings.Contains(s.log.String(), "disk on fire") {
		t.Error("the unforeseen error was not logged")
	}
}
