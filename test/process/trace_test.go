package process_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	publisherTrace = "0af7651916cd43dd8448eb211c80319c"
	publisherSpan  = "b7ad6b7169203331"
	publisherState = "vendor=opaque;value"
)

// collector takes traces as OTLP over HTTP.
type collector struct {
	url   string
	mu    sync.Mutex
	spans []*tracepb.Span
}

func collect(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err != nil || proto.Unmarshal(body, &data) != nil || r.URL.Path != "/v1/traces" || r.Header.Get("X-Token") != "sesame" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, resource := range data.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// of returns the spans of a kind.
func (c *collector) of(kind tracepb.Span_SpanKind) []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s *tracepb.Span) bool { return s.Kind != kind })
}

// traceHeaders are what a receiver was told of the trace of a request.
type traceHeaders struct{ parent, state string }

// tracedReceiver notes what each path is told. It fails until it is told to work.
type tracedReceiver struct {
	url   string
	works atomic.Bool
	mu    sync.Mutex
	seen  map[string][]traceHeaders
}

func receiveTraces(t *testing.T) *tracedReceiver {
	t.Helper()
	r := &tracedReceiver{seen: map[string][]traceHeaders{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.seen[req.URL.Path] = append(r.seen[req.URL.Path], traceHeaders{req.Header.Get("Traceparent"), req.Header.Get("Tracestate")})
		r.mu.Unlock()
		if req.Header.Get("Content-Type") != "application/json" || !r.works.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *tracedReceiver) told(path string) []traceHeaders {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen[path])
}

// untilBoth waits until both paths had n requests more than they have.
func (r *tracedReceiver) untilBoth(t *testing.T, n int) {
	t.Helper()
	asks, plain := len(r.told("/asks"))+n, len(r.told("/plain"))+n
	eventually(t, time.Minute, "both endpoints are tried", func() bool {
		return len(r.told("/asks")) >= asks && len(r.told("/plain")) >= plain
	})
}

// twoEndpoints creates one that asks for traces and one that does not.
func (r *tracedReceiver) twoEndpoints(s *server) {
	delays := slices.Repeat([]string{"1s"}, 29)
	policy := object{"retry": object{"backoff": object{"kind": "schedule", "delays": delays}, "jitter": "none"}}
	s.endpoint(r.url+"/asks", object{"trace_context": "forward", "policy": policy})
	s.endpoint(r.url+"/plain", object{"policy": policy})
}

// publishTraced sends an event as a part of the publisher's trace.
func (s *server) publishTraced() {
	s.t.Helper()
	err := call(s.t.Context(), http.MethodPost, s.url+"/v1/tenants/default/events", object{"type": "order.paid", "payload": object{"n": 1}}, nil,
		"Traceparent", "00-"+publisherTrace+"-"+publisherSpan+"-01", "Tracestate", publisherState)
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestTraceLeadsFromPublisherToReceiver follows an event whose attempts happen in
// three processes, the second of which is killed: all are linked to the accept,
// which is a part of the publisher's trace, and the receiver that asks is too.
func TestTraceLeadsFromPublisherToReceiver(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, args ...string) {
		c, r := collect(t), receiveTraces(t)
		s := serveIn(t, []string{
			"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_EXPORTER_OTLP_HEADERS=x-token=sesame", "OTEL_BSP_SCHEDULE_DELAY=600000",
		}, args...)
		r.twoEndpoints(s)
		s.publishTraced()
		r.untilBoth(t, 1)
		s.stop() // sends what would have waited for ten minutes
		accepts := c.of(tracepb.Span_SPAN_KIND_SERVER)
		if len(accepts) != 1 {
			t.Fatalf("%d accepts were traced", len(accepts))
		}
		accept := accepts[0]
		if hex.EncodeToString(accept.TraceId) != publisherTrace || hex.EncodeToString(accept.ParentSpanId) != publisherSpan {
			t.Errorf("the accept is no part of the publisher's trace: %v", accept)
		}

		s.env = append(s.env, "OTEL_BSP_SCHEDULE_DELAY=20")
		s.start()
		r.untilBoth(t, 1)
		s.kill()
		s.start()
		r.works.Store(true)
		numbers := func(status string) map[string]bool {
			found := map[string]bool{}
			for _, span := range c.of(tracepb.Span_SPAN_KIND_CLIENT) {
				a := attributesOf(span)
				if a["http.response.status_code"] == status {
					found[a["breakwater.endpoint.id"]+" "+a["breakwater.attempt.number"]] = true
				}
			}
			return found
		}
		eventually(t, time.Minute, "both deliveries are traced to their end", func() bool { return len(numbers("200")) == 2 })
		if failed := numbers("503"); len(failed) < 2 {
			t.Errorf("traced failures: %v", failed)
		}
		for _, span := range c.of(tracepb.Span_SPAN_KIND_CLIENT) {
			if len(span.Links) != 1 || hex.EncodeToString(span.Links[0].TraceId) != publisherTrace || string(span.Links[0].SpanId) != string(accept.SpanId) {
				t.Errorf("an attempt is not linked to its accept: %v", span)
			}
			if ok := attributesOf(span)["http.response.status_code"] == "200"; ok == (span.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR) {
				t.Errorf("an attempt that succeeded: %t has status %v", ok, span.Status)
			}
		}
		want := traceHeaders{"00-" + publisherTrace + "-" + hex.EncodeToString(accept.SpanId) + "-01", publisherState}
		for _, got := range r.told("/asks") {
			if got != want {
				t.Errorf("the receiver is told %+v, want %+v", got, want)
			}
		}
		for _, got := range r.told("/plain") {
			if got != (traceHeaders{}) {
				t.Errorf("a receiver that does not ask is told %+v", got)
			}
		}
		eventually(t, time.Minute, "spans are counted", func() bool { return strings.Contains(s.metrics(), `breakwater_trace_spans_total{outcome="sent"}`) })
	})
}

// TestTraceContextPassesThroughWithoutTraces: what the publisher sends reaches the
// receiver that asks, also when nobody traces here.
func TestTraceContextPassesThroughWithoutTraces(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, args ...string) {
		r := receiveTraces(t)
		s := serveIn(t, []string{"OTEL_SDK_DISABLED=true"}, args...)
		r.twoEndpoints(s)
		s.publishTraced()
		r.untilBoth(t, 1)
		s.kill()
		s.start()
		r.works.Store(true)
		r.untilBoth(t, 1)
		want := traceHeaders{"00-" + publisherTrace + "-" + publisherSpan + "-01", publisherState}
		for path, want := range map[string]traceHeaders{"/asks": want, "/plain": {}} {
			for _, got := range r.told(path) {
				if got != want {
					t.Errorf("%s is told %+v, want %+v", path, got, want)
				}
			}
		}
		if strings.Contains(s.metrics(), "breakwater_trace") {
			t.Error("spans are counted")
		}
	})
}

// attributesOf returns the texts and whole numbers among a span's attributes.
func attributesOf(s *tracepb.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes {
		if out[a.Key] = a.Value.GetStringValue(); out[a.Key] == "" {
			out[a.Key] = strconv.FormatInt(a.Value.GetIntValue(), 10)
		}
	}
	return out
}

// metrics returns what /metrics says.
func (s *server) metrics() string {
	s.t.Helper()
	res, err := client.Get(s.url + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}
