package policy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/policy"
)

// The canonical form is stored and compared for ever: a change of this text is
// a change of every hash.
const canonicalDefault = `{"breaker":{"consecutive":5,"enabled":true,"max_hold":259200000,"on_open":"hold",` +
	`"probe":{"fraction":0.05,"jitter":0.2,"max":60000,"min":2000},"window":{"failed":16,"of":20}},` +
	`"classify":{"errors":{},"limits":{"dns_nxdomain":3,"tls_certificate":3},"on_gone":"disable",` +
	`"redirects":{"max_hops":3,"mode":"fail"},"statuses":{}},` +
	`"concurrency":{"initial":10,"max":100,"mode":"adaptive"},"disable_after":432000000,` +
	`"rate_limit":{"burst":0,"per_second":0},` +
	`"replay":{"max_multiple":10,"pause_error_percent":10,"per_minute":100,"ramp":2},` +
	`"retry":{"backoff":{"base":30000,"cap":21600000,"kind":"exponential","multiplier":3},"initial_delay":0,` +
	`"jitter":{"kind":"full"},"max_attempts":8,"max_elapsed":604800000,"min_delay":1000},` +
	`"retry_after":{"honor":true,"late_min":1000,"late_percent":20,"max":86400000,"patience":10,"throttle_multiplier":2},` +
	`"timeout":{"connect":10000,"total":30000}}`

func TestCanonicalDefault(t *testing.T) {
	t.Parallel()
	r := resolve(t)
	if diff := cmp.Diff(canonicalDefault, string(r.JSON)); diff != "" {
		t.Errorf("canonical form (-want +got):\n%s", diff)
	}
	sum := sha256.Sum256([]byte(canonicalDefault))
	if got, want := hex.EncodeToString(r.Hash[:]), hex.EncodeToString(sum[:])[:16]; got != want {
		t.Errorf("hash = %s, want %s", got, want)
	}
}

func TestEqualPoliciesHaveEqualHashes(t *testing.T) {
	t.Parallel()
	for a, b := range map[string]string{
		`{}`:                                  `{"preset":"default","retry":{"max_elapsed":"7d"}}`,
		`{"retry":{"backoff":{"cap":"60m"}}}`: `{"retry":{"backoff":{"cap":"1h0m0s"}}}`,
		`{"concurrency":10}`:                  `{"concurrency":{"limit":1e1,"mode":"fixed"}}`,
		`{"rate_limit":{"per_second":0}}`:     `{"rate_limit":{"per_second":-0.0}}`,
		`{"preset":"tripling-8"}`:             `{"retry":{"jitter":{"kind":"range"}},"timeout":{"connect":"30s","total":"1m"},"concurrency":10}`,
	} {
		if ra, rb := resolve(t, a), resolve(t, b); ra.Hash != rb.Hash {
			t.Errorf("%s and %s differ:\n%s\n%s", a, b, ra.JSON, rb.JSON)
		}
	}
	seen := map[string]string{}
	for _, p := range policy.Presets() {
		r := resolve(t, `{"preset":"`+p.Name+`"}`)
		if other, ok := seen[string(r.Hash[:])]; ok {
			t.Errorf("%s and %s have one hash", p.Name, other)
		}
		seen[string(r.Hash[:])] = p.Name
	}
}

func TestEveryValueIsInTheHash(t *testing.T) {
	t.Parallel()
	base := resolve(t).Hash
	for _, doc := range []string{
		`{"retry":{"max_attempts":7}}`, `{"retry":{"initial_delay":"1ms"}}`, `{"retry":{"min_delay":"999ms"}}`,
		`{"retry":{"backoff":{"multiplier":3.0000001}}}`, `{"retry":{"jitter":"equal"}}`,
		`{"classify":{"statuses":{"409":"retry"}}}`, `{"classify":{"errors":{"timeout":"retry"}}}`, `{"classify":{"limits":{"timeout":3}}}`,
		`{"breaker":{"enabled":false}}`, `{"rate_limit":{"burst":1}}`, `{"disable_after":"0s"}`,
	} {
		if resolve(t, doc).Hash == base {
			t.Errorf("%s does not change the hash", doc)
		}
	}
}

func TestShownPolicyResolvesToItself(t *testing.T) {
	t.Parallel()
	docs := []string{
		`{"retry":{"backoff":{"kind":"schedule","delays":["1s","90m","7d"]}},"classify":{"statuses":{"409":"retry","5xx":"down"},"errors":{"timeout":"retry"},"limits":{"dns_error":9}}}`,
		`{"concurrency":3,"disable_after":"0"}`,
	}
	for _, p := range policy.Presets() {
		docs = append(docs, `{"preset":"`+p.Name+`"}`)
	}
	for _, doc := range docs {
		r := resolve(t, doc)
		shown, err := json.Marshal(r.Policy)
		if err != nil {
			t.Fatal(err)
		}
		again := resolve(t, `{"timeout":{"total":"77s"}}`, `{"retry":{"jitter":"none"},"concurrency":77}`, string(shown))
		if again.Hash != r.Hash {
			t.Errorf("%s shown as %s resolves to\n%s", doc, shown, again.JSON)
		}
		if diff := cmp.Diff(r.Policy, again.Policy); diff != "" {
			t.Errorf("%s (-want +got):\n%s", doc, diff)
		}
	}
}

func TestShownDurationsReadWell(t *testing.T) {
	t.Parallel()
	shown, err := json.Marshal(policy.Default())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"preset":"default"`, `"cap":"6h"`, `"base":"30s"`, `"initial_delay":"0s"`, `"max_elapsed":"7d"`, `"statuses":{}`} {
		if !strings.Contains(string(shown), want) {
			t.Errorf("%s is missing in %s", want, shown)
		}
	}
}

func TestStoredFormHoldsTheWholePolicy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy(t)
		canonical, err := p.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		got, err := policy.Restore(canonical)
		if err != nil {
			t.Fatal(err)
		}
		p.Preset = "" // not stored
		if diff := cmp.Diff(p, got); diff != "" {
			t.Fatalf("Restore (-want +got):\n%s", diff)
		}
	})
}

func FuzzResolve(f *testing.F) {
	for doc := range levelErrors {
		f.Add([]byte(doc), []byte(`{"retry":null}`))
	}
	for _, p := range policy.Presets() {
		shown, err := json.Marshal(p.Policy)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(shown, []byte(`{"concurrency":5,"retry":{"jitter":"range","backoff":{"kind":"schedule","delays":["1s"]}}}`))
	}
	f.Add([]byte(`{"classify":{"statuses":{"409":null},"limits":null}}`), []byte(`{"retry":{"jitter":{"kind":null,"low":0.1}}}`))
	f.Fuzz(func(t *testing.T, tenant, endpoint []byte) {
		r, err := policy.Resolve(nil, policy.Level{Name: policy.LevelTenant, JSON: tenant}, policy.Level{Name: policy.LevelEndpoint, JSON: endpoint})
		if err != nil {
			if len(findings(t, err)) == 0 {
				t.Fatal("an error without a finding")
			}
			return
		}
		checkSane(t, r)
	})
}

// checkSane holds for every policy that Resolve lets through.
func checkSane(t *testing.T, r *policy.Resolved) {
	t.Helper()
	p := &r.Policy
	for _, n := range []int{1, 2, 49, 5000} {
		for _, u := range []float64{0, 0.5, 0.999999} {
			d, ceiling := p.Delay(n, 0, u)
			if d < p.Retry.MinDelay || d > 2*168*time.Hour || ceiling <= 0 {
				t.Fatalf("Delay(%d, u=%v) = %v under %v", n, u, d, ceiling)
			}
		}
	}
	shown, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := policy.Resolve(nil, policy.Level{Name: policy.LevelEndpoint, JSON: shown})
	if err != nil || again.Hash != r.Hash {
		t.Fatalf("shown policy %s resolves to %v, %v", shown, again, err)
	}
	stored, err := policy.Restore(r.JSON)
	if err != nil {
		t.Fatal(err)
	}
	if canonical, err := stored.Canonical(); err != nil || !bytes.Equal(canonical, r.JSON) {
		t.Fatalf("stored policy reads as %s, %v", canonical, err)
	}
}
