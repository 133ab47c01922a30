package policy_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// levels returns the given documents as server, tenant and endpoint levels,
// the last one as the endpoint's.
func levels(docs ...string) []policy.Level {
	names := []string{policy.LevelServer, policy.LevelTenant, policy.LevelEndpoint}
	var out []policy.Level
	for i, doc := range docs {
		out = append(out, policy.Level{Name: names[len(names)-len(docs)+i], JSON: []byte(doc)})
	}
	return out
}

func resolve(t *testing.T, docs ...string) *policy.Resolved {
	t.Helper()
	r, err := policy.Resolve(nil, levels(docs...)...)
	if err != nil {
		t.Fatalf("Resolve(%q): %v", docs, err)
	}
	return r
}

func TestNothingResolvesToDefault(t *testing.T) {
	t.Parallel()
	for _, docs := range [][]string{nil, {""}, {"{}"}, {"null"}, {" {} ", "", "{}"}, {`{"preset":"default"}`}, {`{"retry":{}}`}, {`{"preset":null}`}} {
		r := resolve(t, docs...)
		if diff := cmp.Diff(policy.Default(), r.Policy); diff != "" {
			t.Errorf("Resolve(%q) (-want +got):\n%s", docs, diff)
		}
		if len(r.Warnings) != 0 {
			t.Errorf("Resolve(%q) warns: %v", docs, r.Warnings)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	preset5 := func(change func(*policy.Policy)) policy.Policy {
		for _, p := range policy.Presets() {
			if p.Name == "full-5" {
				change(&p.Policy)
				return p.Policy
			}
		}
		return policy.Policy{}
	}
	base := func(change func(*policy.Policy)) policy.Policy {
		p := policy.Default()
		change(&p)
		return p
	}
	schedule := policy.Backoff{Kind: policy.Schedule, Delays: []time.Duration{30 * time.Second, 2 * time.Minute}}
	for name, tc := range map[string]struct {
		docs []string
		want policy.Policy
	}{
		"a preset replaces what came before": {
			[]string{`{"timeout":{"total":"20s"}}`, `{"preset":"full-5"}`, `{"retry":{"max_attempts":6}}`},
			preset5(func(p *policy.Policy) { p.Retry.MaxAttempts = 6 }),
		},
		"own fields of the naming level stay": {
			[]string{`{}`, `{"timeout":{"total":"20s"},"preset":"full-5"}`, `{}`},
			preset5(func(p *policy.Policy) { p.Timeout.Total = 20 * time.Second }),
		},
		"objects merge by key": {
			[]string{`{"timeout":{"total":"20s"}}`, `{"timeout":{"connect":"5s"}}`, `{"breaker":{"probe":{"max":"90s"}}}`},
			base(func(p *policy.Policy) {
				p.Timeout = policy.Timeout{Connect: 5 * time.Second, Total: 20 * time.Second}
				p.Breaker.Probe.Max = 90 * time.Second
			}),
		},
		"maps merge by key": {
			[]string{`{"classify":{"statuses":{"409":"retry","404":"retry"}}}`, `{"classify":{"statuses":{"409":"success"}}}`, `{"classify":{"limits":{"dns_error":5},"errors":{"timeout":"retry"}}}`},
			base(func(p *policy.Policy) {
				p.Classify.Statuses = map[string]policy.Action{"409": policy.ActionSuccess, "404": policy.ActionRetry}
				p.Classify.Limits[hook.DNSError] = 5
				p.Classify.Errors[hook.Timeout] = policy.ActionRetry
			}),
		},
		"lists are replaced": {
			[]string{
				`{"retry":{"backoff":{"kind":"schedule","delays":["1s","2s","3s"]}}}`,
				`{"retry":{"backoff":{"delays":["30s","2m"]}}}`,
			},
			base(func(p *policy.Policy) { p.Retry.Backoff, p.Retry.MaxAttempts = schedule, 3 }),
		},
		"null is the preset's value": {
			[]string{`{"retry":{"max_attempts":20},"timeout":{"total":"99s"}}`, `{"retry":{"max_attempts":null},"timeout":null}`},
			base(func(*policy.Policy) {}),
		},
		"null of a later preset": {
			[]string{`{"preset":"full-5","retry":{"max_attempts":20}}`, `{"retry":{"max_attempts":null}}`},
			preset5(func(*policy.Policy) {}),
		},
		"null of a map entry": {
			[]string{`{"classify":{"statuses":{"409":"retry","404":"retry"},"limits":{"dns_nxdomain":9}}}`, `{"classify":{"statuses":{"409":null},"limits":{"dns_nxdomain":null}}}`},
			base(func(p *policy.Policy) { p.Classify.Statuses["404"] = policy.ActionRetry }),
		},
		"null of a whole map": {
			[]string{`{"classify":{"statuses":{"409":"retry"},"limits":{"dns_error":9}}}`, `{"classify":{"statuses":null,"limits":null}}`},
			base(func(*policy.Policy) {}),
		},
		"null of a kind": {
			[]string{`{"retry":{"backoff":{"kind":"schedule","delays":["1s"]},"jitter":"none"},"concurrency":7}`, `{"retry":{"backoff":{"kind":null},"jitter":{"kind":null}},"concurrency":{"mode":null}}`},
			base(func(*policy.Policy) {}),
		},
		"null of an object with kinds": {
			[]string{`{"retry":{"backoff":{"kind":"schedule","delays":["1s"]},"jitter":"none"},"concurrency":7}`, `{"retry":null,"concurrency":null}`},
			base(func(*policy.Policy) {}),
		},
		"null of a field that the preset's kind lacks": {
			[]string{`{"retry":{"jitter":{"kind":"percent","percent":5}}}`, `{"retry":{"jitter":{"percent":null}}}`},
			base(func(p *policy.Policy) { p.Retry.Jitter = percent20 }),
		},
		"null of a field of another kind": {
			[]string{`{"retry":{"backoff":{"kind":"schedule","delays":["30s","2m"]}}}`, `{"retry":{"backoff":{"base":null}}}`},
			base(func(p *policy.Policy) { p.Retry.Backoff, p.Retry.MaxAttempts = schedule, 3 }),
		},
		"schedule drops the exponential fields and counts itself": {
			[]string{`{"retry":{"backoff":{"kind":"schedule","delays":["30s","2m"]}}}`},
			base(func(p *policy.Policy) { p.Retry.Backoff, p.Retry.MaxAttempts = schedule, 3 }),
		},
		"schedule with counted attempts": {
			[]string{`{"retry":{"max_attempts":9}}`, `{"retry":{"backoff":{"kind":"schedule","delays":["30s","2m"]}}}`},
			base(func(p *policy.Policy) { p.Retry.Backoff, p.Retry.MaxAttempts = schedule, 9 }),
		},
		"schedule over a scheduled preset": {
			[]string{`{"preset":"stripe"}`, `{"retry":{"backoff":{"delays":["30s","2m"]}}}`},
			func() policy.Policy {
				for _, p := range policy.Presets() {
					if p.Name == "stripe" {
						p.Policy.Retry.Backoff, p.Policy.Retry.MaxAttempts = schedule, 3
						return p.Policy
					}
				}
				return policy.Policy{}
			}(),
		},
		"exponential over a schedule takes the defaults of the kind": {
			[]string{`{"preset":"ladder-5","retry":{"backoff":{"kind":"exponential","base":"10s"}}}`},
			func() policy.Policy {
				for _, p := range policy.Presets() {
					if p.Name == "ladder-5" {
						p.Policy.Retry.Backoff = policy.Backoff{Kind: policy.Exponential, Base: 10 * time.Second, Multiplier: 3, Cap: 6 * time.Hour}
						return p.Policy
					}
				}
				return policy.Policy{}
			}(),
		},
		"back to the preset's kind takes the preset's fields": {
			[]string{`{"preset":"full-5"}`, `{"retry":{"backoff":{"kind":"schedule","delays":["1s"]},"max_attempts":5}}`, `{"retry":{"backoff":{"kind":"exponential"}}}`},
			preset5(func(*policy.Policy) {}),
		},
		"same kind again drops nothing": {
			[]string{`{"retry":{"backoff":{"base":"10s"}}}`, `{"retry":{"backoff":{"kind":"exponential"}}}`},
			base(func(p *policy.Policy) { p.Retry.Backoff.Base = 10 * time.Second }),
		},
		"jitter kinds drop each other's fields": {
			[]string{`{"retry":{"jitter":{"kind":"percent","percent":5}}}`, `{"retry":{"jitter":{"kind":"range","high":2}}}`},
			base(func(p *policy.Policy) { p.Retry.Jitter = policy.Jitter{Kind: policy.JitterRange, Low: 0.5, High: 2} }),
		},
		"jitter in short": {
			[]string{`{"retry":{"jitter":"equal"}}`},
			base(func(p *policy.Policy) { p.Retry.Jitter = policy.Jitter{Kind: policy.JitterEqual} }),
		},
		"concurrency in short": {
			[]string{`{"concurrency":10}`},
			base(func(p *policy.Policy) { p.Concurrency = policy.Concurrency{Mode: policy.Fixed, Limit: 10} }),
		},
		"fixed without a limit": {
			[]string{`{"concurrency":{"mode":"fixed"}}`},
			base(func(p *policy.Policy) { p.Concurrency = policy.Concurrency{Mode: policy.Fixed, Limit: 10} }),
		},
		"adaptive over fixed": {
			[]string{`{"concurrency":10}`, `{"concurrency":{"mode":"adaptive","max":50}}`},
			base(func(p *policy.Policy) {
				p.Concurrency = policy.Concurrency{Mode: policy.Adaptive, Initial: 10, Max: 50}
			}),
		},
		"days and odd white space": {
			[]string{" {\n\"retry\" : { \"max_elapsed\" : \"7d\" , \"max_attempts\" : 8.0 } , \"disable_after\" : \"0\" }\t"},
			base(func(p *policy.Policy) { p.DisableAfter = 0 }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, resolve(t, tc.docs...).Policy); diff != "" {
				t.Errorf("Resolve (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	r := resolve(t,
		`{"timeout":{"total":"20s"}}`,
		`{"preset":"full-5","breaker":{"consecutive":7},"classify":{"statuses":{"409":"retry"}}}`,
		`{"retry":{"jitter":{"kind":"percent"},"max_attempts":6},"concurrency":5,"breaker":{"enabled":null}}`)
	for path, want := range map[string]string{
		"timeout.total":                "preset full-5",
		"retry.backoff.base":           "preset full-5",
		"breaker.consecutive":          "tenant",
		"breaker.enabled":              "preset full-5",
		"classify.statuses.409":        "tenant",
		"classify.limits.dns_nxdomain": "preset full-5",
		"retry.max_attempts":           "endpoint",
		"retry.jitter.kind":            "endpoint",
		"retry.jitter.percent":         "endpoint",
		"concurrency.mode":             "endpoint", // named by the short form
		"concurrency.limit":            "endpoint",
	} {
		if got := r.Origin[path]; got != want {
			t.Errorf("origin of %s = %q, want %q", path, got, want)
		}
	}
	var doc map[string]any
	if err := json.Unmarshal(r.JSON, &doc); err != nil {
		t.Fatal(err)
	}
	if got, want := len(r.Origin), leaves(doc); got != want {
		t.Errorf("%d origins for %d values", got, want)
	}
}

func leaves(v any) int {
	object, ok := v.(map[string]any)
	if !ok {
		return 1
	}
	n := 0
	for _, member := range object {
		n += leaves(member)
	}
	return n
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string][]string{
		`{"preset":"stripe","retry":{"max_elapsed":"24h"}}`:                {"ladder may take up to 86h24m but max_elapsed is 1d"},
		`{"retry":{"jitter":{"kind":"none"}}}`:                             {"jitter none synchronises retries"},
		`{"classify":{"statuses":{"429":"permanent"}}}`:                    {"429 set to permanent"},
		`{"classify":{"statuses":{"4xx":"permanent"}}}`:                    {"429 set to permanent"},
		`{"classify":{"statuses":{"4xx":"permanent","429":"throttle"}}}`:   nil,
		`{"retry":{"jitter":"none","max_elapsed":"1m","max_attempts":3}}`:  {"ladder may take up to 2m but max_elapsed is 1m", "jitter none synchronises retries"},
		`{"retry":{"jitter":"none","max_elapsed":"2m","max_attempts":3}}`:  {"jitter none synchronises retries"},
		`{"preset":"quick","retry":{"max_elapsed":"1m","max_attempts":6}}`: {"ladder may take up to 2m39s but max_elapsed is 1m"},
	} {
		if diff := cmp.Diff(want, resolve(t, doc).Warnings); diff != "" {
			t.Errorf("%s (-want +got):\n%s", doc, diff)
		}
	}
}
