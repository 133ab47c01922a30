package playground

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSettingsBecomeAPolicyLevel(t *testing.T) {
	t.Parallel()
	q := url.Values{}
	for name, text := range map[string]string{
		"preset": "quick", "retry.max_attempts": " 5 ", "retry.backoff.delays": "10s, 1m;1h", "breaker.enabled": "false", "rate_limit.per_second": "2.5",
		"disable_after": "0s", "classify.statuses.409": "success", "retry.max_elapsed": "", "outage": "5m", "seed": "1", "timeout.total": "-x", "replay.ramp": "01",
	} {
		q.Set(name, text)
	}
	var got any
	if err := json.Unmarshal(readValues(q).level("quick"), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"preset":     "quick",
		"retry":      map[string]any{"max_attempts": 5.0, "backoff": map[string]any{"delays": []any{"10s", "1m", "1h"}}},
		"breaker":    map[string]any{"enabled": false},
		"rate_limit": map[string]any{"per_second": 2.5}, "disable_after": "0s",
		"classify": map[string]any{"statuses": map[string]any{"409": "success"}},
		"timeout":  map[string]any{"total": "-x"}, "replay": map[string]any{"ramp": "01"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("level (-want +got):\n%s", diff)
	}
}

func TestSettingsInsideEachOtherDoNoHarm(t *testing.T) {
	t.Parallel()
	for _, v := range []values{
		{"retry": "1", "retry.max_attempts": "2"}, {"retry.": "1", "retry..x": "2"}, {"retry.backoff": "x", "retry.backoff.kind": "y", "retry": "z"},
	} {
		if raw := v.level(""); !json.Valid(raw) {
			t.Errorf("%v: %s", v, raw)
		}
	}
}

// A patch that is merged into the stored level must leave exactly the new one.
func TestReplacingALevel(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ stored, level, want string }{
		"nothing before":     {`{}`, `{"preset":"quick"}`, `{"preset":"quick"}`},
		"nothing after":      {`{"preset":"quick","retry":{"max_attempts":3}}`, `{}`, `{"preset":null,"retry":null}`},
		"deep":               {`{"breaker":{"max_hold":"1h","probe":{"min":"5s"}}}`, `{"breaker":{"max_hold":"2h"}}`, `{"breaker":{"max_hold":"2h","probe":null}}`},
		"value for object":   {`{"concurrency":5}`, `{"concurrency":{"mode":"fixed","limit":5}}`, `{"concurrency":{"mode":"fixed","limit":5}}`},
		"object for a value": {`{"concurrency":{"mode":"fixed"}}`, `{"concurrency":5}`, `{"concurrency":5}`},
		"the same":           {`{"preset":"quick"}`, `{"preset":"quick"}`, `{"preset":"quick"}`},
	} {
		var got, want any
		if json.Unmarshal(replacing(json.RawMessage(tc.stored), json.RawMessage(tc.level)), &got) != nil || json.Unmarshal([]byte(tc.want), &want) != nil {
			t.Fatalf("%s: no JSON", name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestYAMLComesBackAsItWas(t *testing.T) {
	t.Parallel()
	changed := values{
		"retry.backoff.kind": "schedule", "retry.backoff.delays": "10s, 1m", "retry.max_attempts": "3", "breaker.max_hold": "1d", "classify.statuses.409": "success",
		"disable_after": "0s", "breaker.enabled": "false",
	}
	lines := writeYAML("full-5", changed, values{"retry.max_attempts": "5"})
	text := plainText(lines)
	preset, read, err := readYAML(text)
	if err != nil || preset != "full-5" {
		t.Fatalf("%q, %v:\n%s", preset, err, text)
	}
	if diff := cmp.Diff(changed, read); diff != "" {
		t.Errorf("settings (-want +got):\n%s\n%s", diff, text)
	}
	if set := string(setYAML(lines)); !strings.Contains(set, `<span class="c"># full-5: 5</span>`) {
		t.Errorf("YAML:\n%s", set)
	}
}

// FuzzYAML: whatever is typed is read or refused, and what is read can be sent.
func FuzzYAML(f *testing.F) {
	for _, text := range []string{"", "preset: quick", "retry: {jitter: none}", "concurrency: 7", "a: &a [*a]", "? [1]\n: 2", "classify: {statuses: {409: success}}", "retry: {max_attempts: .nan}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		preset, v, err := readYAML(text)
		if err != nil {
			return
		}
		if raw := v.differing(values{}).level(preset); !json.Valid(raw) {
			t.Errorf("%q: %s", text, raw)
		}
	})
}
