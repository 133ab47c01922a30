package sim_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/sim"
)

func TestReadScenario(t *testing.T) {
	t.Parallel()
	got, err := sim.ReadScenario([]byte(`
name: shop
capacity: 200
latency: 50ms
load: 0.3
endpoints: 3
outages:
  - {at: 1m, for: 10m}
  - {at: 20m, for: 30s, black_hole: true}
crash: {queue: 1s}
warmup: {from: 0.5, over: 1m}
rate_limit: {per_second: 150, burst: 10, retry_after: 2s}
failover: {every: 5m, gap: 10s}
poison: 0.01
shared: true
cliff: {mode: crash}
stray: {share: 0.01, retry_after: 1s}
single_429s:
  - {at: 30s, retry_after: 5s}
flap: {every: 1m, for: 10s}
again: {after: 1h, gap: 5s, for: 2m, capacity: 0.5}
goals: recrashes==0,live_p99<=1m
`))
	if err != nil {
		t.Fatalf("ReadScenario: %v", err)
	}
	second := sim.Duration(time.Second)
	want := sim.Base()
	want.Name, want.Capacity, want.Load, want.Endpoints, want.Poison = "shop", 200, 0.3, 3, 0.01
	want.Latency = sim.Duration(50 * time.Millisecond)
	want.Outages = []sim.Outage{{At: 60 * second, For: 600 * second}, {At: 1200 * second, For: 30 * second, BlackHole: true}}
	want.Crash.Queue = second
	want.Warmup = sim.Warmup{From: 0.5, Over: 60 * second}
	want.RateLimit = sim.RateLimit{PerSecond: 150, Burst: 10, RetryAfter: 2 * second}
	want.Failover = sim.Failover{Every: 300 * second, Gap: 10 * second}
	want.Shared = true
	want.Cliff = sim.Cliff{Mode: sim.CliffCrash, For: 10 * second}
	want.Stray = sim.Stray{Share: 0.01, RetryAfter: second}
	want.Singles = []sim.Single{{At: 30 * second, RetryAfter: 5 * second}}
	want.Flap = sim.Flap{Every: 60 * second, For: 10 * second}
	want.Again = sim.Again{After: 3600 * second, Gap: 5 * second, For: 120 * second, Capacity: 0.5}
	want.Goals = "recrashes==0,live_p99<=1m"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scenario (-want +got):\n%s", diff)
	}
}

func TestExampleScenario(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/scenarios/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sim.ReadScenario(raw); err != nil {
		t.Errorf("the documented example: %v", err)
	}
}

// TestBadScenario: every mistake is named by its field.
func TestBadScenario(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"not yaml":          {"capacity: [", "scenario is not valid YAML"},
		"not an object":     {"- 1", "scenario must be an object (line 1)"},
		"two documents":     {"load: 0.5\n---\nload: 0.4", "scenario must be one document"},
		"too long":          {"name: " + strings.Repeat("x", 70_000), "scenario must be at most 64 KiB"},
		"unknown field":     {"capcity: 5", "capcity unknown field (line 1); known: again, at_once, batch,"},
		"unknown inner":     {"crash: {que: 1s}", "crash.que unknown field (line 1); known: for, overload, queue"},
		"unknown in outage": {"outages: [{at: 1m, for: 1m, hole: true}]", "outages[0].hole unknown field"},
		"twice":             {"load: 0.5\nload: 0.6", "load given twice (line 2)"},
		"text for number":   {"capacity: fast", "capacity must be a number (line 1)"},
		"null":              {"capacity:", "capacity must be a number (line 1)"},
		"list for number":   {"capacity: [1]", "capacity must be a number"},
		"half an endpoint":  {"endpoints: 1.5", "endpoints must be a whole number"},
		"bad bool":          {"new: perhaps", "new must be true or false"},
		"bare duration":     {"latency: 200", "latency must be a duration such as 200ms, 30s or 5m (line 1)"},
		"object for list":   {"outages: {at: 1m}", "outages must be a list"},
		"number for object": {"crash: 5", "crash must be an object (line 1)"},
		"no capacity":       {"capacity: 0", "capacity must be between 0.1 and 100000"},
		"nan":               {"capacity: .nan", "capacity must be between"},
		"infinite":          {"batch: .inf", "batch must be between 0 and 10000"},
		"negative":          {"latency: -1s", "latency must be between 100µs and 2m"},
		"full":              {"load: 1", "load must be between 0.001 and 0.99"},
		"no endpoint":       {"endpoints: 0", "endpoints must be between 1 and 1000"},
		"overlap":           {"outages: [{at: 1m, for: 5m}, {at: 3m, for: 1m}]", "outages[1].at must not be before the end"},
		"empty outage":      {"outages: [{at: 1m, for: 0s}]", "outages[0].for must be between 1s and 30d"},
		"huge outage":       {"outages: [{at: 1m, for: 2000000h}]", "outages[0].for must be between"},
		"no room":           {"load: 0.8\ncapacity_after: 0.7", "load leaves nothing to drain a backlog with"},
		"throttled below":   {"rate_limit: {per_second: 20, burst: 20, retry_after: 1s}", "load leaves nothing"},
		"no burst":          {"rate_limit: {per_second: 40}", "rate_limit needs a burst"},
		"long gap":          {"failover: {every: 10s, gap: 20s}", "failover.gap must be shorter than failover.every"},
		"cold for ever":     {"warmup: {over: 1m}", "warmup.from must be above 0"},
		"too many events":   {"capacity: 100000\noutages: [{at: 1m, for: 24h}]", "capacity makes a run of"},
		"too long a run":    {"load: 0.98\noutages: [{at: 1m, for: 20d}]", "outages make a run of more than 30 days"},
		"no such cliff":     {"cliff: {mode: steep}", "cliff.mode must be crash, hang or refuse"},
		"small cliff":       {"cliff: {mode: crash}\ncapacity: 0.5", "capacity must be at least 1 with a cliff"},
		"short window":      {"cliff: {mode: crash, window: 100ms}\ncapacity: 5", "capacity must be at least 1 with a cliff, in each window"},
		"long window":       {"cliff: {mode: crash, window: 2m}", "cliff.window"},
		"two capacities":    {"cliff: {mode: refuse}\ncapacity_after: 0.7", "capacity_after does not go with a cliff"},
		"stray at once":     {"stray: {share: 0.1}", "stray.retry_after must be whole seconds between 1s and 1h"},
		"all stray":         {"stray: {share: 1, retry_after: 1s}", "stray.share must be between 0 and 0.99"},
		"single at once":    {"single_429s: [{at: 1m, retry_after: 1500ms}]", "single_429s[0].retry_after must be whole seconds"},
		"single list":       {"single_429s: 1m", "single_429s must be a list of {at, retry_after}"},
		"half a flap":       {"flap: {every: 1m}", "flap needs both every and for"},
		"never again":       {"again: {for: 1m}", "again.after must be above 0"},
		"again what":        {"outages: []\nagain: {after: 1h}", "again needs an outage"},
		"again too late":    {"again: {after: 1m, gap: 2m}", "again.gap must be shorter than again.after"},
		"again smaller":     {"again: {after: 1h, capacity: 0.5}", "again.capacity needs a cliff"},
		"again too small":   {"cliff: {mode: crash}\nagain: {after: 1h, capacity: 0.4}", "again.capacity leaves nothing"},
		"again for ever":    {"again: {after: 29d}\nload: 0.9\noutages: [{at: 1m, for: 1d}]", "outages make a run of more than 30 days"},
		"bad goals":         {"goals: fast", `goals "fast" must be a comparison`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := sim.ReadScenario([]byte(tc.text))
			if _, ok := errors.AsType[*hook.Invalid](err); !ok {
				t.Fatalf("error %T, want *hook.Invalid", err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q, want %q in it", err, tc.want)
			}
		})
	}
}

// TestAllMistakes: a file with several is not read several times.
func TestAllMistakes(t *testing.T) {
	t.Parallel()
	_, err := sim.ReadScenario([]byte("capacity: -1\nlatency: 1h\npoison: 2"))
	const want = "capacity must be between 0.1 and 100000; latency must be between 100µs and 2m; poison must be between 0 and 0.99"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestBuiltInScenarios(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, set := range sim.Sets() {
		for _, s := range set.Scenarios {
			if err := s.Check(); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
			if names[s.Name] {
				t.Errorf("two scenarios are called %s", s.Name)
			}
			names[s.Name] = true
		}
	}
	if n := len(sim.Matrix()); n != 12 {
		t.Errorf("the matrix has %d rows, want 12", n)
	}
	if n := len(sim.Cliffs()); n != 3*3*3*3+26 {
		t.Errorf("%d scenarios with cliffs and their like, want 107", n)
	}
}

// FuzzReadScenario: no file may crash the reader, and what it takes can be
// simulated.
func FuzzReadScenario(f *testing.F) {
	raw, err := os.ReadFile("../../docs/scenarios/example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(raw))
	f.Add("capacity: 5\noutages: []\nbatch: 0\nendpoints: 2")
	f.Add("{\"load\": 0.01, \"crash\": {\"queue\": \"0s\"}}")
	f.Add("&a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := sim.ReadScenario([]byte(text))
		if err != nil {
			return
		}
		if err := s.Check(); err != nil {
			t.Fatalf("it was read but is not right: %v", err)
		}
		if s.Capacity*float64(s.Endpoints) > 100 || len(s.Outages) > 3 {
			return // right, but it would take too long here
		}
		s.Horizon = sim.Duration(time.Minute)
		if len(s.Outages) > 0 && s.Outages[len(s.Outages)-1].At > sim.Duration(time.Hour) {
			return
		}
		for i := range s.Outages {
			s.Outages[i].For = min(s.Outages[i].For, sim.Duration(time.Minute))
		}
		s.Batch, s.BatchAt = min(s.Batch, 10), 0
		if s.Check() == nil {
			st, _ := sim.ParseStrategy("law")
			sim.Run(s, st, 1)
		}
	})
}
