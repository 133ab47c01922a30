package metric_test

import (
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/metric"
)

// read returns what a reader gets.
func read(t testing.TB, m *metric.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Fatalf("status %d, %v: %s", w.Code, w.Header(), w.Body)
	}
	return w.Body.String()
}

// scrape returns the lines of the answer, comments left out.
func scrape(t testing.TB, m *metric.Metrics) (out []string) {
	t.Helper()
	for line := range strings.Lines(read(t, m)) {
		if !strings.HasPrefix(line, "#") {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out
}

// sources tell of everything there is.
func sources() metric.Sources {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	return metric.Sources{
		Version: "1.2.3",
		Lanes: func() hook.LaneFigures {
			return hook.LaneFigures{
				Storms: 2, Warnings: 3, Open: 4, Closed: 50, MaxRatio: 9.5, EventsDropped: 7,
				Worst: []hook.WorstLane{{Open: true, LaneWatch: hook.LaneWatch{
					EndpointID: 5, TenantID: 6, Storm: hook.Storm{First: 10, Retries: 25}, Queue: hook.RetryQueue{Depth: 70},
				}}},
			}
		},
		Queues: func() hook.QueueFigures {
			return hook.QueueFigures{
				At: time.Now(), Ready: 1, Delayed: 2, Retrying: 3, Held: 4, ReadySince: ago(time.Hour), Lanes: 8, Holds: 9,
				Fleet: &hook.FleetFigures{Pending: 10, PendingBytes: 11, StoredBytes: 12, Dead: map[hook.EndReason]int64{hook.DeadGone: 13}},
			}
		},
		Node: func() metric.Node {
			return metric.Node{
				InFlight: 14, InFlightLimit: 1024, Shards: 256, LeaseAge: 1500 * time.Millisecond, WaitingRows: 15, WaitingRowsLimit: 16,
				WaitingBytes: 17, WaitingResults: 18, OldestResult: 2 * time.Second, ConnsInUse: 19, ConnsIdle: 20, ConnsMax: 21, ConnWaits: 22, DamagedFigures: 33,
			}
		},
		Embedded: func() metric.Embedded {
			return metric.Embedded{DamagedReads: 23, LogBytes: 24, LogWritten: 25, LogLimit: 26, DiskFree: 27, DiskReserve: 28}
		},
		Alerts: func() []metric.AlertCount {
			return []metric.AlertCount{{"breaker_open", hook.SeverityWarning, 29}, {"hold_expiring", hook.SeverityPage, 1}}
		},
		Traces: func() metric.Traces { return metric.Traces{Sent: 30, Dropped: 31, Failed: 32} },
	}
}

func TestNamesAndLabels(t *testing.T) {
	t.Parallel()
	m := metric.New(sources())
	m.Attempted(hook.First, hook.Success, hook.OK, 30*time.Millisecond)
	m.Attempted(hook.Retry, hook.Down, hook.ConnectRefused, time.Second)
	m.Attempted(hook.Retry, hook.Down, hook.ConnectRefused, 10*time.Minute)
	m.Delivered(1, 20*time.Millisecond)
	m.Delivered(2, 300*time.Second)
	m.Delivered(2, -time.Second) // the clock was set back
	m.Dead(hook.DeadExhausted, 17)
	m.Dead(hook.DeadExpired, 0)
	m.Cancelled(1)
	m.Accepted(3)
	m.Refused(metric.RefusedStoreFull)
	m.Replayed(metric.ReplaySkipped, 4)
	m.BreakerOpened()
	m.BreakerOpened()
	m.BreakerClosed()
	m.Committed(12, 2*time.Millisecond)
	got := scrape(t, m)
	for _, want := range []string{
		`breakwater_attempts_total{class="success",kind="first",reason="ok"} 1`,
		`breakwater_trace_spans_total{outcome="sent"} 30`,
		`breakwater_trace_spans_total{outcome="dropped"} 31`,
		`breakwater_trace_spans_total{outcome="failed"} 32`,
		`breakwater_attempts_total{class="down",kind="retry",reason="connect_refused"} 2`,
		`breakwater_attempts_total{class="local",kind="first",reason="local_error"} 0`,
		`breakwater_attempt_duration_seconds_bucket{class="success",le="0.025"} 0`,
		`breakwater_attempt_duration_seconds_bucket{class="success",le="0.05"} 1`,
		`breakwater_attempt_duration_seconds_bucket{class="down",le="1"} 1`,
		`breakwater_attempt_duration_seconds_bucket{class="down",le="120"} 1`,
		`breakwater_attempt_duration_seconds_bucket{class="down",le="+Inf"} 2`,
		`breakwater_attempt_duration_seconds_sum{class="down"} 601`,
		`breakwater_deliveries_settled_total{attempts="1",state="delivered"} 1`,
		`breakwater_deliveries_settled_total{attempts="2",state="delivered"} 2`,
		`breakwater_deliveries_settled_total{attempts="3+",state="delivered"} 0`,
		`breakwater_deliveries_settled_total{attempts="3+",state="dead"} 1`,
		`breakwater_deliveries_settled_total{attempts="0",state="dead"} 1`,
		`breakwater_deliveries_settled_total{attempts="1",state="cancelled"} 1`,
		`breakwater_delivery_latency_seconds_bucket{le="120"} 2`,
		`breakwater_delivery_latency_seconds_bucket{le="300"} 3`,
		`breakwater_delivery_latency_seconds_count 3`,
		`breakwater_dead_letters_total{reason="exhausted"} 1`,
		`breakwater_dead_letters_total{reason="permanent"} 0`,
		`breakwater_dead_letters{reason="gone"} 13`,
		`breakwater_dead_letters{reason="expired"} 0`,
		`breakwater_breaker_transitions_total{to="open"} 2`,
		`breakwater_breaker_transitions_total{to="closed"} 1`,
		`breakwater_breakers{state="open"} 4`,
		`breakwater_breakers{state="closed"} 50`,
		`breakwater_storms_active 2`,
		`breakwater_retry_queue_warnings 3`,
		`breakwater_retry_ratio_max 9.5`,
		`breakwater_retry_after_holds 9`,
		`breakwater_endpoint_retry_ratio{endpoint="` + hook.EndpointPrefix.Format(5) + `",tenant="` + hook.TenantPrefix.Format(6) + `"} 2.5`,
		`breakwater_endpoint_retry_queue{endpoint="` + hook.EndpointPrefix.Format(5) + `",tenant="` + hook.TenantPrefix.Format(6) + `"} 70`,
		`breakwater_endpoint_breaker_open{endpoint="` + hook.EndpointPrefix.Format(5) + `",tenant="` + hook.TenantPrefix.Format(6) + `"} 1`,
		`breakwater_queue_depth{state="ready"} 1`,
		`breakwater_queue_depth{state="delayed"} 2`,
		`breakwater_queue_depth{state="retrying"} 3`,
		`breakwater_queue_depth{state="held"} 4`,
		`breakwater_queue_depth{state="inflight"} 14`,
		`breakwater_queue_oldest_age_seconds{state="held"} 0`,
		`breakwater_lanes 8`,
		`breakwater_in_flight_limit 1024`,
		`breakwater_pending_deliveries 10`,
		`breakwater_pending_bytes 11`,
		`breakwater_stored_bytes 12`,
		`breakwater_replay_events_total{result="skipped"} 4`,
		`breakwater_replay_events_total{result="delivered"} 0`,
		`breakwater_events_accepted_total 3`,
		`breakwater_events_refused_total{reason="store_full"} 1`,
		`breakwater_events_refused_total{reason="invalid"} 0`,
		`breakwater_store_commit_duration_seconds_bucket{le="0.001"} 0`,
		`breakwater_store_commit_duration_seconds_bucket{le="0.0025"} 1`,
		`breakwater_store_commit_rows_bucket{le="8"} 0`,
		`breakwater_store_commit_rows_bucket{le="16"} 1`,
		`breakwater_store_commit_rows_sum 12`,
		`breakwater_writer_queue_rows 15`,
		`breakwater_writer_queue_limit_rows 16`,
		`breakwater_writer_queue_bytes 17`,
		`breakwater_writer_queue_results 18`,
		`breakwater_writer_oldest_result_age_seconds 2`,
		`breakwater_store_connections{state="in_use"} 19`,
		`breakwater_store_connections{state="idle"} 20`,
		`breakwater_store_connections_limit 21`,
		`breakwater_store_connection_waits_total 22`,
		`breakwater_store_damaged_reads_total 23`,
		`breakwater_stats_damaged_rows_total 33`,
		`breakwater_store_log_bytes 24`,
		`breakwater_store_log_written_bytes_total 25`,
		`breakwater_store_log_limit_bytes 26`,
		`breakwater_disk_free_bytes 27`,
		`breakwater_disk_reserve_bytes 28`,
		`breakwater_shards_owned 256`,
		`breakwater_lease_age_seconds 1.5`,
		`breakwater_operational_events_dropped_total 7`,
		`breakwater_alerts_open{alert="breaker_open",severity="warning"} 29`,
		`breakwater_alerts_open{alert="hold_expiring",severity="page"} 1`,
		`breakwater_alerts_open{alert="hold_expiring",severity="warning"} 0`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no line %s", want)
		}
	}
	for _, prefix := range []string{
		"go_goroutines ", "process_start_time_seconds ", `breakwater_build_info{go="go1.`, `breakwater_queue_oldest_age_seconds{state="ready"} 36`,
	} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, prefix) }) {
			t.Errorf("no %s", prefix)
		}
	}
}

var seriesName = regexp.MustCompile(`^([a-z_0-9]+)(?:\{(.*)\})? `)

// TestWhatIsServedIsInTheTable: every series belongs to a row of the table, has its
// labels and only values that the row lists, and every row has a series.
func TestWhatIsServedIsInTheTable(t *testing.T) {
	t.Parallel()
	m := metric.New(sources())
	m.Attempted(hook.First, hook.Success, hook.OK, time.Millisecond)
	served := map[string]bool{}
	for _, line := range scrape(t, m) {
		parts := seriesName.FindStringSubmatch(line)
		if parts == nil {
			t.Fatalf("line %q", line)
		}
		name := parts[1]
		if !strings.HasPrefix(name, "breakwater_") {
			continue
		}
		d := metric.Lookup(name)
		if d == nil {
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if d = metric.Lookup(base); d == nil || d.Type != metric.Histogram {
				t.Errorf("%s is not in the table", name)
				continue
			}
		}
		served[d.Name] = true
		checkLabels(t, d, parts[2])
	}
	for _, d := range metric.Table() {
		if !served[d.Name] {
			t.Errorf("%s has no series", d.Name)
		}
	}
}

func checkLabels(t *testing.T, d *metric.Desc, text string) {
	t.Helper()
	got := map[string]string{}
	for _, m := range regexp.MustCompile(`([a-z_]+)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		got[m[1]] = m[2]
	}
	if d.Type == metric.Histogram {
		delete(got, "le")
	}
	if len(got) != len(d.Labels) {
		t.Errorf("%s{%s}: the table has the labels %v", d.Name, text, d.LabelNames())
	}
	for _, l := range d.Labels {
		if v, ok := got[l.Name]; !ok || len(l.Values) > 0 && !slices.Contains(l.Values, v) {
			t.Errorf("%s{%s}: %s is not a value of %s", d.Name, text, v, l.Name)
		}
	}
}

// TestLabelsAreBounded: no metric can have more than some thousand series, and none
// has an id in its labels unless a setting asks for it.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	for _, d := range metric.Table() {
		series := 1
		for _, l := range d.Labels {
			if len(l.Values) == 0 && d.Only == "" && d.Name != "breakwater_build_info" {
				t.Errorf("%s: %s may have any value", d.Name, l.Name)
			}
			series *= max(len(l.Values), 1)
		}
		if series > 1000 {
			t.Errorf("%s may have %d series", d.Name, series)
		}
		if d.Help == "" || d.Over == 0 || d.Type == 0 || !strings.HasSuffix(d.Help, ".") {
			t.Errorf("%s is not described in full", d.Name)
		}
		if (d.Type == metric.Counter) != strings.HasSuffix(d.Name, "_total") || d.Unit != "" && !strings.Contains(d.Name, string(d.Unit)) {
			t.Errorf("%s: the name does not fit type %v and unit %q", d.Name, d.Type, d.Unit)
		}
		if (d.Type == metric.Histogram) != (len(d.Buckets) > 0) || !slices.IsSorted(d.Buckets) {
			t.Errorf("%s: bounds %v", d.Name, d.Buckets)
		}
	}
}

// TestWhatNobodyKnowsIsLeftOut: a value that was not measured is not shown as 0.
func TestWhatNobodyKnowsIsLeftOut(t *testing.T) {
	t.Parallel()
	got := strings.Join(scrape(t, metric.New(metric.Sources{})), "\n")
	for _, name := range []string{
		`queue_depth{state="ready"}`, "queue_oldest_age_seconds", "pending_deliveries", "dead_letters{", "lease_age_seconds", "disk_free_bytes",
		"store_log_bytes", "endpoint_retry_ratio", "retry_after_holds",
	} {
		if strings.Contains(got, "breakwater_"+name) {
			t.Errorf("%s is shown", name)
		}
	}
	// Alerts are none until somebody judges them.
	for _, r := range alert.Rules() {
		if !strings.Contains(got, `breakwater_alerts_open{alert="`+r.Name+`",severity="`+r.Severities()[0].String()+`"} 0`) {
			t.Errorf("open alerts of %s are not 0", r.Name)
		}
	}
}

// TestEveryMemberHasASeries guards the sizes of the tables: a member of a list
// that grew would silently not be counted.
func TestEveryMemberHasASeries(t *testing.T) {
	t.Parallel()
	m := metric.New(metric.Sources{})
	want := 0
	for kind := hook.First; kind <= hook.Manual; kind++ {
		for _, class := range hook.Classes() {
			for _, reason := range hook.Reasons() {
				m.Attempted(kind, class, reason, time.Millisecond)
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
		if strings.Contains(line, `"attempts(`) || strings.Contains(line, `="reason(`) {
			t.Errorf("series %s", line)
		}
	}
	if seen != want {
		t.Errorf("%d series, want %d", seen, want)
	}
}

// TestQueriesOfRulesNameWhatIsServed: whatever the rules ask Prometheus for is in
// the table, with the labels that they use.
func TestQueriesOfRulesNameWhatIsServed(t *testing.T) {
	t.Parallel()
	selector := regexp.MustCompile(`(breakwater_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher := regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`)
	for _, r := range alert.Rules() {
		for _, s := range selector.FindAllStringSubmatch(r.Query(alert.Thresholds{}), -1) {
			d := metric.Lookup(s[1])
			if d == nil {
				d = metric.Lookup(regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(s[1], ""))
			}
			if d == nil {
				t.Errorf("%s asks for %s", r.Name, s[1])
				continue
			}
			for _, l := range matcher.FindAllStringSubmatch(s[2], -1) {
				i := slices.IndexFunc(d.Labels, func(have metric.Label) bool { return have.Name == l[1] })
				if i < 0 {
					t.Errorf("%s asks for the label %s of %s", r.Name, l[1], d.Name)
					continue
				}
				for v := range strings.SplitSeq(l[3], "|") {
					if !slices.Contains(d.Labels[i].Values, v) {
						t.Errorf("%s asks for %s=%q of %s", r.Name, l[1], v, d.Name)
					}
				}
			}
		}
	}
}

// TestCountingAllocatesNothing: the hot paths pay some nanoseconds.
func TestCountingAllocatesNothing(t *testing.T) {
	m := metric.New(metric.Sources{})
	n := testing.AllocsPerRun(100, func() {
		m.Attempted(hook.Retry, hook.Down, hook.ConnectRefused, 30*time.Millisecond)
		m.Delivered(1, 30*time.Millisecond)
		m.Dead(hook.DeadExhausted, 8)
		m.Accepted(16)
		m.Refused(metric.RefusedRate)
		m.Committed(16, 4*time.Millisecond)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAttempted(b *testing.B) {
	m := metric.New(metric.Sources{})
	b.ReportAllocs()
	for b.Loop() {
		m.Attempted(hook.Retry, hook.Down, hook.ConnectRefused, 30*time.Millisecond)
	}
}

func BenchmarkDelivered(b *testing.B) {
	m := metric.New(metric.Sources{})
	b.ReportAllocs()
	for b.Loop() {
		m.Delivered(1, 30*time.Millisecond)
	}
}

func BenchmarkScrape(b *testing.B) {
	m := metric.New(sources())
	b.ReportAllocs()
	for b.Loop() {
		read(b, m)
	}
}
