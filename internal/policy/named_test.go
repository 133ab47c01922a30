package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

const gold = `{"preset":"full-5","retry":{"backoff":{"kind":"schedule","delays":["1s","2s","3s"]}},"timeout":{"total":"12s"}}`

func under(name, named, doc string) hook.PolicyLevel {
	return hook.PolicyLevel{JSON: []byte(doc), Name: name, Named: []byte(named)}
}

func TestANamedPolicyIsAStartLikeAPreset(t *testing.T) {
	t.Parallel()
	tenant := hook.PolicyLevel{JSON: []byte(`{"timeout":{"total":"50s"},"disable_after":"1h"}`)}
	endpoint := under("gold", gold, `{"preset":"gold","breaker":{"consecutive":9},"timeout":{"total":null}}`)
	r, err := policy.Resolve(nil, policy.Levels([]byte(`{"rate_limit":{"per_second":3}}`), tenant, endpoint)...)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Policy
	if p.Preset != "gold" || p.Timeout.Total != 12*time.Second || p.Retry.MaxAttempts != 4 || p.Breaker.Consecutive != 9 || p.Concurrency.Limit != 10 {
		t.Errorf("policy = %+v", p)
	}
	if p.DisableAfter != policy.Default().DisableAfter || p.RateLimit.PerSecond != 0 {
		t.Errorf("what lies below has a say: %+v", p)
	}
	for path, want := range map[string]string{
		"timeout.total": "policy gold", "retry.max_attempts": "policy gold", "breaker.consecutive": "endpoint", "disable_after": "policy gold",
	} {
		if got := r.Origin[path]; got != want {
			t.Errorf("origin of %s = %q, want %q", path, got, want)
		}
	}
	// The levels above go on from it.
	r, err = policy.Resolve(nil, policy.Levels(nil, under("gold", gold, `{"preset":"gold"}`), hook.PolicyLevel{JSON: []byte(`{"concurrency":2}`)})...)
	if err != nil || r.Policy.Timeout.Total != 12*time.Second || r.Policy.Concurrency.Limit != 2 {
		t.Errorf("endpoint over a tenant with a named policy = %+v, %v", r, err)
	}
	// The same content is the same policy, whatever it is called.
	other, err := policy.Resolve(nil, policy.Levels(nil, hook.PolicyLevel{}, under("silver", gold, `{"preset":"silver","concurrency":2}`))...)
	if err != nil || other.Hash != r.Hash {
		t.Errorf("hash = %v, %v, want %v", other, err, r.Hash)
	}
}

func TestANamedPolicyThatIsWrong(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		level hook.PolicyLevel
		want  string
	}{
		"unknown":             {hook.PolicyLevel{JSON: []byte(`{"preset":"gold"}`)}, `unknown preset "gold"`},
		"another one":         {under("silver", gold, `{"preset":"gold"}`), `unknown preset "gold"`},
		"not valid any more":  {under("gold", `{"retry":{"max_attempts":-1}}`, `{"preset":"gold"}`), "policy.preset policy gold is not valid: "},
		"starts from another": {under("gold", `{"preset":"silver"}`, `{"preset":"gold"}`), "policy.preset policy gold is not valid: "},
		"does not fit":        {under("gold", gold, `{"preset":"gold","timeout":{"connect":"20s"}}`), "connect must not exceed total"},
	} {
		_, err := policy.Resolve(nil, policy.Levels(nil, hook.PolicyLevel{}, tc.level)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	// A name that a level does not refer to changes nothing.
	r, err := policy.Resolve(nil, policy.Levels(nil, hook.PolicyLevel{}, under("gold", gold, `{"preset":"quick"}`))...)
	if err != nil || r.Policy.Preset != "quick" || r.Policy.Timeout.Total == 12*time.Second {
		t.Errorf("policy = %+v, %v", r, err)
	}
}

func TestTheOperatorsLimitsHoldForANamedPolicy(t *testing.T) {
	t.Parallel()
	limits := &policy.Limits{MaxAttempts: 3}
	_, err := policy.Resolve(limits, policy.Levels(nil, hook.PolicyLevel{}, under("gold", gold, `{"preset":"gold"}`))...)
	if err == nil || !strings.Contains(err.Error(), "policy.retry.max_attempts") {
		t.Errorf("err = %v", err)
	}
}

func TestStartOf(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`{"preset":"gold"}`: "gold", `{}`: "", ``: "", `{"preset":null}`: "", `{"preset":7}`: "", `[]`: "", `{"preset":"a","x":1}`: "a",
	} {
		if got := policy.StartOf([]byte(doc)); got != want {
			t.Errorf("StartOf(%s) = %q, want %q", doc, got, want)
		}
	}
}
