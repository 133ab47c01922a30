package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// DefaultPreset is the preset every resolution starts from.
const DefaultPreset = "default"

// PresetInfo is a named, complete policy.
type PresetInfo struct {
	Name        string
	Description string
	Policy      Policy
}

// Default returns the policy of the preset "default".
func Default() Policy {
	return Policy{
		Preset: DefaultPreset,
		Retry: Retry{
			MaxAttempts: 8, MaxElapsed: 168 * time.Hour, MinDelay: time.Second,
			Backoff: Backoff{Kind: Exponential, Base: 30 * time.Second, Multiplier: 3, Cap: 6 * time.Hour},
			Jitter:  Jitter{Kind: JitterFull},
		},
		RetryAfter: RetryAfter{
			Honor: true, Max: 24 * time.Hour, LatePercent: 20, LateMin: time.Second,
			ThrottleMultiplier: 2, Patience: 10,
		},
		Classify: Classify{
			Statuses:  map[string]Action{},
			Errors:    map[hook.Reason]Action{},
			Limits:    map[hook.Reason]int{hook.DNSNXDomain: 3, hook.TLSCertificate: 3},
			Redirects: Redirects{Mode: RedirectFail, MaxHops: 3},
			OnGone:    GoneDisable,
		},
		Timeout:     Timeout{Connect: 10 * time.Second, Total: 30 * time.Second},
		Concurrency: Concurrency{Mode: Adaptive, Initial: 10, Max: 100},
		Breaker: Breaker{
			Enabled: true, Consecutive: 5, Window: Window{Failed: 16, Of: 20},
			OnOpen: OpenHold, MaxHold: 72 * time.Hour,
			Probe: Probe{Fraction: 0.05, Min: 2 * time.Second, Max: time.Minute, Jitter: 0.2},
		},
		Replay:       Replay{PerMinute: 100, Ramp: 2, MaxMultiple: 10, PauseErrorPercent: 10},
		DisableAfter: 120 * time.Hour,
	}
}

// Presets returns every built-in preset, always in the same order. The result
// is the caller's own. A preset differs from the default in retry, timeout and
// concurrency only.
func Presets() []PresetInfo {
	list := []PresetInfo{
		{DefaultPreset, "Eight attempts over about 4.5 hours, tripling from 30 s with full jitter, adaptive concurrency.", Default()},
		build("full-5", "Five attempts over about 4 minutes, doubling from 30 s with full jitter. Short: relies on the breaker holding events during an outage.",
			rising(5, 30*time.Second, 2, time.Hour), JitterFull, 30*time.Second),
		build("ladder-5", "Five attempts over about 72 minutes: 30 s, 2 min, 10 min, 1 h, each within 20 %.",
			ladder("30s 2m 10m 1h"), JitterPercent, 30*time.Second),
		build("doubling-9", "Nine attempts over about an hour, doubling from 30 s with full jitter.",
			rising(9, 30*time.Second, 2, 2*time.Hour), JitterFull, 30*time.Second),
		build("ladder-9", "Nine attempts over about 26 hours: 10 s up to 24 h, each drawn from its upper half.",
			ladder("10s 30s 2m 10m 30m 2h 8h 24h"), JitterRange, 30*time.Second).spread(0.5, 1),
		build("tripling-8", "Eight attempts over about 9 hours, tripling from 30 s, each between 50 % and 150 %; patient timeouts.",
			rising(8, 30*time.Second, 3, 6*time.Hour), JitterRange, time.Minute).spread(0.5, 1.5).connect(30 * time.Second),
		build("quick", "Six attempts within about half a minute, decorrelated jitter from 1 s to 60 s.",
			rising(6, time.Second, 3, time.Minute), JitterDecorrelated, 30*time.Second),
		build("standard-webhooks", "Ten attempts over about 79 hours: the example schedule of the Standard Webhooks specification, up to 10 % later, adaptive concurrency.",
			ladder("5s 5m 30m 2h 5h 10h 14h 20h 24h"), JitterRange, 30*time.Second).spread(1, 1.1).adaptive(),
	}
	return append(list, lookalikes()...)
}

// lookalikes are the presets named after providers.
func lookalikes() []PresetInfo {
	return []PresetInfo{
		imitate("stripe", "15 retries over 72 hours, growing", "1m 2m 4m 8m 16m 32m 1h 2h 4h 8h 11h 11h 11h 11h 11h57m", 30*time.Second),
		imitate("github", "3 retries over 4 hours, evenly spaced", "80m 80m 80m", 10*time.Second),
		imitate("shopify", "19 retries over 48 hours, growing", "1m 2m 4m 8m 16m 32m 1h 2h 3h57m 4h 4h 4h 4h 4h 4h 4h 4h 4h 4h", 5*time.Second),
		imitate("twilio", "one retry after 15 seconds", "15s", 15*time.Second),
		imitate("sendgrid", "12 retries over 72 hours, growing", "2m 4m 8m 16m 32m 1h 2h 4h 8h 18h 18h 19h58m", 10*time.Second),
		imitate("slack", "3 retries over 30 minutes, growing", "2m 7m 21m", 5*time.Second),
		imitate("paypal", "14 retries over 4 days, growing", "1m 5m 15m 30m 1h 2h 4h 6h 8h 10h 12h 14h 18h 20h9m", 20*time.Second),
		imitate("discord", "5 retries over 30 minutes, growing", "1m 2m 4m 8m 15m", 10*time.Second),
	}
}

// rising returns an exponential ladder.
func rising(attempts int, base time.Duration, multiplier float64, limit time.Duration) Retry {
	return Retry{MaxAttempts: attempts, Backoff: Backoff{Kind: Exponential, Base: base, Multiplier: multiplier, Cap: limit}}
}

// ladder returns a schedule written as in the documentation: "30s 2m 10m 1h".
func ladder(delays string) Retry {
	words := strings.Fields(delays)
	list := make([]time.Duration, len(words))
	for i, word := range words {
		d, err := quantity.ParseDuration(word)
		if err != nil {
			panic("policy: delay of a preset: " + word) // a typing error in this file
		}
		list[i] = d
	}
	return Retry{MaxAttempts: len(list) + 1, Backoff: Backoff{Kind: Schedule, Delays: list}}
}

// build returns a preset that differs from the default in its ladder, jitter
// and timeout, with ten requests in flight.
func build(name, description string, r Retry, jitter JitterKind, total time.Duration) PresetInfo {
	p := Default()
	p.Preset = name
	p.Retry.MaxAttempts = r.MaxAttempts
	p.Retry.Backoff = r.Backoff
	p.Retry.Jitter = Jitter{Kind: jitter}
	if jitter == JitterPercent {
		p.Retry.Jitter.Percent = 20
	}
	p.Timeout = Timeout{Connect: min(10*time.Second, total), Total: total}
	p.Concurrency = Concurrency{Mode: Fixed, Limit: 10}
	return PresetInfo{Name: name, Description: description, Policy: p}
}

// imitate returns the preset named after a provider. Its description must not
// promise that the provider behaves so today.
func imitate(provider, habit, delays string, total time.Duration) PresetInfo {
	return build(provider,
		"Imitates a published table of provider habits, not the vendor's present behaviour: "+habit+".",
		ladder(delays), JitterPercent, total)
}

func (i PresetInfo) spread(low, high float64) PresetInfo {
	i.Policy.Retry.Jitter.Low, i.Policy.Retry.Jitter.High = low, high
	return i
}

func (i PresetInfo) connect(d time.Duration) PresetInfo {
	i.Policy.Timeout.Connect = d
	return i
}

func (i PresetInfo) adaptive() PresetInfo {
	i.Policy.Concurrency = Default().Concurrency
	return i
}

// findPreset looks among the built-in presets.
func findPreset(name string) (PresetInfo, bool) {
	all := Presets()
	if i := slices.IndexFunc(all, func(p PresetInfo) bool { return p.Name == name }); i >= 0 {
		return all[i], true
	}
	return PresetInfo{}, false
}

func presetNames() []string {
	var names []string
	for _, p := range Presets() {
		names = append(names, p.Name)
	}
	return names
}
