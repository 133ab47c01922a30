package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/config"
	"github.com/breakwaterhq/breakwater/internal/lab/promtest"
)

// server is a whole server in this process.
type server struct {
	t        *testing.T
	url, key string
}

// startServer runs a server on a loopback port until the test ends.
func startServer(t *testing.T, settings ...string) *server {
	t.Helper()
	cfg, err := config.Load(config.Input{Version: "test", Environ: append([]string{
		"BREAKWATER_DATA_DIR=" + t.TempDir(), "BREAKWATER_LISTEN=127.0.0.1:0", "BREAKWATER_DEV=true",
	}, settings...)})
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan app.Started, 1)
	cfg.Options.Announce = func(s app.Started) { started <- s }
	a, err := app.New(cfg.Options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	select {
	case s := <-started:
		return &server{t, s.URL, s.AdminKey}
	case err := <-done:
		done <- err
		t.Fatalf("the server ended: %v", err)
		return nil
	}
}

// do sends a request and returns status and body; an empty key sends none.
func (s *server) do(method, url, key, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// api sends a request that must succeed.
func (s *server) api(method, path, body string) string {
	s.t.Helper()
	status, text := s.do(method, s.url+path, s.key, body)
	if status >= 300 {
		s.t.Fatalf("%s %s = %d %s", method, path, status, text)
	}
	return text
}

// eventually waits until ok.
func (s *server) eventually(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if ok() {
			return
		}
	}
	s.t.Fatalf("never: %s", what)
}

// closedPort returns an address that nobody listens on. It is not the one where
// other tests listen and connect, so that none of them gets the port meanwhile.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestWhatHappensIsSeen lets a destination be down: its attempts are counted,
// and the opening of its breaker is recorded.
func TestWhatHappensIsSeen(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.api(http.MethodPost, "/v1/tenants/default/endpoints", `{"uid":"down","url":"http://`+closedPort(t)+`/"}`)
	for range 8 {
		s.api(http.MethodPost, "/v1/tenants/default/events", `{"type":"a","payload":1}`)
	}
	var list struct {
		Data []struct{ Type, Tenant, Endpoint string }
	}
	s.eventually("the breaker's opening is recorded", func() bool {
		if err := json.Unmarshal([]byte(s.api(http.MethodGet, "/v1/operational-events?type=breaker.*", "")), &list); err != nil {
			t.Fatal(err)
		}
		return len(list.Data) > 0
	})
	if e := list.Data[0]; e.Type != "breaker.opened" || e.Tenant == "" || e.Endpoint == "" {
		t.Errorf("event %+v", e)
	}
	status, metrics := s.do(http.MethodGet, s.url+"/metrics", "", "") // a loopback listener
	for _, want := range []string{
		`breakwater_attempts_total{class="down",kind="first",reason="connect_refused"}`,
		`breakwater_breaker_transitions_total{to="open"} 1`, "breakwater_storms_active 0", "go_goroutines ",
	} {
		if status != 200 || !strings.Contains(metrics, want) {
			t.Errorf("/metrics = %d, no %s", status, want)
		}
	}
	lane := s.api(http.MethodGet, "/v1/tenants/default/endpoints/down/lane", "")
	if !strings.Contains(lane, `"storm":{"active":false`) || !strings.Contains(lane, `"retry_queue":{"depth":`) {
		t.Errorf("lane %s", lane)
	}
}

// TestMetricsOnTheirOwnAddress moves the metrics away from the main listener.
func TestMetricsOnTheirOwnAddress(t *testing.T) {
	t.Parallel()
	const token = "a-token-for-scraping"
	own := closedPort(t)
	s := startServer(t, "BREAKWATER_METRICS_LISTEN="+own, "BREAKWATER_METRICS_TOKEN="+token)
	for _, key := range []string{"", s.key, token} {
		if status, body := s.do(http.MethodGet, s.url+"/metrics", key, ""); status != 404 {
			t.Errorf("main listener with %q = %d %s", key, status, body)
		}
	}
	s.eventually("metrics are served", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", own)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	for key, want := range map[string]int{"": 401, s.key: 401, token: 200} {
		if status, _ := s.do(http.MethodGet, "http://"+own+"/metrics", key, ""); status != want {
			t.Errorf("own listener with %q = %d, want %d", key, status, want)
		}
	}
	if status, _ := s.do(http.MethodGet, "http://"+own+"/v1/me", s.key, ""); status != 404 {
		t.Errorf("the API on the metrics listener = %d", status)
	}
}

// TestMetricsOfARunningServer: what happens to events is counted, what waits is
// seen by what it waits for, and the worst endpoints are named when asked for.
func TestMetricsOfARunningServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, "BREAKWATER_METRICS_WORST_ENDPOINTS=5", "BREAKWATER_INGEST_MAX_PAYLOAD=1 KiB")
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(up.Close)
	for uid, url := range map[string]string{"up": up.URL, "down": "http://" + closedPort(t) + "/"} {
		s.api(http.MethodPost, "/v1/tenants/default/endpoints", `{"uid":"`+uid+`","url":"`+url+`","types":["`+uid+`"]}`)
	}
	for range 6 {
		s.api(http.MethodPost, "/v1/tenants/default/events", `{"type":"up","payload":1}`)
		s.api(http.MethodPost, "/v1/tenants/default/events", `{"type":"down","payload":1}`)
	}
	s.api(http.MethodPost, "/v1/tenants/default/events", `{"type":"up","payload":1,"delay":"1h"}`)
	large := `{"type":"up","payload":"` + strings.Repeat("x", 2000) + `"}`
	if status, body := s.do(http.MethodPost, s.url+"/v1/tenants/default/events", s.key, large); status != 413 {
		t.Fatalf("a large event = %d %s", status, body)
	}
	for _, want := range []string{
		"\nbreakwater_events_accepted_total 13\n",
		`breakwater_deliveries_settled_total{attempts="1",state="delivered"} 6`,
		"\nbreakwater_delivery_latency_seconds_count 6\n",
		`breakwater_attempt_duration_seconds_count{class="success"} 6`,
		`breakwater_queue_depth{state="held"} 6`,
		`breakwater_queue_depth{state="delayed"} 1`,
		`breakwater_queue_depth{state="ready"} 0`,
		"\nbreakwater_pending_deliveries 7\n",
		"\nbreakwater_shards_owned 256\n",
		`breakwater_dead_letters{reason="exhausted"} 0`,
		`breakwater_endpoint_breaker_open{endpoint="ep_`,
		`breakwater_alerts_open{alert="breaker_open",severity="warning"} 1`,
		`breakwater_store_connections{state="idle"} `,
		"\nbreakwater_disk_free_bytes ",
		`breakwater_build_info{go="go1.`,
	} {
		s.eventually("/metrics has "+want, func() bool {
			status, metrics := s.do(http.MethodGet, s.url+"/metrics", "", "")
			return status == 200 && strings.Contains(metrics, want)
		})
	}
	_, metrics := s.do(http.MethodGet, s.url+"/metrics", "", "")
	if strings.Contains(metrics, "breakwater_lease_age_seconds") {
		t.Error("SQLite has no leases, but their age is shown")
	}
	if strings.Contains(metrics, "breakwater_store_commit_rows_sum 0\n") || strings.Contains(metrics, "breakwater_store_commit_duration_seconds_count 0\n") {
		t.Error("no commit was timed")
	}
	if err := promtest.Find(t).CheckMetrics([]byte(metrics)); err != nil {
		t.Error(err)
	}
}
