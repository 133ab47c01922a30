package policy_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/policy"
)

func preset(t *testing.T, name string) policy.Policy {
	t.Helper()
	for _, p := range policy.Presets() {
		if p.Name == name {
			return p.Policy
		}
	}
	t.Fatalf("no preset %q", name)
	return policy.Policy{}
}

// The documented table of presets. Spans in minutes.
var presetTable = map[string]struct {
	attempts       int
	connect, total time.Duration
	jitter         policy.Jitter
	adaptive       bool
	mean, p5, p95  float64
}{
	"default":           {8, 10 * time.Second, 30 * time.Second, policy.Jitter{Kind: policy.JitterFull}, true, 4.5 * 60, 1.6 * 60, 7.4 * 60},
	"full-5":            {5, 10 * time.Second, 30 * time.Second, policy.Jitter{Kind: policy.JitterFull}, false, 3.8, 1.6, 5.9},
	"ladder-5":          {5, 10 * time.Second, 30 * time.Second, percent20, false, 72.5, 61.6, 83.4},
	"doubling-9":        {9, 10 * time.Second, 30 * time.Second, policy.Jitter{Kind: policy.JitterFull}, false, 64, 29, 99},
	"ladder-9":          {9, 10 * time.Second, 30 * time.Second, policy.Jitter{Kind: policy.JitterRange, Low: 0.5, High: 1}, false, 26 * 60, 20.2 * 60, 31.8 * 60},
	"tripling-8":        {8, 30 * time.Second, time.Minute, policy.Jitter{Kind: policy.JitterRange, Low: 0.5, High: 1.5}, false, 9 * 60, 6.1 * 60, 12 * 60},
	"quick":             {6, 10 * time.Second, 30 * time.Second, policy.Jitter{Kind: policy.JitterDecorrelated}, false, 33.0 / 60, 10.0 / 60, 84.0 / 60},
	"standard-webhooks": {10, 10 * time.Second, 30 * time.Second, policy.Jitter{Kind: policy.JitterRange, Low: 1, High: 1.1}, true, 79.4 * 60, 77.6 * 60, 81.1 * 60},
	"stripe":            {16, 10 * time.Second, 30 * time.Second, percent20, false, 72 * 60, 67 * 60, 77 * 60},
	"github":            {4, 10 * time.Second, 10 * time.Second, percent20, false, 4 * 60, 3.6 * 60, 4.4 * 60},
	"shopify":           {20, 5 * time.Second, 5 * time.Second, percent20, false, 48 * 60, 45 * 60, 51 * 60},
	"twilio":            {2, 10 * time.Second, 15 * time.Second, percent20, false, 15.0 / 60, 12.0 / 60, 18.0 / 60},
	"sendgrid":          {13, 10 * time.Second, 10 * time.Second, percent20, false, 72 * 60, 66 * 60, 78 * 60},
	"slack":             {4, 5 * time.Second, 5 * time.Second, percent20, false, 30, 26, 34},
	"paypal":            {15, 10 * time.Second, 20 * time.Second, percent20, false, 96 * 60, 89 * 60, 103 * 60},
	"discord":           {6, 10 * time.Second, 10 * time.Second, percent20, false, 30, 27, 33},
}

var percent20 = policy.Jitter{Kind: policy.JitterPercent, Percent: 20}

func TestPresetsAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	want := []string{
		"default", "full-5", "ladder-5", "doubling-9", "ladder-9", "tripling-8", "quick", "standard-webhooks",
		"stripe", "github", "shopify", "twilio", "sendgrid", "slack", "paypal", "discord",
	}
	var got []string
	for _, p := range policy.Presets() {
		got = append(got, p.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("presets (-want +got):\n%s", diff)
	}
	for name, tc := range presetTable {
		p := preset(t, name)
		concurrency := policy.Concurrency{Mode: policy.Fixed, Limit: 10}
		if tc.adaptive {
			concurrency = policy.Concurrency{Mode: policy.Adaptive, Initial: 10, Max: 100}
		}
		// Whatever the row does not name is as in the default.
		expected := policy.Default()
		expected.Preset = name
		expected.Retry.MaxAttempts = tc.attempts
		expected.Retry.Backoff = p.Retry.Backoff
		expected.Retry.Jitter = tc.jitter
		expected.Timeout = policy.Timeout{Connect: tc.connect, Total: tc.total}
		expected.Concurrency = concurrency
		if diff := cmp.Diff(expected, p); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestExponentialPresets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]policy.Backoff{
		"default":    {Kind: policy.Exponential, Base: 30 * time.Second, Multiplier: 3, Cap: 6 * time.Hour},
		"full-5":     {Kind: policy.Exponential, Base: 30 * time.Second, Multiplier: 2, Cap: time.Hour},
		"doubling-9": {Kind: policy.Exponential, Base: 30 * time.Second, Multiplier: 2, Cap: 2 * time.Hour},
		"tripling-8": {Kind: policy.Exponential, Base: 30 * time.Second, Multiplier: 3, Cap: 6 * time.Hour},
		"quick":      {Kind: policy.Exponential, Base: time.Second, Multiplier: 3, Cap: time.Minute},
	} {
		if diff := cmp.Diff(want, preset(t, name).Retry.Backoff); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNominalSums(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]time.Duration{
		"stripe": 72 * time.Hour, "github": 4 * time.Hour, "shopify": 48 * time.Hour, "twilio": 15 * time.Second,
		"sendgrid": 72 * time.Hour, "slack": 30 * time.Minute, "paypal": 96 * time.Hour, "discord": 30 * time.Minute,
		"ladder-5":          72*time.Minute + 30*time.Second,
		"ladder-9":          34*time.Hour + 42*time.Minute + 40*time.Second,
		"standard-webhooks": 75*time.Hour + 35*time.Minute + 5*time.Second,
	} {
		var sum time.Duration
		for _, d := range preset(t, name).Retry.Backoff.Delays {
			sum += d
		}
		if sum != want {
			t.Errorf("%s: delays sum to %v, want %v", name, sum, want)
		}
	}
}

func TestEveryPresetIsSound(t *testing.T) {
	t.Parallel()
	var longest time.Duration
	for _, info := range policy.Presets() {
		p := info.Policy
		if p.Preset != info.Name {
			t.Errorf("%s: policy says preset %q", info.Name, p.Preset)
		}
		if !slices.IsSorted(p.Retry.Backoff.Delays) {
			t.Errorf("%s: delays decrease: %v", info.Name, p.Retry.Backoff.Delays)
		}
		if n := len(p.Retry.Backoff.Delays); n > 0 && p.Retry.MaxAttempts != n+1 {
			t.Errorf("%s: %d attempts for %d delays", info.Name, p.Retry.MaxAttempts, n)
		}
		latest := p.Span().Latest
		if latest > p.Retry.MaxElapsed {
			t.Errorf("%s: may take %v, max_elapsed is %v", info.Name, latest, p.Retry.MaxElapsed)
		}
		longest = max(longest, latest)
		doc, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		r, err := policy.Resolve(nil, policy.Level{Name: policy.LevelEndpoint, JSON: doc})
		if err != nil {
			t.Errorf("%s breaks its own rules: %v", info.Name, err)
		} else if len(r.Warnings) > 0 {
			t.Errorf("%s has warnings: %v", info.Name, r.Warnings)
		}
	}
	if want := 115*time.Hour + 12*time.Minute; longest != want {
		t.Errorf("longest span of all presets = %v, want %v", longest, want)
	}
}

func TestProviderPresetsPromiseNothing(t *testing.T) {
	t.Parallel()
	for _, info := range policy.Presets()[8:] {
		if !strings.Contains(info.Description, "Imitates") || !strings.Contains(info.Description, "not the vendor's present behaviour") {
			t.Errorf("%s: description %q reads like a promise", info.Name, info.Description)
		}
	}
}

func TestPresetsAreTheCallersOwn(t *testing.T) {
	t.Parallel()
	mine := policy.Presets()
	mine[0].Policy.Classify.Limits[1] = 99
	mine[2].Policy.Retry.Backoff.Delays[0] = 0
	again := policy.Presets()
	if again[0].Policy.Classify.Limits[1] != 0 || again[2].Policy.Retry.Backoff.Delays[0] == 0 {
		t.Error("changing a returned preset changed the preset")
	}
}

// TestPresetSpans draws whole runs and compares them with the documented spans,
// and the preview's figures with the same runs.
func TestPresetSpans(t *testing.T) {
	t.Parallel()
	const runs = 10_000
	for name, tc := range presetTable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := preset(t, name)
			draw := rand.New(rand.NewPCG(7, 11))
			spans := make([]time.Duration, runs)
			var sum time.Duration
			for i := range spans {
				var prev time.Duration
				for n := 1; n < p.Retry.MaxAttempts; n++ {
					prev, _ = p.Delay(n, prev, draw.Float64())
					spans[i] += prev
				}
				sum += spans[i]
			}
			slices.Sort(spans)
			drawn := [3]time.Duration{sum / runs, spans[runs*5/100], spans[runs*95/100]}
			shown := p.Span()
			for i, c := range []struct {
				what  string
				want  float64
				shown time.Duration
			}{{"mean", tc.mean, shown.Mean}, {"p5", tc.p5, shown.P5}, {"p95", tc.p95, shown.P95}} {
				within(t, c.what+" drawn", drawn[i], c.want)
				within(t, c.what+" shown", c.shown, c.want)
			}
		})
	}
}

// within allows 4 %: the documented figures are rounded to two digits.
func within(t *testing.T, what string, got time.Duration, wantMinutes float64) {
	t.Helper()
	if ratio := got.Minutes() / wantMinutes; ratio < 0.96 || ratio > 1.04 {
		t.Errorf("%s span = %v, want about %.3g min", what, got.Round(time.Second), wantMinutes)
	}
}

func TestFull5WithBase60(t *testing.T) {
	t.Parallel()
	r := resolve(t, `{"preset":"full-5","retry":{"backoff":{"base":"60s"}}}`)
	span := r.Policy.Span()
	within(t, "mean", span.Mean, 7.5)
	within(t, "p5", span.P5, 3.2)
	within(t, "p95", span.P95, 11.9)
}
