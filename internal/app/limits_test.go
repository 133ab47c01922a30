package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// TestPolicyLimits holds policies of tenants against the bounds of a server.
func TestPolicyLimits(t *testing.T) {
	t.Parallel()
	limits, err := app.ParseLimits(app.PolicyLimits{
		MinDelay: 100 * time.Millisecond, MinBackoff: time.Second, MaxAttempts: 30, MaxTimeout: time.Minute,
		MaxConcurrency: 200, MinProbe: time.Second, RequireBreaker: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for doc, want := range map[string]string{
		`{"retry":{"min_delay":"10ms"}}`:                                         "policy.retry.min_delay limited by the server to at least 100ms",
		`{"retry":{"backoff":{"base":"10ms"}}}`:                                  "policy.retry.backoff.base limited by the server to at least 1s",
		`{"retry":{"backoff":{"kind":"schedule","delays":["1m","500ms","1m"]}}}`: "policy.retry.backoff.delays limited by the server to at least 1s",
		`{"retry":{"max_attempts":31}}`:                                          "policy.retry.max_attempts limited by the server to at most 30",
		`{"timeout":{"total":"61s"}}`:                                            "policy.timeout.total limited by the server to at most 1m",
		`{"concurrency":201}`:                                                    "policy.concurrency.limit limited by the server to at most 200",
		`{"concurrency":{"mode":"adaptive","max":300}}`:                          "policy.concurrency.max limited by the server to at most 200",
		`{"breaker":{"probe":{"min":"100ms"}}}`:                                  "policy.breaker.probe.min limited by the server to at least 1s",
		`{"breaker":{"enabled":false}}`:                                          "policy.breaker.enabled limited by the server to true",
	} {
		level := policy.Level{Name: policy.LevelEndpoint, JSON: []byte(doc)}
		if _, err := policy.Resolve(limits, level); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %v, want %s", doc, err, want)
		}
		level.Name = policy.LevelServer
		if _, err := policy.Resolve(limits, level); err != nil {
			t.Errorf("%s of the server's own = %v", doc, err)
		}
		level.Name = policy.LevelEndpoint
		none, err := app.ParseLimits(app.PolicyLimits{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := policy.Resolve(none, level); err != nil {
			t.Errorf("%s without bounds = %v", doc, err)
		}
	}
	for _, p := range policy.Presets() {
		level := policy.Level{Name: policy.LevelEndpoint, JSON: []byte(`{"preset":"` + p.Name + `"}`)}
		if _, err := policy.Resolve(limits, level); err != nil {
			t.Errorf("preset %s = %v", p.Name, err)
		}
	}
}
