package metric_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/metric"
)

// scrape returns the lines that a reader gets, comments left out.
func scrape(t *testing.T, m *metric.Metrics) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Fatalf("status %d, %v: %s", w.Code, w.Header(), w.Body)
	}
	var out []string
	for line := range strings.Lines(w.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out
}

func TestNamesAndLabels(t *testing.T) {
	t.Parallel()
	m := metric.New(func() hook.LaneFigures {
		return hook.LaneFigures{Storms: 2, Warnings: 3, Open: 4, Closed: 50, MaxRatio: 9.5, EventsDropped: 7}
	})
	m.Attempted(hook.First, hook.Success, hook.OK)
	m.Attempted(hook.Retry, hook.Down, hook.ConnectRefused)
	m.Attempted(hook.Retry, hook.Down, hook.ConnectRefused)
	m.Settled(hook.Delivered, 1)
	m.Settled(hook.Delivered, 2)
	m.Settled(hook.Dead, 17)
	m.Settled(hook.Dead, 0)
	m.BreakerOpened()
	m.BreakerOpened()
	m.BreakerClosed()
	got := scrape(t, m)
	for _, want := range []string{
		`breakwater_attempts_total{class="success",kind="first",reason="ok"} 1`,
		`breakwater_attempts_total{class="down",kind="retry",reason="connect_refused"} 2`,
		`breakwater_deliveries_settled_total{attempts="1",state="delivered"} 1`,
		`breakwater_deliveries_settled_total{attempts="2",state="delivered"} 1`,
		`breakwater_deliveries_settled_total{attempts="3+",state="delivered"} 0`,
		`breakwater_deliveries_settled_total{attempts="3+",state="dead"} 1`,
		`breakwater_deliveries_settled_total{attempts="0",state="dead"} 1`,
		`breakwater_breaker_transitions_total{to="open"} 2`,
		`breakwater_breaker_transitions_total{to="closed"} 1`,
		`breakwater_breakers{state="open"} 4`,
		`breakwater_breakers{state="closed"} 50`,
		`breakwater_storms_active 2`,
		`breakwater_retry_queue_warnings 3`,
		`breakwater_retry_ratio_max 9.5`,
		`breakwater_operational_events_dropped_total 7`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no line %s", want)
		}
	}
	for _, prefix := range []string{"go_goroutines ", "process_start_time_seconds "} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, prefix) }) {
			t.Errorf("no %s", prefix)
		}
	}
}

// TestEveryMemberHasASeries guards the sizes of the tables: a member of a list
// that grew would silently not be counted.
func TestEveryMemberHasASeries(t *testing.T) {
	t.Parallel()
	m := metric.New(func() hook.LaneFigures { return hook.LaneFigures{} })
	want := 0
	for kind := hook.First; kind <= hook.Manual; kind++ {
		for _, class := range hook.Classes() {
			for _, reason := range hook.Reasons() {
				m.Attempted(kind, class, reason)
				want++
			}
		}
	}
	seen := 0
	for _, line := range scrape(t, m) {
		if strings.HasPrefix(line, "breakwater_attempts_total{") {
			seen++
			if !strings.HasSuffix(line, " 1") || strings.Contains(line, "(") {
				t.Errorf("series %s", line)
			}
		}
	}
	if seen != want {
		t.Errorf("%d series, want %d", seen, want)
	}
}

func BenchmarkAttempted(b *testing.B) {
	m := metric.New(func() hook.LaneFigures { return hook.LaneFigures{} })
	b.ReportAllocs()
	for b.Loop() {
		m.Attempted(hook.Retry, hook.Down, hook.ConnectRefused)
	}
}

func TestSpansAreCounted(t *testing.T) {
	t.Parallel()
	m := metric.New(func() hook.LaneFigures { return hook.LaneFigures{} })
	m.WatchTraces(func() metric.Traces { return metric.Traces{Sent: 5, Dropped: 3, Failed: 2} })
	got := scrape(t, m)
	for _, want := range []string{
		`breakwater_trace_spans_total{outcome="sent"} 5`,
		`breakwater_trace_spans_total{outcome="dropped"} 3`,
		`breakwater_trace_spans_total{outcome="failed"} 2`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, strings.Join(got, "\n"))
		}
	}
}
