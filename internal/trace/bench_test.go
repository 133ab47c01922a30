package trace_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/trace"
)

// BenchmarkSpans measures what the hot paths pay while traces are on; what is
// dropped costs the same there.
func BenchmarkSpans(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer collector.Close()
	b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	tracer := trace.Open(trace.Config{Version: "1", Node: "n", Log: slog.New(slog.DiscardHandler)})
	defer tracer.Close()
	for name, parent := range map[string]string{"sampled": publisher, "unsampled": unsampled} {
		b.Run("accept/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := tracer.Begin(hook.Trace{Parent: parent}, at, route, 1)
				_, _ = r.Trace()
				r.End(trace.Answer{Status: 202, Type: "order.paid", Receipt: hook.Receipt{EventID: 2, Deliveries: 1}})
			}
		})
		b.Run("attempt/"+name, func(b *testing.B) {
			a := attempt()
			b.ReportAllocs()
			for b.Loop() {
				tracer.Attempted(hook.Trace{Parent: parent}, a, at)
			}
		})
	}
}
