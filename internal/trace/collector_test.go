package trace_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/breakwaterhq/breakwater/internal/trace"
)

// collector is an OTLP/HTTP receiver.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	answer   func(w http.ResponseWriter, n int) // n-th request, from 1; nil: 200
	requests []*http.Request
	spans    []*tracepb.Span
	resource map[string]string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{resource: map[string]string{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, _ = io.ReadAll(z)
		}
	}
	var data tracepb.TracesData
	if err := proto.Unmarshal(body, &data); err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.requests = append(c.requests, r)
	n, answer := len(c.requests), c.answer
	c.mu.Unlock()
	if answer != nil {
		answer(w, n)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range data.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			c.resource[a.Key] = a.Value.GetStringValue()
		}
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

func (c *collector) got() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans
}

// setEnv makes the process have these OTEL_ variables and no others.
func setEnv(t *testing.T, pairs ...string) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, value) // puts it back at the end
			_ = os.Unsetenv(name)
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		t.Setenv(pairs[i], pairs[i+1])
	}
}

// open opens a tracer by the variables. It returns what was logged, too.
func open(t *testing.T) (*trace.Tracer, *logged) {
	t.Helper()
	l := &logged{}
	return trace.Open(trace.Config{Version: "1.2.3", Node: "n1", Log: slog.New(slog.NewTextHandler(l, nil))}), l
}

// mustOpen opens a tracer that sends to c without waiting for long.
func mustOpen(t *testing.T, c *collector, pairs ...string) (*trace.Tracer, *logged) {
	t.Helper()
	setEnv(t, append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT", c.URL, "OTEL_BSP_SCHEDULE_DELAY", "10"}, pairs...)...)
	tracer, l := open(t)
	if tracer == nil {
		t.Fatalf("there is no tracer: %s", l)
	}
	return tracer, l
}

type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// attributes of a span, as text.
func attributes(s *tracepb.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes {
		out[a.Key] = text(a.Value)
	}
	return out
}

func text(v *commonpb.AnyValue) string {
	if s, ok := v.Value.(*commonpb.AnyValue_StringValue); ok {
		return s.StringValue
	}
	_, number, _ := strings.Cut(v.String(), ":")
	return number
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
