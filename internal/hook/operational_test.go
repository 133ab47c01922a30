package hook_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

func TestMatchOperational(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string][]hook.OperationalType{
		"storm.started":   {hook.StormStarted},
		"storm.*":         {hook.StormStarted, hook.StormEnded},
		"system.*":        {hook.SystemQueueGrowing, hook.SystemQueueSettled, hook.BreakersMany, hook.BreakersSettled},
		"*":               hook.OperationalTypes(),
		"storm":           nil,
		"storm.started.*": nil,
		"":                nil,
	} {
		got, err := hook.MatchOperational(pattern)
		if !cmp.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("MatchOperational(%q) = %v, %v, want %v", pattern, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "storm.started") {
			t.Errorf("MatchOperational(%q): %v does not say what is known", pattern, err)
		}
	}
}

func TestStormRatio(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		first, retries int64
		want           float64
	}{{0, 0, 0}, {0, 101, 101}, {20, 101, 5.05}, {3, 100, 33.33}, {1000, 1, 0}} {
		if got := (hook.Storm{First: tc.first, Retries: tc.retries}).Ratio(); got != tc.want {
			t.Errorf("ratio of %d to %d = %v, want %v", tc.retries, tc.first, got, tc.want)
		}
	}
}

func TestEmptyIn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		queue hook.RetryQueue
		want  time.Duration
		ok    bool
	}{
		"drains":            {hook.RetryQueue{Depth: 300, DrainPerMinute: 120}, 150 * time.Second, true},
		"empty":             {hook.RetryQueue{DrainPerMinute: 120}, 0, true},
		"flat":              {hook.RetryQueue{Depth: 300}, 0, false},
		"grows":             {hook.RetryQueue{Depth: 300, DrainPerMinute: -1}, 0, false},
		"not counted":       {hook.RetryQueue{Depth: 10_000, AtLeast: true, DrainPerMinute: 5}, 0, false},
		"longer than years": {hook.RetryQueue{Depth: 1 << 60, DrainPerMinute: 1e-6}, 0, false},
	} {
		if got, ok := tc.queue.EmptyIn(); got != tc.want || ok != tc.ok {
			t.Errorf("%s: EmptyIn = %v, %v, want %v, %v", name, got, ok, tc.want, tc.ok)
		}
	}
}
