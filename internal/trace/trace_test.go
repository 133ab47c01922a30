package trace_test

import (
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/trace"
)

const (
	traceID   = "0af7651916cd43dd8448eb211c80319c"
	publisher = "00-" + traceID + "-b7ad6b7169203331-01"
	unsampled = "00-" + traceID + "-b7ad6b7169203331-00"
	route     = "/v1/tenants/{tenant}/events"
)

var at = time.Date(2026, 3, 2, 10, 30, 15, 123456000, time.UTC)

func attempt() *hook.Attempt {
	return &hook.Attempt{
		TenantID: 1, EventID: 2, EndpointID: 3, DeliveryID: 4, Number: 5, Kind: hook.Retry, Class: hook.Down, Reason: hook.ConnectRefused,
		Latency: 1500 * time.Microsecond, StartedAt: at.Add(time.Hour), Detail: hook.AttemptDetail{URL: "https://hooks.example.com:8443/secret?token=abc"},
	}
}

func TestAcceptAndAttemptsMakeSpans(t *testing.T) {
	c := newCollector(t)
	tracer, _ := mustOpen(t, c, "OTEL_EXPORTER_OTLP_HEADERS", "X-Token=open%20sesame, x-two=2", "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip",
		"OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	request := tracer.Begin(hook.Trace{Parent: publisher, State: "vendor=1"}, at, route, 1)
	own, keep := request.Trace()
	if !keep || !strings.HasPrefix(own.Parent, "00-"+traceID+"-") || !strings.HasSuffix(own.Parent, "-01") || own.Parent == publisher || own.State != "vendor=1" {
		t.Errorf("events go on with %+v, kept: %t", own, keep)
	}
	request.End(trace.Answer{Status: 202, Type: "order.paid", Receipt: hook.Receipt{EventID: 2, Deliveries: 7}})
	tracer.Attempted(own, attempt(), at.Add(time.Hour+2*time.Second))
	ok := attempt()
	ok.Class, ok.Reason, ok.Status, ok.Kind, ok.Number = hook.Success, hook.OK, 204, hook.Probe, 6
	tracer.Attempted(own, ok, at.Add(2*time.Hour))
	tracer.Close()

	spans := c.got()
	if len(spans) != 3 {
		t.Fatalf("%d spans arrived", len(spans))
	}
	accept, failed, delivered := spans[0], spans[1], spans[2]
	if accept.Name != "POST "+route || accept.Kind != tracepb.Span_SPAN_KIND_SERVER || hex.EncodeToString(accept.TraceId) != traceID ||
		hex.EncodeToString(accept.ParentSpanId) != "b7ad6b7169203331" || hex.EncodeToString(accept.SpanId) != own.Parent[36:52] ||
		accept.StartTimeUnixNano != uint64(at.UnixNano()) || accept.TraceState != "vendor=1" || accept.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET {
		t.Errorf("accept: %v", accept)
	}
	want := map[string]string{
		"http.request.method": "POST", "http.route": route, "http.response.status_code": "202", "breakwater.tenant.id": hook.TenantPrefix.Format(1),
		"breakwater.event.id": hook.EventPrefix.Format(2), "breakwater.event.type": "order.paid", "breakwater.event.deliveries": "7",
		"breakwater.accept.outcome": "accepted",
	}
	if diff := cmp.Diff(want, attributes(accept)); diff != "" {
		t.Errorf("attributes of the accept (-want +got):\n%s", diff)
	}

	for name, s := range map[string]*tracepb.Span{"failed": failed, "delivered": delivered} {
		if s.Name != "deliver" || s.Kind != tracepb.Span_SPAN_KIND_CLIENT || len(s.ParentSpanId) != 0 || hex.EncodeToString(s.TraceId) == traceID || s.TraceState != "" {
			t.Errorf("%s: not a client's span in a trace of its own: %v", name, s)
		}
		if len(s.Links) != 1 || hex.EncodeToString(s.Links[0].TraceId) != traceID || hex.EncodeToString(s.Links[0].SpanId) != own.Parent[36:52] {
			t.Errorf("%s: linked to %v", name, s.Links)
		}
	}
	want = map[string]string{
		"http.request.method": "POST", "server.address": "hooks.example.com", "error.type": "connect_refused",
		"breakwater.tenant.id": hook.TenantPrefix.Format(1), "breakwater.event.id": hook.EventPrefix.Format(2),
		"breakwater.endpoint.id": hook.EndpointPrefix.Format(3), "breakwater.delivery.id": hook.DeliveryPrefix.Format(4),
		"breakwater.attempt.number": "5", "breakwater.attempt.kind": "retry", "breakwater.attempt.class": "down",
		"breakwater.attempt.reason": "connect_refused", "breakwater.attempt.latency_ms": "1.5",
	}
	if diff := cmp.Diff(want, attributes(failed)); diff != "" {
		t.Errorf("attributes of the failed attempt (-want +got):\n%s", diff)
	}
	if failed.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || failed.StartTimeUnixNano != uint64(at.Add(time.Hour).UnixNano()) ||
		failed.EndTimeUnixNano != uint64(at.Add(time.Hour+2*time.Second).UnixNano()) {
		t.Errorf("failed: %v", failed)
	}
	if got := attributes(delivered); delivered.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET || got["http.response.status_code"] != "204" ||
		got["error.type"] != "" || got["breakwater.attempt.kind"] != "probe" {
		t.Errorf("delivered: %v", delivered)
	}

	r := c.requests[0]
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("X-Token") != "open sesame" || r.Header.Get("X-Two") != "2" ||
		r.Header.Get("User-Agent") != "Breakwater/1.2.3" {
		t.Errorf("request: %s %s %v", r.Method, r.URL, r.Header)
	}
	for name, want := range map[string]string{"service.name": "breakwater", "service.version": "1.2.3", "service.instance.id": "n1", "deployment.environment": "test"} {
		if c.resource[name] != want {
			t.Errorf("resource: %s = %q", name, c.resource[name])
		}
	}
	if got := tracer.Counts(); got != (trace.Counts{Sent: 3}) {
		t.Errorf("counts: %+v", got)
	}
}

func TestOutcomesOfRequests(t *testing.T) {
	c := newCollector(t)
	tracer, _ := mustOpen(t, c, "OTEL_SERVICE_NAME", "webhooks", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.URL+"/own/path")
	for _, tc := range []struct {
		answer  trace.Answer
		outcome string
		failed  bool
	}{
		{trace.Answer{Status: 202, Receipt: hook.Receipt{EventID: 1, Replayed: true}}, "replayed", false},
		{trace.Answer{Status: 422, Code: "validation_failed"}, "refused", false},
		{trace.Answer{Status: 503, Code: "overloaded"}, "refused", true},
		{trace.Answer{Status: 202, Accepted: 2}, "accepted", false},
		{trace.Answer{Status: 202, Accepted: 1, Rejected: 1}, "partly_accepted", false},
		{trace.Answer{Status: 422, Rejected: 2}, "refused", false},
	} {
		before := len(c.got())
		tracer.Begin(hook.Trace{}, at, route, 0).End(tc.answer)
		eventually(t, "span arrives", func() bool { return len(c.got()) > before })
		s := c.got()[before]
		a := attributes(s)
		if a["breakwater.accept.outcome"] != tc.outcome || (s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR) != tc.failed || a["error.type"] != tc.answer.Code {
			t.Errorf("%+v: %v", tc.answer, s)
		}
		if len(s.ParentSpanId) != 0 {
			t.Errorf("a request without a trace has a parent: %v", s)
		}
	}
	tracer.Close()
	if c.resource["service.name"] != "webhooks" || c.requests[0].URL.Path != "/own/path" {
		t.Errorf("%s at %s", c.resource["service.name"], c.requests[0].URL.Path)
	}
}

// TestAttemptsAreSampledLikeTheirAccept: with any sampler, and also when the
// attempts happen in another process, half a story is never told.
func TestAttemptsAreSampledLikeTheirAccept(t *testing.T) {
	for name, tc := range map[string]struct {
		env              []string
		from             hook.Trace
		accept, attempts bool
	}{
		"publisher samples":         {nil, hook.Trace{Parent: publisher}, true, true},
		"publisher does not":        {nil, hook.Trace{Parent: unsampled}, false, false},
		"no publisher":              {nil, hook.Trace{}, true, true},
		"always, publisher not":     {[]string{"OTEL_TRACES_SAMPLER", "always_on"}, hook.Trace{Parent: unsampled}, true, true},
		"never":                     {[]string{"OTEL_TRACES_SAMPLER", "always_off"}, hook.Trace{Parent: publisher}, false, false},
		"none of their own":         {[]string{"OTEL_TRACES_SAMPLER", "parentbased_always_off"}, hook.Trace{}, false, false},
		"none of their own, parent": {[]string{"OTEL_TRACES_SAMPLER", "parentbased_always_off"}, hook.Trace{Parent: publisher}, true, true},
		"nothing of a share":        {[]string{"OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0"}, hook.Trace{Parent: publisher}, false, false},
		"parent before share":       {[]string{"OTEL_TRACES_SAMPLER", "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0"}, hook.Trace{Parent: publisher}, true, true},
	} {
		c := newCollector(t)
		tracer, _ := mustOpen(t, c, tc.env...)
		request := tracer.Begin(tc.from, at, route, 1)
		own, keep := request.Trace()
		request.End(trace.Answer{Status: 202})
		tracer.Attempted(own, attempt(), at)
		tracer.Close()
		accepts, attempts := 0, 0
		for _, s := range c.got() {
			if s.Kind == tracepb.Span_SPAN_KIND_SERVER {
				accepts++
			} else {
				attempts++
			}
		}
		if keep != tc.accept || (accepts == 1) != tc.accept || (attempts == 1) != tc.attempts {
			t.Errorf("%s: %d accepts, %d attempts, kept: %t", name, accepts, attempts, keep)
		}
		if !tc.accept && own != tc.from {
			t.Errorf("%s: the publisher's trace goes on as %+v", name, own)
		}
	}

	// A share of the traces: each accept has all its attempts or none.
	c := newCollector(t)
	tracer, _ := mustOpen(t, c, "OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0.5")
	kept := 0
	for range 200 {
		request := tracer.Begin(hook.Trace{}, at, route, 1)
		own, keep := request.Trace()
		request.End(trace.Answer{Status: 202})
		if keep {
			kept++
			tracer.Attempted(own, attempt(), at)
		}
	}
	tracer.Close()
	if got := len(c.got()); got != 2*kept || kept < 50 || kept > 150 {
		t.Errorf("%d spans of %d sampled accepts", got, kept)
	}
}

// TestSlowCollectorHoldsUpNobody: spans beyond the bound are dropped and counted
// while the collector does not answer, and a stop does not wait for it.
func TestSlowCollectorHoldsUpNobody(t *testing.T) {
	c := newCollector(t)
	release := make(chan struct{})
	defer close(release)
	c.answer = func(http.ResponseWriter, int) { <-release }
	tracer, l := mustOpen(t, c, "OTEL_BSP_MAX_QUEUE_SIZE", "10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5")
	for range 100 { // would never end if one waited
		tracer.Attempted(hook.Trace{Parent: publisher}, attempt(), at)
	}
	eventually(t, "all but ten are dropped", func() bool { return tracer.Counts() == trace.Counts{Dropped: 90} })
	began := time.Now()
	tracer.CloseWithin(50 * time.Millisecond)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if got := tracer.Counts(); got != (trace.Counts{Dropped: 100}) || !strings.Contains(l.String(), "did not take the last spans in time") {
		t.Errorf("counts after the stop: %+v\n%s", got, l)
	}
}

func TestCollectorIsTriedAgain(t *testing.T) {
	reject := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	reject = protowire.AppendString(protowire.AppendTag(reject, 2, protowire.BytesType), "too old")
	reject = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), reject)
	for name, tc := range map[string]struct {
		answer   func(w http.ResponseWriter, n int)
		requests int
		want     trace.Counts
		told     string
	}{
		"passing": {func(w http.ResponseWriter, n int) {
			if n < 2 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, 2, trace.Counts{Sent: 2}, ""},
		"final": {func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusUnauthorized) }, 1, trace.Counts{Failed: 2}, "401"},
		"moved": {func(w http.ResponseWriter, _ int) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, 1, trace.Counts{Failed: 2}, "307"},
		"in part": {func(w http.ResponseWriter, _ int) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(reject)
		}, 1, trace.Counts{Sent: 1, Failed: 1}, "too old"},
		"garbage": {func(w http.ResponseWriter, _ int) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write([]byte{0xff, 0xff, 0xff})
		}, 1, trace.Counts{Sent: 2}, ""},
	} {
		c := newCollector(t)
		c.answer = tc.answer
		tracer, l := mustOpen(t, c, "OTEL_BSP_SCHEDULE_DELAY", "60000", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
		tracer.Attempted(hook.Trace{Parent: publisher}, attempt(), at)
		tracer.Attempted(hook.Trace{Parent: publisher}, attempt(), at)
		eventually(t, name, func() bool { n := tracer.Counts(); return n.Sent+n.Failed == 2 })
		tracer.Close()
		if got := tracer.Counts(); got != tc.want || len(c.requests) != tc.requests {
			t.Errorf("%s: %+v after %d requests", name, got, len(c.requests))
		}
		if told := strings.Contains(l.String(), "traces are incomplete"); told != (tc.told != "") || !strings.Contains(l.String(), tc.told) {
			t.Errorf("%s: logged %s", name, l)
		}
	}
}

// TestStopDoesNotTryAgain: when the server stops, a collector that is down has one
// more chance, not a minute.
func TestStopDoesNotTryAgain(t *testing.T) {
	c := newCollector(t)
	c.answer = func(w http.ResponseWriter, _ int) {
		w.Header().Set("Retry-After", "3000")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	tracer, _ := mustOpen(t, c, "OTEL_BSP_EXPORT_TIMEOUT", "3600000")
	tracer.Attempted(hook.Trace{Parent: publisher}, attempt(), at)
	eventually(t, "first try", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.requests) == 1 })
	tracer.CloseWithin(time.Minute)
	if got := tracer.Counts(); got != (trace.Counts{Failed: 1}) || len(c.requests) != 2 {
		t.Errorf("%+v after %d requests", got, len(c.requests))
	}
}

// TestKeysInTheAddressAreNotLogged: some collectors want their key in the query.
func TestKeysInTheAddressAreNotLogged(t *testing.T) {
	setEnv(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://me:hidden1@127.0.0.1:1/v1/traces?key=hidden2",
		"OTEL_BSP_SCHEDULE_DELAY", "10", "OTEL_BSP_EXPORT_TIMEOUT", "100")
	tracer, l := open(t)
	tracer.Attempted(hook.Trace{Parent: publisher}, attempt(), at)
	eventually(t, "a span that failed", func() bool { return tracer.Counts().Failed == 1 })
	tracer.Close()
	if text := l.String(); strings.Contains(text, "hidden") || !strings.Contains(text, "127.0.0.1:1") || !strings.Contains(text, "traces are incomplete") {
		t.Errorf("logged %s", text)
	}
}

func TestOffUnlessAskedFor(t *testing.T) {
	c := newCollector(t)
	for name, env := range map[string][]string{
		"nothing":      nil,
		"name only":    {"OTEL_SERVICE_NAME", "x", "OTEL_TRACES_SAMPLER", "always_on"},
		"disabled":     {"OTEL_SDK_DISABLED", "TRUE", "OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT", c.URL},
		"none":         {"OTEL_TRACES_EXPORTER", "none", "OTEL_EXPORTER_OTLP_ENDPOINT", c.URL},
		"empty":        {"OTEL_TRACES_EXPORTER", "", "OTEL_EXPORTER_OTLP_ENDPOINT", " "},
		"only metrics": {"OTEL_METRICS_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", c.URL},
	} {
		setEnv(t, env...)
		if tracer, l := open(t); tracer != nil || l.String() != "" {
			t.Errorf("%s: tracer %v, logged %s", name, tracer, l)
		}
	}
	for name, env := range map[string][]string{
		"by name":     {"OTEL_TRACES_EXPORTER", "otlp"},
		"by endpoint": {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.URL},
	} {
		setEnv(t, env...)
		tracer, l := open(t)
		if tracer == nil {
			t.Fatalf("%s: no tracer; %s", name, l)
		}
		tracer.Close()
	}
	if len(c.requests) != 0 {
		t.Errorf("%d requests without a span", len(c.requests))
	}
}

// TestWrongSettingsAreNamed: a warning names the variable and the rule, never a
// header's value, and the server runs, with traces if they can be sent.
func TestWrongSettingsAreNamed(t *testing.T) {
	c := newCollector(t)
	for variable, tc := range map[string]struct {
		value, rule string
		on          bool
	}{
		"OTEL_SDK_DISABLED":                     {"yes", "must be true or false", true},
		"OTEL_TRACES_EXPORTER":                  {"zipkin", "knows otlp and none", false},
		"OTEL_EXPORTER_OTLP_PROTOCOL":           {"grpc", "knows http/protobuf only", false},
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL":    {"http/json", "knows http/protobuf only", false},
		"OTEL_EXPORTER_OTLP_ENDPOINT":           {"collector:4317", "must be a URL", false},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT":    {"ftp://user:hunter2@x", "must be a URL", false},
		"OTEL_EXPORTER_OTLP_HEADERS":            {"good=1,hunter2", "must be name=value", true},
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS":     {"a=hunter2%zz", "must be name=value", true},
		"OTEL_EXPORTER_OTLP_TIMEOUT":            {"10s", "must be a whole number", true},
		"OTEL_EXPORTER_OTLP_COMPRESSION":        {"zstd", "must be gzip or none", true},
		"OTEL_EXPORTER_OTLP_CERTIFICATE":        {"/nowhere.pem", "no such file", false},
		"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": {"trace_test.go", "holds no certificate", false},
		"OTEL_EXPORTER_OTLP_CLIENT_KEY":         {"/nowhere.pem", "goes with", false},
		"OTEL_TRACES_SAMPLER":                   {"jaeger_remote", "knows always_on", true},
		"OTEL_BSP_MAX_QUEUE_SIZE":               {"-1", "between 1 and 1048576", true},
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE":        {"5000", "between 1 and 2048", true},
		"OTEL_BSP_SCHEDULE_DELAY":               {"0", "between 1 and", true},
		"OTEL_BSP_EXPORT_TIMEOUT":               {"x", "between 1 and", true},
		"OTEL_PROPAGATORS":                      {"b3", "knows tracecontext only", true},
		"OTEL_RESOURCE_ATTRIBUTES":              {"x", "missing value", true},
	} {
		setEnv(t, append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT", c.URL}, variable, tc.value)...)
		tracer, l := open(t)
		if (tracer != nil) != tc.on || !strings.Contains(l.String(), "OTEL_") || !strings.Contains(l.String(), tc.rule) || strings.Contains(l.String(), "hunter2") {
			t.Errorf("%s=%s: tracer %t, logged %s", variable, tc.value, tracer != nil, l)
		}
		if variable != "OTEL_EXPORTER_OTLP_CLIENT_KEY" && !strings.Contains(l.String(), variable) {
			t.Errorf("%s is not named: %s", variable, l)
		}
		if tracer != nil {
			tracer.Close()
		}
	}
	setEnv(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.URL, "OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "NaN")
	tracer, l := open(t)
	if tracer == nil || !strings.Contains(l.String(), "OTEL_TRACES_SAMPLER_ARG") {
		t.Errorf("ratio: %s", l)
	}
	tracer.Close()
}
