package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

func TestTraceContextOfAnEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shows := func(want string, r reply) {
		t.Helper()
		if got := r.text(t, "trace_context"); got != want {
			t.Errorf("trace_context = %q, want %q", got, want)
		}
	}
	shows("off", w.must(201, http.MethodPost, acmeEndpoints, w.a.write, `{"url":"https://example.com/a"}`))
	shows("forward", w.must(201, http.MethodPost, acmeEndpoints, w.a.write, `{"url":"https://example.com/a","uid":"told","trace_context":"forward"}`))
	shows("forward", w.must(200, http.MethodPatch, acmeEndpoints+"/told", w.a.write, `{"description":"x"}`))
	r := w.do(http.MethodPatch, acmeEndpoints+"/told", w.a.write, `{"headers":{"tracestate":"a=1"}}`)
	if p := r.problem(t); r.status != 422 || len(p.Errors) != 1 || p.Errors[0].Path != "headers.tracestate" {
		t.Errorf("a second tracestate = %d %s", r.status, r.body)
	}
	shows("off", w.must(200, http.MethodPatch, acmeEndpoints+"/told", w.a.write, `{"trace_context":null}`))
	w.must(200, http.MethodPatch, acmeEndpoints+"/told", w.a.write, `{"headers":{"tracestate":"a=1"}}`)
	shows("off", w.must(200, http.MethodGet, acmeEndpoints+"/told", w.a.read, nil))
}

// TestEventShowsItsTrace: whoever looks at an event finds its trace, and a content
// type as it was posted.
func TestEventShowsItsTrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	_, err := w.ingest.Accept(t.Context(), w.a.tenant, &hook.Submission{
		Type: "a", Payload: []byte("1"), ContentType: hook.WithTrace("application/json", hook.Trace{Parent: parent, State: "a=1"}),
	})
	w.ok(err)
	path := "/v1/tenants/" + w.a.id + "/events"
	w.must(202, http.MethodPost, path, w.a.send, `{"type":"b","payload":1}`)
	r := w.must(200, http.MethodGet, path+"?type=a", w.a.read, nil)
	if body := string(r.body); !strings.Contains(body, `"traceparent":"`+parent+`"`) || !strings.Contains(body, `"content_type":"application/json"`) {
		t.Errorf("events = %s", body)
	}
	if r := w.must(200, http.MethodGet, path+"?type=b", w.a.read, nil); strings.Contains(string(r.body), "trace") {
		t.Errorf("events = %s", r.body)
	}
}
