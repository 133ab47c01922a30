package accept_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

func TestEventsOfABatchAreAnsweredOneByOne(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	batch := func(body string) (reply, []map[string]any) {
		r := s.post(batchPath, body)
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
	if got := s.ingest.got[0].Payload; string(got) != `{"x" : 1}` || cap(got) > 1000 {
		t.Errorf("payload %q with a capacity of %d", got, cap(got))
	}
	if r, _ := batch(`{"events":[{"type":"a"}]}`); r.status != 422 {
		t.Errorf("none accepted = %d", r.status)
	}
	s.ingest.fail = hook.ErrOverloaded
	if r, _ := batch(`{"events":[{"type":"a","payload":1},{"type":"a","payload":1}]}`); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("store overloaded = %d %v", r.status, r.header)
	}
	if r, _ := batch(`{"events":[{"type":"a","payload":1},{"type":"a b","payload":1}]}`); r.status != 422 {
		t.Errorf("some malformed, store overloaded = %d", r.status)
	}
}

// TestErrorsOfABatchAreBounded: the answer names each event, but not everything
// that is wrong with all of them.
func TestErrorsOfABatchAreBounded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	bad := `{"x1":1,"x2":2,"x3":3,"x4":4}`
	body := `{"events":[` + strings.Repeat(bad+",", 999) + bad + `]}`
	r := s.post(batchPath, body)
	var got struct {
		Rejected int
		Results  []struct {
			Index, Status int
			Error         struct {
				Code, Detail string
				Errors       []any
			}
		}
	}
	ok(t, json.Unmarshal(r.body, &got))
	named := 0
	for i, res := range got.Results {
		named += len(res.Error.Errors)
		if res.Index != i || res.Status != 422 || res.Error.Code == "" || res.Error.Detail == "" {
			t.Fatalf("result %d = %+v", i, res)
		}
	}
	if r.status != 422 || got.Rejected != 1000 || len(got.Results) != 1000 || named != 20 || len(r.body) > 250_000 {
		t.Errorf("= %d, %d rejected, %d errors, %d bytes", r.status, got.Rejected, named, len(r.body))
	}
}
