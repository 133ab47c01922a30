package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/policy"
)

func TestOperatorLimits(t *testing.T) {
	t.Parallel()
	limits := &policy.Limits{
		MinDelay: 100 * time.Millisecond, MinBackoff: time.Second, MaxAttempts: 10, MaxTimeout: time.Minute,
		MaxConcurrency: 200, MinProbe: time.Second, RequireBreaker: true,
	}
	for name, tc := range map[string]struct {
		docs []string
		want []string
	}{
		"within":     {[]string{`{"retry":{"max_attempts":10,"min_delay":"100ms"}}`}, nil},
		"floor":      {[]string{`{"retry":{"min_delay":"10ms"}}`}, []string{`policy.retry.min_delay limited by the server to at least 100ms`}},
		"base":       {[]string{`{"retry":{"backoff":{"base":"10ms"}}}`}, []string{`policy.retry.backoff.base limited by the server to at least 1s`}},
		"each delay": {[]string{`{"retry":{"backoff":{"kind":"schedule","delays":["1m","500ms","1m"]}}}`}, []string{`policy.retry.backoff.delays limited by the server to at least 1s`}},
		"attempts":   {[]string{`{"retry":{"max_attempts":11}}`}, []string{`policy.retry.max_attempts limited by the server to at most 10`}},
		"timeout":    {[]string{`{"timeout":{"total":"61s"}}`}, []string{`policy.timeout.total limited by the server to at most 1m`}},
		"short form": {[]string{`{"concurrency":201}`}, []string{`policy.concurrency.limit limited by the server to at most 200`}},
		"adaptive": {
			[]string{`{"concurrency":{"mode":"adaptive","initial":201,"max":300}}`},
			[]string{`policy.concurrency.initial limited by the server to at most 200`, `policy.concurrency.max limited by the server to at most 200`},
		},
		"probe":                    {[]string{`{"breaker":{"probe":{"min":"100ms"}}}`}, []string{`policy.breaker.probe.min limited by the server to at least 1s`}},
		"breaker":                  {[]string{`{"breaker":{"enabled":false}}`}, []string{`policy.breaker.enabled limited by the server to true`}},
		"tenant level too":         {[]string{`{"retry":{"max_attempts":11}}`, `{}`}, []string{`policy.retry.max_attempts limited by the server to at most 10`}},
		"the server's level may":   {[]string{`{"retry":{"max_attempts":20},"breaker":{"enabled":false}}`, `{}`, `{}`}, nil},
		"a tenant's null may":      {[]string{`{"retry":{"max_attempts":null}}`, `{}`}, nil},
		"not by naming a preset":   {[]string{`{"preset":"stripe"}`}, []string{`policy.retry.max_attempts limited by the server to at most 10`}},
		"the field's bounds still": {[]string{`{"retry":{"max_attempts":99}}`}, []string{`policy.retry.max_attempts must be between 1 and 50`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := policy.Resolve(limits, levels(tc.docs...)...)
			if diff := cmp.Diff(tc.want, findings(t, err)); diff != "" {
				t.Errorf("Resolve (-want +got):\n%s", diff)
			}
			for _, none := range []*policy.Limits{nil, {}} {
				if _, err := policy.Resolve(none, levels(tc.docs...)...); err != nil && name != "the field's bounds still" {
					t.Errorf("without bounds: %v", err)
				}
			}
		})
	}
}

// TestTheBuiltInDefaultMayExceedLimits: only what somebody chose is held against
// the operator's bounds.
func TestTheBuiltInDefaultMayExceedLimits(t *testing.T) {
	t.Parallel()
	if _, err := policy.Resolve(&policy.Limits{MaxAttempts: 3, MaxTimeout: time.Second}, levels(`{}`)...); err != nil {
		t.Error(err)
	}
}

func TestPresetsKeepTheUsualLimits(t *testing.T) {
	t.Parallel()
	limits := &policy.Limits{
		MinDelay: 100 * time.Millisecond, MinBackoff: time.Second, MaxAttempts: 30, MaxTimeout: time.Minute,
		MaxConcurrency: 200, MinProbe: time.Second, RequireBreaker: true,
	}
	for _, p := range policy.Presets() {
		if _, err := policy.Resolve(limits, levels(`{"preset":"`+p.Name+`"}`)...); err != nil {
			t.Errorf("preset %s = %v", p.Name, err)
		}
	}
}
