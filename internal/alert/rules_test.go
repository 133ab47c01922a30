package alert_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

const (
	acme  hook.ID = 100
	ep    hook.ID = 200
	one           = hook.LevelEndpoint
	ten           = hook.LevelTenant
	fleet         = hook.LevelSystem
)

// figures counts: pairs of a counter and how many.
func figures(pairs ...any) (c stats.Counts) {
	for i := 0; i < len(pairs); i += 2 {
		c.Add(pairs[i].(stats.Counter), uint64(pairs[i+1].(int)))
	}
	return c
}

var (
	first     = stats.Attempts(hook.First)
	retry     = stats.Attempts(hook.Retry)
	once      = stats.Delivered(1)
	twice     = stats.Delivered(2)
	oftener   = stats.Delivered(3)
	exhausted = stats.Dead(hook.DeadExhausted)
	expired   = stats.Dead(hook.DeadExpired)
)

func subject(l hook.AlertLevel) hook.AlertSubject {
	switch l {
	case one:
		return hook.AlertSubject{Tenant: acme, Endpoint: ep}
	case ten:
		return hook.AlertSubject{Tenant: acme}
	default:
		return hook.AlertSubject{}
	}
}

// ruleCase is a reading and whether a rule fires on it.
type ruleCase struct {
	what  string
	at    []hook.AlertLevel
	r     alert.Reading
	fires hook.Severity // at the first of the levels; 0: silent
	value float64
}

var everywhere = []hook.AlertLevel{one, ten, fleet}

func hour(pairs ...any) alert.Reading    { return alert.Reading{Hour: figures(pairs...)} }
func quarter(pairs ...any) alert.Reading { return alert.Reading{Quarter: figures(pairs...)} }
func daily(pairs ...any) alert.Reading   { return alert.Reading{Day: figures(pairs...)} }
func lane(l alert.Lane) alert.Reading    { return alert.Reading{Lane: l} }
func fleetIs(s alert.System) alert.Reading {
	return alert.Reading{System: s}
}

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func storm(firsts, retries int64) alert.Reading {
	return lane(alert.Lane{Storm: hook.Storm{First: firsts, Retries: retries}})
}

func hold(p float64) alert.Reading {
	return lane(alert.Lane{Held: 7, MaxHold: 100 * time.Hour, OldestHeld: time.Duration(p * float64(time.Hour))})
}

func paused(why hook.PauseReason) alert.Reading {
	return alert.Reading{Tenant: alert.Tenant{Replays: []alert.PausedReplay{{ID: 300, Reason: why, Fed: 10, Total: 40}}}}
}

func depths(n ...int64) alert.Reading { return fleetIs(alert.System{Depths: n}) }

const (
	info    = hook.SeverityInfo
	warning = hook.SeverityWarning
	page    = hook.SeverityPage
)

// cases has, for every rule, what fires it and what does not quite: at its
// healthy edge, at the threshold itself, and with one sample too few.
var cases = map[string][]ruleCase{
	"retry_storm": {
		{"no first attempts", []hook.AlertLevel{one}, storm(0, 101), page, 101},
		{"no first attempts, 100 retries", []hook.AlertLevel{one}, storm(0, 100), 0, 0},
		{"ratio just above", []hook.AlertLevel{one}, storm(20, 101), page, 5.05},
		{"ratio at the limit", []hook.AlertLevel{one}, storm(21, 105), 0, 0},
		{"many, ratio just below", []hook.AlertLevel{one}, storm(1000, 4999), 0, 0},
		{"many, ratio just above", []hook.AlertLevel{one}, storm(1000, 5001), page, 5},
		{"nothing", []hook.AlertLevel{one}, storm(0, 0), 0, 0},
		{"healthy: as many retries as first attempts", []hook.AlertLevel{one}, storm(1000, 1000), 0, 0},
		{"from figures", []hook.AlertLevel{one}, quarter(first, 20, retry, 101), page, 5.05},
		{"from figures, at the limit", []hook.AlertLevel{one}, quarter(first, 21, retry, 105), 0, 0},
	},
	"retry_queue_growing": {
		{"grown", []hook.AlertLevel{one}, lane(alert.Lane{Depth: 302, DepthBefore: 201}), warning, 302},
		{"from nothing", []hook.AlertLevel{one}, lane(alert.Lane{Depth: 101}), warning, 101},
		{"grown by 100", []hook.AlertLevel{one}, lane(alert.Lane{Depth: 100}), 0, 0},
		{"grown by half", []hook.AlertLevel{one}, lane(alert.Lane{Depth: 3000, DepthBefore: 2000}), 0, 0},
		{"healthy: flat", []hook.AlertLevel{one}, lane(alert.Lane{Depth: 5000, DepthBefore: 5000}), 0, 0},
		{"falling", []hook.AlertLevel{one}, lane(alert.Lane{Depth: 100, DepthBefore: 5000}), 0, 0},
	},
	"endpoint_errors": {
		{"5 of 20", []hook.AlertLevel{one}, quarter(first, 20, stats.FailedFirst, 5), warning, 25},
		{"at the limit", []hook.AlertLevel{one}, quarter(first, 20, stats.FailedFirst, 4), 0, 0},
		{"healthy edge", []hook.AlertLevel{one}, quarter(first, 1000, stats.FailedFirst, 50), 0, 0},
		{"sample: all fail, one too few", []hook.AlertLevel{one}, quarter(first, 19, stats.FailedFirst, 19), 0, 0},
	},
	"endpoint_failing": {
		{"5 in a row", []hook.AlertLevel{one}, lane(alert.Lane{Failures: 5, LastStatus: 503}), warning, 5},
		{"4 in a row", []hook.AlertLevel{one}, lane(alert.Lane{Failures: 4, LastError: "connect_refused"}), 0, 0},
		{"healthy", []hook.AlertLevel{one}, lane(alert.Lane{}), 0, 0},
	},
	"breaker_open": {
		{"open", []hook.AlertLevel{one}, lane(alert.Lane{Open: true, OpenedAt: ago(time.Hour), Held: 8120}), warning, 1},
		{"opened and closed between two rounds", []hook.AlertLevel{one}, lane(alert.Lane{OpenedAt: ago(10 * time.Second), ClosedAt: ago(7 * time.Second)}), warning, 1},
		{"healthy: never opened", []hook.AlertLevel{one}, lane(alert.Lane{}), 0, 0},
		{"closed a while ago", []hook.AlertLevel{one}, lane(alert.Lane{OpenedAt: ago(2 * time.Minute), ClosedAt: ago(time.Minute)}), 0, 0},
	},
	"breaker_open_long": {
		{"31 minutes", []hook.AlertLevel{one}, lane(alert.Lane{Open: true, OpenedAt: ago(31 * time.Minute)}), page, 1860},
		{"30 minutes", []hook.AlertLevel{one}, lane(alert.Lane{Open: true, OpenedAt: ago(30 * time.Minute)}), 0, 0},
		{"healthy: closed", []hook.AlertLevel{one}, lane(alert.Lane{OpenedAt: ago(time.Hour), ClosedAt: ago(time.Minute)}), 0, 0},
	},
	"hold_expiring": {
		{"more than half", []hook.AlertLevel{one}, hold(50.1), warning, 50.1},
		{"healthy edge: half", []hook.AlertLevel{one}, hold(50), 0, 0},
		{"90 %", []hook.AlertLevel{one}, hold(90), warning, 90},
		{"more than 90 %", []hook.AlertLevel{one}, hold(90.1), page, 90.1},
		{"overdue", []hook.AlertLevel{one}, hold(101), page, 101},
		{"nothing held", []hook.AlertLevel{one}, lane(alert.Lane{MaxHold: time.Hour}), 0, 0},
	},
	"endpoint_disabled": {
		{"gone", []hook.AlertLevel{one}, lane(alert.Lane{Disabled: true, DisabledReason: "gone"}), page, 1},
		{"failing", []hook.AlertLevel{one}, lane(alert.Lane{Disabled: true, DisabledReason: "failing", LastStatus: 500}), page, 1},
		{"by hand", []hook.AlertLevel{one}, lane(alert.Lane{Disabled: true, DisabledReason: "manual"}), 0, 0},
		{"healthy: active", []hook.AlertLevel{one, ten}, alert.Reading{}, 0, 0},
		{"one of the tenant's", []hook.AlertLevel{ten}, alert.Reading{Tenant: alert.Tenant{Disabled: 1}}, page, 1},
	},
	"dead_letters_growing": {
		{"one", []hook.AlertLevel{one, ten}, quarter(exhausted, 1), warning, 1},
		{"of several reasons", []hook.AlertLevel{one}, quarter(exhausted, 1, expired, 3), warning, 4},
		{"healthy: none", []hook.AlertLevel{one, ten}, quarter(once, 1000), 0, 0},
	},
	"retry_rate": {
		{"11 of 100", everywhere, hour(once, 89, twice, 6, oftener, 5), warning, 11},
		{"at the limit", everywhere, hour(once, 90, twice, 10), 0, 0},
		{"healthy edge", everywhere, hour(once, 950, twice, 50), 0, 0},
		{"sample: all retried, one too few", everywhere, hour(twice, 99), 0, 0},
	},
	"dead_rate": {
		{"2 of 100", []hook.AlertLevel{one, ten}, daily(once, 98, exhausted, 2), warning, 2},
		{"2 of 100, everywhere", []hook.AlertLevel{fleet}, daily(once, 98, exhausted, 2), page, 2},
		{"at the limit", everywhere, daily(once, 99, exhausted, 1), 0, 0},
		{"healthy edge", everywhere, daily(once, 995, exhausted, 5), 0, 0},
		{"sample: all dead, one too few", everywhere, daily(exhausted, 99), 0, 0},
	},
	"success_rate": {
		{"98 of 100", []hook.AlertLevel{ten}, hour(once, 90, oftener, 8, exhausted, 2), warning, 98},
		{"98 of 100, everywhere", []hook.AlertLevel{fleet}, hour(once, 98, exhausted, 2), page, 98},
		{"at the limit", []hook.AlertLevel{ten, fleet}, hour(once, 99, exhausted, 1), 0, 0},
		{"healthy edge", []hook.AlertLevel{ten, fleet}, hour(once, 995, exhausted, 5), 0, 0},
		{"sample: all dead, one too few", []hook.AlertLevel{ten, fleet}, hour(exhausted, 99), 0, 0},
	},
	"attempts_to_success": {
		{"2.01 on average", []hook.AlertLevel{one, fleet}, hour(once, 50, oftener, 50, stats.TriesOfDelivered, 201), warning, 2.01},
		{"at the limit", []hook.AlertLevel{one, fleet}, hour(twice, 100, stats.TriesOfDelivered, 200), 0, 0},
		{"healthy edge", []hook.AlertLevel{one, fleet}, hour(once, 85, oftener, 15, stats.TriesOfDelivered, 130), 0, 0},
		{"sample: many tries, one too few", []hook.AlertLevel{one, fleet}, hour(oftener, 99, stats.TriesOfDelivered, 900), 0, 0},
	},
	"second_attempt_success": {
		{"29 of 50", []hook.AlertLevel{one, fleet}, hour(stats.SecondTries, 50, twice, 29), info, 58},
		{"at the limit", []hook.AlertLevel{one, fleet}, hour(stats.SecondTries, 50, twice, 30), 0, 0},
		{"healthy edge", []hook.AlertLevel{one, fleet}, hour(stats.SecondTries, 50, twice, 40), 0, 0},
		{"sample: none succeeds, one too few", []hook.AlertLevel{one, fleet}, hour(stats.SecondTries, 49), 0, 0},
	},
	"delivery_latency_p99": {
		{"6 minutes", []hook.AlertLevel{one, fleet}, hour(stats.DeliveryTook(time.Second), 98, stats.DeliveryTook(7*time.Minute), 2), warning, math.NaN()},
		{"one in a hundred", []hook.AlertLevel{one, fleet}, hour(stats.DeliveryTook(time.Second), 99, stats.DeliveryTook(time.Hour), 1), 0, 0},
		{"below the limit", []hook.AlertLevel{one, fleet}, hour(stats.DeliveryTook(4*time.Minute), 100), 0, 0},
		{"healthy edge", []hook.AlertLevel{one, fleet}, hour(stats.DeliveryTook(time.Minute), 100), 0, 0},
		{"sample: all slow, one too few", []hook.AlertLevel{one, fleet}, hour(stats.DeliveryTook(time.Hour), 99), 0, 0},
	},
	"long_retry": {
		{"101", []hook.AlertLevel{ten}, alert.Reading{Tenant: alert.Tenant{PendingLong: 101}}, warning, 101},
		{"101 of all", []hook.AlertLevel{fleet}, fleetIs(alert.System{PendingLong: 101}), warning, 101},
		{"at the limit", []hook.AlertLevel{ten, fleet}, alert.Reading{Tenant: alert.Tenant{PendingLong: 100}, System: alert.System{PendingLong: 100}}, 0, 0},
		{"healthy edge", []hook.AlertLevel{ten, fleet}, alert.Reading{Tenant: alert.Tenant{PendingLong: 10}, System: alert.System{PendingLong: 10}}, 0, 0},
	},
	"replay_paused": {
		{"by errors", []hook.AlertLevel{ten}, paused(hook.PausedByErrors), info, 1},
		{"by the breaker", []hook.AlertLevel{ten}, paused(hook.PausedByBreaker), info, 1},
		{"stuck", []hook.AlertLevel{ten}, paused(hook.PausedStuck), warning, 1},
		{"by a person", []hook.AlertLevel{ten}, paused(hook.PausedByUser), 0, 0},
		{"healthy: none", []hook.AlertLevel{ten}, alert.Reading{}, 0, 0},
	},
	"dead_letters_expiring": {
		{"one", []hook.AlertLevel{ten}, alert.Reading{Tenant: alert.Tenant{Expiring: 1}}, warning, 1},
		{"healthy: none", []hook.AlertLevel{ten}, alert.Reading{}, 0, 0},
	},
	"retry_queue_growing_system": {
		{"ten minutes", []hook.AlertLevel{fleet}, depths(90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 101), page, 101},
		{"ten minutes, few", []hook.AlertLevel{fleet}, depths(89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 100), 0, 0},
		{"nine minutes", []hook.AlertLevel{fleet}, depths(900, 900, 910, 920, 930, 940, 950, 960, 970, 980, 990), 0, 0},
		{"nine minutes known", []hook.AlertLevel{fleet}, depths(900, 910, 920, 930, 940, 950, 960, 970, 980, 990), 0, 0},
		{"healthy: flat", []hook.AlertLevel{fleet}, depths(500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500), 0, 0},
		{"nothing known", []hook.AlertLevel{fleet}, depths(), 0, 0},
	},
	"breakers_many": {
		{"5 of 50", []hook.AlertLevel{fleet}, fleetIs(alert.System{LanesOpened: 5, LanesActive: 50}), page, 5},
		{"5 of 51", []hook.AlertLevel{fleet}, fleetIs(alert.System{LanesOpened: 5, LanesActive: 51}), 0, 0},
		{"4 of 4", []hook.AlertLevel{fleet}, fleetIs(alert.System{LanesOpened: 4, LanesActive: 4}), 0, 0},
		{"healthy: none", []hook.AlertLevel{fleet}, fleetIs(alert.System{LanesActive: 50}), 0, 0},
	},
	"local_errors": {
		{"3", []hook.AlertLevel{fleet}, fleetIs(alert.System{LocalErrors: 3}), page, 3},
		{"2", []hook.AlertLevel{fleet}, fleetIs(alert.System{LocalErrors: 2}), 0, 0},
		{"healthy: none", []hook.AlertLevel{fleet}, fleetIs(alert.System{}), 0, 0},
	},
	"store_slow": {
		{"1.1 s", []hook.AlertLevel{fleet}, fleetIs(alert.System{CommitP99: 1100 * time.Millisecond}), page, 1.1},
		{"at the limit", []hook.AlertLevel{fleet}, fleetIs(alert.System{CommitP99: time.Second}), 0, 0},
		{"healthy edge", []hook.AlertLevel{fleet}, fleetIs(alert.System{CommitP99: 100 * time.Millisecond}), 0, 0},
	},
	"disk_low": {
		{"below twice the reserve", []hook.AlertLevel{fleet}, fleetIs(alert.System{DiskFree: 1<<30 - 1, DiskReserve: 512 << 20}), page, 1<<30 - 1},
		{"healthy edge: twice the reserve", []hook.AlertLevel{fleet}, fleetIs(alert.System{DiskFree: 1 << 30, DiskReserve: 512 << 20}), 0, 0},
		{"no disk watched", []hook.AlertLevel{fleet}, fleetIs(alert.System{}), 0, 0},
	},
	"shard_unowned": {
		{"31 s", []hook.AlertLevel{fleet}, fleetIs(alert.System{Unowned: []alert.UnownedShard{{3, 31 * time.Second}, {4, time.Second}}}), page, 31},
		{"at the limit", []hook.AlertLevel{fleet}, fleetIs(alert.System{Unowned: []alert.UnownedShard{{3, 30 * time.Second}}}), 0, 0},
		{"healthy: none", []hook.AlertLevel{fleet}, fleetIs(alert.System{}), 0, 0},
	},
	"settle_stalled": {
		{"11 s", []hook.AlertLevel{fleet}, fleetIs(alert.System{OldestResult: 11 * time.Second}), page, 11},
		{"at the limit", []hook.AlertLevel{fleet}, fleetIs(alert.System{OldestResult: 10 * time.Second}), 0, 0},
		{"healthy edge", []hook.AlertLevel{fleet}, fleetIs(alert.System{OldestResult: time.Second}), 0, 0},
	},
	"clock_skew": {
		{"ahead", []hook.AlertLevel{fleet}, fleetIs(alert.System{Nodes: []alert.NodeClock{{1, "a", 2100 * time.Millisecond}, {2, "b", 0}}}), warning, 2.1},
		{"behind", []hook.AlertLevel{fleet}, fleetIs(alert.System{Nodes: []alert.NodeClock{{1, "a", -3 * time.Second}}}), warning, 3},
		{"at the limit", []hook.AlertLevel{fleet}, fleetIs(alert.System{Nodes: []alert.NodeClock{{1, "a", 2 * time.Second}, {2, "b", -2 * time.Second}}}), 0, 0},
		{"healthy edge", []hook.AlertLevel{fleet}, fleetIs(alert.System{Nodes: []alert.NodeClock{{1, "a", 500 * time.Millisecond}}}), 0, 0},
	},
	"channel_failing": {
		{"one", []hook.AlertLevel{fleet}, fleetIs(alert.System{Channels: []alert.FailedChannel{{9, "ops", "status 404", 0}}}), warning, 1},
		{"healthy: none", []hook.AlertLevel{fleet}, fleetIs(alert.System{}), 0, 0},
	},
}

// firm returns the finding of a rule, nil when there is none that could fire.
func firm(findings []alert.Finding, rule string) *alert.Finding {
	for i := range findings {
		if f := &findings[i]; f.Rule == rule && !f.Weak {
			return f
		}
	}
	return nil
}

func TestRulesFireAndStaySilent(t *testing.T) {
	t.Parallel()
	for rule, list := range cases {
		for _, tc := range list {
			for _, level := range tc.at {
				t.Run(fmt.Sprintf("%s/%s/%s", rule, tc.what, level), func(t *testing.T) {
					t.Parallel()
					r := tc.r
					r.At, r.Subject = noon, subject(level)
					f := firm(alert.Judge(alert.Thresholds{}, &r), rule)
					if (f != nil) != (tc.fires != 0) {
						t.Fatalf("found %+v, want severity %v", f, tc.fires)
					}
					if f == nil {
						return
					}
					if f.Severity != tc.fires || f.Level != level || f.Subject.Tenant != r.Subject.Tenant {
						t.Errorf("%v at %v about %v, want %v", f.Severity, f.Level, f.Subject, tc.fires)
					}
					if !math.IsNaN(tc.value) && math.Abs(f.Value-tc.value) > 1e-6 {
						t.Errorf("value %v, want %v", f.Value, tc.value)
					}
					sentence(t, f.Summary)
				})
			}
		}
	}
}

// sentence checks what people read.
func sentence(t *testing.T, s string) {
	t.Helper()
	if !strings.HasSuffix(s, ".") || strings.Contains(s, "%!") || strings.Contains(s, "NaN") || strings.Contains(s, "  ") || len(s) > 400 {
		t.Errorf("not a sentence: %q", s)
	}
}

// TestEveryRuleHasCases: every rule is seen firing and silent at each of its
// levels, with every severity, and with one sample too few if it needs samples.
func TestEveryRuleHasCases(t *testing.T) {
	t.Parallel()
	for _, rule := range alert.Rules() {
		if rule.Name == alert.TooManyAlerts {
			continue // the board's own; see its tests
		}
		var sample bool
		for _, at := range rule.At {
			var silent bool
			seen := map[hook.Severity]bool{}
			for _, tc := range cases[rule.Name] {
				if !slices.Contains(tc.at, at.Level) {
					continue
				}
				silent = silent || tc.fires == 0
				seen[tc.fires] = true
				sample = sample || strings.HasPrefix(tc.what, "sample: ") && tc.fires == 0
			}
			for _, s := range at.Steps {
				if !seen[s] {
					t.Errorf("%s never fires as %v at %v", rule.Name, s, at.Level)
				}
			}
			if !silent {
				t.Errorf("%s is never silent at %v", rule.Name, at.Level)
			}
		}
		if rule.MinSamples() > 0 && !sample {
			t.Errorf("%s has no case with one sample too few", rule.Name)
		}
	}
	for name := range cases {
		if alert.Lookup(name) == nil {
			t.Errorf("there is no rule %s", name)
		}
	}
}

// TestThresholdsMoveRules: every threshold is used. Whatever fires a rule by
// default falls silent when the threshold is moved to where it asks for most, or
// what was silent fires when it asks for least.
func TestThresholdsMoveRules(t *testing.T) {
	t.Parallel()
	for _, rule := range alert.Rules() {
		for _, f := range rule.Fields {
			if f.Name == "for" || f.Name == "within" || f.Name == "age" && rule.Name == "long_retry" {
				continue // the board's, or the evaluator's: it counts by them
			}
			if !moves(t, rule, f) {
				t.Errorf("alerts.%s.%s changes nothing", rule.Name, f.Name)
			}
		}
	}
}

func moves(t *testing.T, rule *alert.Rule, f alert.Field) bool {
	t.Helper()
	for _, to := range []float64{f.Low, f.High} {
		th, err := alert.Thresholds{}.With(rule.Name, f.Name, f.Format(to))
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range cases[rule.Name] {
			for _, level := range tc.at {
				r := tc.r
				r.At, r.Subject = noon, subject(level)
				before, after := firm(alert.Judge(alert.Thresholds{}, &r), rule.Name), firm(alert.Judge(th, &r), rule.Name)
				if (before == nil) != (after == nil) || before != nil && before.Severity != after.Severity {
					return true
				}
			}
		}
	}
	return false
}

func TestRetriesPerDeliveryCanBeAskedForInstead(t *testing.T) {
	t.Parallel()
	th, err := alert.Thresholds{}.With("attempts_to_success", "retries_per_delivery", "2")
	if err != nil {
		t.Fatal(err)
	}
	for tries, want := range map[int]bool{300: false, 301: true} {
		r := hour(oftener, 100, stats.TriesOfDelivered, tries)
		if got := firm(alert.Judge(th, &r), "attempts_to_success") != nil; got != want {
			t.Errorf("%d attempts for 100: fires %v, want %v", tries, got, want)
		}
	}
}

func TestRulesCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	r := storm(0, 101)
	r.At, r.Subject = noon, subject(one)
	off, err := alert.Thresholds{}.WithRule("retry_storm", false)
	if err != nil {
		t.Fatal(err)
	}
	if f := firm(alert.Judge(off, &r), "retry_storm"); f != nil {
		t.Errorf("a rule that is off found %+v", f)
	}
	on, err := off.WithRule("retry_storm", true)
	if err != nil || firm(alert.Judge(on, &r), "retry_storm") == nil {
		t.Errorf("a rule that is on again is silent (%v)", err)
	}
	if !(alert.Thresholds{}).Enabled("retry_storm") || off.Enabled("retry_storm") {
		t.Error("Enabled does not tell")
	}
}

func TestThresholdsRefuseWhatIsOutOfBounds(t *testing.T) {
	t.Parallel()
	for _, bad := range [][3]string{
		{"nothing", "percent", "5"},
		{"dead_rate", "nothing", "5"},
		{"dead_rate", "percent", "0"},
		{"dead_rate", "percent", "101"},
		{"dead_rate", "percent", "NaN"},
		{"dead_rate", "min_samples", "1.5"},
		{"store_slow", "p99", "1"},
		{"store_slow", "p99", "1h"},
		{"store_slow", "for", "-1s"},
	} {
		if _, err := (alert.Thresholds{}).With(bad[0], bad[1], bad[2]); err == nil || !strings.Contains(err.Error(), "alerts."+bad[0]) {
			t.Errorf("%v: %v, want an error that names the setting", bad, err)
		}
	}
	if _, err := (alert.Thresholds{}).WithRule("nothing", false); err == nil {
		t.Error("a rule that does not exist was switched off")
	}
	same, _ := alert.Thresholds{}.With("hold_expiring", "percent", "90")
	if same.Check() == nil || (alert.Thresholds{}).Check() != nil {
		t.Error("Check does not see two equal steps")
	}
}

// TestTableIsSound: what settings, documentation and Prometheus rules are made
// from is complete.
func TestTableIsSound(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, r := range alert.Rules() {
		if !name.MatchString(r.Name) || seen[r.Name] {
			t.Errorf("rule %q: bad or twice", r.Name)
		}
		seen[r.Name] = true
		if alert.Lookup(r.Name) != r || !strings.HasSuffix(r.Meaning, ".") || r.Metric == "" || r.Healthy == "" || len(r.At) == 0 {
			t.Errorf("%s is incomplete", r.Name)
		}
		if r.Runbook() != "docs/alerts.md#"+r.Name {
			t.Errorf("%s: runbook %s", r.Name, r.Runbook())
		}
		for _, at := range r.At {
			if len(at.Steps) == 0 || !slices.IsSorted(at.Steps) || r.Severity(at.Level, 0) != at.Steps[0] {
				t.Errorf("%s: severities %v do not rise", r.Name, at.Steps)
			}
		}
		fields := map[string]bool{"enabled": true}
		for _, f := range r.Fields {
			if fields[f.Name] || !name.MatchString(f.Name) || f.Doc == "" {
				t.Errorf("%s.%s: bad, twice or without a word", r.Name, f.Name)
			}
			fields[f.Name] = true
			if v, err := f.Parse(f.Format(f.Default)); err != nil || v != f.Default {
				t.Errorf("%s.%s: default %v reads as %v, %v", r.Name, f.Name, f.Default, v, err)
			}
			if f.Low > f.High || f.Bounds() == "" {
				t.Errorf("%s.%s: bounds %s", r.Name, f.Name, f.Bounds())
			}
		}
		if q := r.Query(alert.Thresholds{}); strings.Contains(regexp.MustCompile(`\{[a-z]+=~?"[^}]*\}`).ReplaceAllString(q, ""), "{") || strings.Contains(q, "NaN") {
			t.Errorf("%s: query %s has an unknown threshold", r.Name, q)
		}
	}
}

// TestGrowthKeepsAlertsOpen: a queue that still grows, but less, is no new alert
// and keeps the old one.
func TestGrowthKeepsAlertsOpen(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rule       string
		r          alert.Reading
		level      hook.AlertLevel
		weak, none bool
	}{
		"one more":                  {"retry_queue_growing", lane(alert.Lane{Depth: 5001, DepthBefore: 5000}), one, true, false},
		"where counting stopped":    {"retry_queue_growing", lane(alert.Lane{Depth: 10000, DepthBefore: 10000, AtLeast: true}), one, true, false},
		"flat":                      {"retry_queue_growing", lane(alert.Lane{Depth: 5000, DepthBefore: 5000}), one, false, true},
		"all grew 5 minutes ago":    {"retry_queue_growing_system", depths(500, 501, 501, 501, 501, 501), fleet, true, false},
		"all grew 6 minutes ago":    {"retry_queue_growing_system", depths(500, 501, 501, 501, 501, 501, 501), fleet, false, true},
		"all grow, not long enough": {"retry_queue_growing_system", depths(500, 501), fleet, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tc.r
			r.At, r.Subject = noon, subject(tc.level)
			findings := alert.Judge(alert.Thresholds{}, &r)
			i := slices.IndexFunc(findings, func(f alert.Finding) bool { return f.Rule == tc.rule })
			if (i < 0) != tc.none || i >= 0 && findings[i].Weak != tc.weak {
				t.Errorf("found %+v", findings)
			}
		})
	}
}

// TestSummariesSpeak: a few of the sentences, word for word.
func TestSummariesSpeak(t *testing.T) {
	t.Parallel()
	for rule, tc := range map[string]struct {
		level hook.AlertLevel
		r     alert.Reading
		want  string
	}{
		"retry_storm": {
			one, storm(12, 1204),
			"hooks.acme.example/in got 1,204 retries against 12 first attempts in 15 minutes (ratio 100.3; limit 5). Look at its lane and its last error: it is failing what it is sent.",
		},
		"endpoint_failing": {
			one, lane(alert.Lane{Failures: 6, LastStatus: 503}),
			"hooks.acme.example/in failed 6 attempts in a row, the last one with status 503. Ask whoever runs it.",
		},
		"breaker_open": {
			one, lane(alert.Lane{Open: true, OpenedAt: ago(372 * time.Second), Held: 8120, LastError: "connection refused"}),
			"hooks.acme.example/in is down: its breaker has been open for 6m12s after connection refused, and 8,120 deliveries are held. Nothing is lost; a probe finds out when it is back. Look at its last error.",
		},
		"hold_expiring": {
			one, hold(90.5),
			"hooks.acme.example/in: the oldest of 7 deliveries has been held for 90h30m of 100h (90.5 %) and becomes a dead letter in 9h30m. Bring the endpoint back, or raise breaker.max_hold.",
		},
		"disk_low": {
			fleet, fleetIs(alert.System{DiskFree: 700 << 20, DiskReserve: 512 << 20}),
			"700 MiB are free on the store's disk; below 512 MiB new events are refused with 507. Make room, or shorten retention.data.",
		},
		"replay_paused": {
			ten, paused(hook.PausedStuck),
			"Replay rpl_000000000009c paused itself (stuck) after 10 of 40 deliveries. It waits for a person: find out what fails, then resume or cancel it.",
		},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			r := tc.r
			r.At, r.Subject, r.Name = noon, subject(tc.level), "hooks.acme.example/in"
			f := firm(alert.Judge(alert.Thresholds{}, &r), rule)
			if f == nil || f.Summary != tc.want {
				t.Errorf("%+v\nwant %s", f, tc.want)
			}
		})
	}
}

func TestABreakerThatClosedTellsForHowLong(t *testing.T) {
	t.Parallel()
	r := lane(alert.Lane{OpenedAt: ago(400 * time.Second), ClosedAt: ago(28 * time.Second), Held: 8120})
	r.At, r.Subject = noon, subject(one)
	e := alert.Endings(&r)
	if len(e) != 2 || e[0].Rule != alert.BreakerOpen || !strings.Contains(e[0].Summary, "closed after 6m12s, with 8,120 deliveries held") {
		t.Errorf("endings %+v", e)
	}
	r.Lane.Open = true
	if e := alert.Endings(&r); e != nil {
		t.Errorf("an open breaker has ended: %+v", e)
	}
}
