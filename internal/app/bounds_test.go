package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// tenantKey makes a key of the default tenant.
func (s *server) tenantKey(scope string) string {
	s.t.Helper()
	var made struct{ Key string }
	text := s.api(http.MethodPost, "/v1/keys", `{"name":"k","scope":"`+scope+`","tenant":"default"}`)
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.Key == "" {
		s.t.Fatalf("key: %v in %s", err, text)
	}
	return made.Key
}

// refused sends a request that must be refused with a status and these words.
func (s *server) refused(status int, words, method, path, key, body string) {
	s.t.Helper()
	got, text := s.do(method, s.url+path, key, body)
	if got != status || !strings.Contains(text, words) {
		s.t.Errorf("%s %s = %d %.300s, want %d with %q", method, path, got, text, status, words)
	}
}

// TestBoundsOfTenantsHold runs a server with small bounds: each is met by a request
// that is one too many. The bounds themselves are tested where they are kept.
func TestBoundsOfTenantsHold(t *testing.T) {
	t.Parallel()
	s := startServer(t, "BREAKWATER_INGEST_TENANT_MAX_ENDPOINTS=2", "BREAKWATER_INGEST_TENANT_MAX_STORED=1 MiB",
		"BREAKWATER_INGEST_MAX_REQUEST_DELIVERIES=1000", "BREAKWATER_API_KEY_WRITE_RATE=0.02")
	write := s.tenantKey("tenant:write")
	const endpoints, events = "/v1/tenants/default/endpoints", "/v1/tenants/default/events"
	const body = `{"url":"http://127.0.0.1:9009/"}`

	// What a tenant may write into a policy, with the bounds that nobody has set.
	for policy, words := range map[string]string{
		`{"retry":{"min_delay":"10ms"}}`:        "policy.retry.min_delay",
		`{"retry":{"backoff":{"base":"10ms"}}}`: "policy.retry.backoff.base",
		`{"retry":{"max_attempts":50}}`:         "at most 30",
		`{"timeout":{"total":"2m"}}`:            "at most 1m",
		`{"breaker":{"enabled":false}}`:         "policy.breaker.enabled",
		`{"breaker":{"probe":{"min":"100ms"}}}`: "policy.breaker.probe.min",
	} {
		s.refused(422, words, http.MethodPost, endpoints, s.key, `{"url":"http://127.0.0.1:9009/","policy":`+policy+`}`)
	}

	for range 2 {
		s.api(http.MethodPost, endpoints, body)
	}
	s.refused(422, "ingest.tenant_max_endpoints", http.MethodPost, endpoints, s.key, body)

	event := `{"type":"a","payload":1}`
	s.refused(422, "ingest.max_request_deliveries", http.MethodPost, events+"/batch", s.key, `{"events":[`+strings.Repeat(event+",", 599)+event+`]}`)

	s.refused(422, "ingest.tenant_max_endpoints", http.MethodPost, endpoints, write, body)
	s.refused(429, "api.key_write_rate", http.MethodPost, endpoints, write, body)

	large := fmt.Sprintf(`{"type":"a","payload":%q}`, strings.Repeat("x", 600<<10))
	s.api(http.MethodPost, events, large)
	s.refused(507, "tenant_storage_full", http.MethodPost, events, s.key, large)
	s.api(http.MethodPost, "/v1/tenants", `{"uid":"other","name":"other"}`)
	s.api(http.MethodPost, "/v1/tenants/other/events", large)
}

// TestFullDiskRefusesEventsAndChanges keeps back more than any disk has.
func TestFullDiskRefusesEventsAndChanges(t *testing.T) {
	t.Parallel()
	s := startServer(t, "BREAKWATER_STORE_DISK_RESERVE=1024 TiB")
	s.eventually("events are refused", func() bool {
		status, _ := s.do(http.MethodPost, s.url+"/v1/tenants/default/events", s.key, `{"type":"a","payload":1}`)
		return status == 507
	})
	s.refused(507, "disk_full", http.MethodPost, "/v1/tenants/default/events", s.key, `{"type":"a","payload":1}`)
	s.refused(507, "disk_full", http.MethodPost, "/v1/tenants/default/endpoints", s.key, `{"url":"http://127.0.0.1:9009/"}`)
}
