package sim_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/sim"
)

func TestStrategyNames(t *testing.T) {
	t.Parallel()
	all := sim.Strategies()
	// Sixteen presets and five textbook schedules: the law under each, and each
	// with and without a limit and three kinds of breaker.
	if want := 1 + (len(policy.Presets())+5)*7; len(all) != want {
		t.Errorf("%d strategies, want %d", len(all), want)
	}
	seen := make(map[string]bool)
	for _, st := range all {
		got, err := sim.ParseStrategy(st.Name)
		if err != nil || got.Name != st.Name || got.About != st.About {
			t.Errorf("ParseStrategy(%q) = %q, %q, %v", st.Name, got.Name, got.About, err)
		}
		if seen[st.Name] {
			t.Errorf("two strategies are called %s", st.Name)
		}
		seen[st.Name] = true
	}
	for _, name := range []string{"law", "law:full-5", "full-5", "full-5+cap10", "full-5+cap10+hold", "exp-nojitter", "fixed-60s+burn"} {
		if !seen[name] {
			t.Errorf("no strategy is called %s", name)
		}
	}
}

func TestStrategyOfAnyLimit(t *testing.T) {
	t.Parallel()
	if st := strategy(t, "law+max1000"); st.Policy.Concurrency.Max != 1000 {
		t.Errorf("limit %d, want 1000", st.Policy.Concurrency.Max)
	}
	s := sim.Base()
	s.Outages[0].For = sim.Duration(30 * time.Second)
	if r := sim.Run(s, strategy(t, "full-5+cap7"), 1); r.InFlight != 7 {
		t.Errorf("%d in flight, want 7", r.InFlight)
	}
}

func TestUnknownStrategy(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                 `no preset or schedule is called ""`,
		"full5":            `no preset or schedule is called "full5"`,
		"law:none":         `no preset or schedule is called "none"`,
		"full-5+cap0":      `"cap0" must be cap and a number, burn or hold`,
		"full-5+cap1+cap2": `"cap2" must be`,
		"full-5+burn+hold": `"hold" must be`,
		"full-5+":          `"" must be`,
		"law+cap10":        `"cap10" must be max and a number`,
		"law+max-1":        `"max-1" must be max`,
	} {
		if _, err := sim.ParseStrategy(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseStrategy(%q) = %v, want %q in it", name, err, want)
		}
	}
}

func TestReadPolicy(t *testing.T) {
	t.Parallel()
	p, warnings, err := sim.ReadPolicy([]byte(`
preset: full-5
retry:
  max_attempts: 6
  jitter: none
classify:
  statuses: {409: success}
concurrency: 4
`))
	if err != nil {
		t.Fatalf("ReadPolicy: %v", err)
	}
	if p.Retry.MaxAttempts != 6 || p.Concurrency.Limit != 4 || p.Classify.Statuses["409"] != policy.ActionSuccess || p.Preset != "full-5" {
		t.Errorf("policy %+v", p)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "jitter none") {
		t.Errorf("warnings %q", warnings)
	}
}

// TestBadPolicy: the error names field and rule.
func TestBadPolicy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"not yaml":     {"retry: [", "policy is not valid YAML"},
		"not a policy": {"12", "policy must be an object"},
		"unknown":      {"retries: 5", `policy.retries unknown key "retries"; known: preset,`},
		"bounds":       {"retry: {max_attempts: 0}", "policy.retry.max_attempts"},
		"no preset":    {"preset: best", `policy.preset unknown preset "best"`},
		"whole":        {"retry: {backoff: {base: 1h, cap: 1m}}", "policy.retry.backoff.cap cap must not be below base"},
		"nan":          {"breaker: {probe: {fraction: .nan}}", "policy has a value that JSON cannot hold"},
		"too long":     {strings.Repeat("#", 70_000), "policy must be at most 64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := sim.ReadPolicy([]byte(tc.text))
			if _, ok := errors.AsType[*hook.Invalid](err); !ok || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want a *hook.Invalid with %q in it", err, tc.want)
			}
		})
	}
}
