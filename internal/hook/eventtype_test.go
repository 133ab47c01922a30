package hook_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

func TestCheckType(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in string
		ok bool
	}{
		"one segment":      {"order", true},
		"two segments":     {"order.paid", true},
		"many segments":    {"a.b.c.d.e.f", true},
		"all characters":   {"azAZ09_-.x", true},
		"only digits":      {"1.2", true},
		"longest":          {strings.Repeat("a", hook.MaxTypeLength), true},
		"too long":         {strings.Repeat("a", hook.MaxTypeLength+1), false},
		"empty":            {"", false},
		"dot":              {".", false},
		"leading dot":      {".order", false},
		"trailing dot":     {"order.", false},
		"double dot":       {"order..paid", false},
		"star":             {"*", false},
		"pattern":          {"order.*", false},
		"space":            {"order paid", false},
		"trailing newline": {"order.paid\n", false},
		"slash":            {"order/paid", false},
		"NUL":              {"order\x00", false},
		"not ASCII":        {"größe", false},
		"full-width dot":   {"order\uff0epaid", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := hook.CheckType(tc.in)
			if tc.ok && err != nil || !tc.ok && !errors.Is(err, hook.ErrBadType) {
				t.Errorf("CheckType(%q) = %v, want ok %v", tc.in, err, tc.ok)
			}
		})
	}
}

func TestCheckPattern(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in string
		ok bool
	}{
		"everything":        {"*", true},
		"exact":             {"order.paid", true},
		"prefix":            {"order.*", true},
		"longer prefix":     {"order.item.*", true},
		"longest":           {strings.Repeat("a", hook.MaxTypeLength-2) + ".*", true},
		"too long":          {strings.Repeat("a", hook.MaxTypeLength-1) + ".*", false},
		"empty":             {"", false},
		"only suffix":       {".*", false},
		"two stars":         {"**", false},
		"star in front":     {"*.paid", false},
		"star in between":   {"order.*.paid", false},
		"star in a segment": {"order.pa*", false},
		"star without dot":  {"order*", false},
		"star twice":        {"order.*.*", false},
		"double dot":        {"order..*", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := hook.CheckPattern(tc.in)
			if tc.ok && err != nil || !tc.ok && !errors.Is(err, hook.ErrBadPattern) {
				t.Errorf("CheckPattern(%q) = %v, want ok %v", tc.in, err, tc.ok)
			}
		})
	}
}

func TestMatchType(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pattern, eventType string
		want               bool
	}{
		"everything":             {"*", "order.paid", true},
		"exact":                  {"order.paid", "order.paid", true},
		"another":                {"order.paid", "order.sent", false},
		"exact is no prefix":     {"order.paid", "order.paid.late", false},
		"exact is no suffix":     {"order.paid.late", "order.paid", false},
		"case counts":            {"order.paid", "Order.paid", false},
		"prefix, one segment":    {"order.*", "order.paid", true},
		"prefix, more segments":  {"order.*", "order.item.added", true},
		"prefix, not itself":     {"order.*", "order", false},
		"prefix, empty segment":  {"order.*", "order.", false},
		"prefix ends at the dot": {"order.*", "orders.paid", false},
		"prefix, deeper":         {"order.item.*", "order.item.added", true},
		"prefix, not its parent": {"order.item.*", "order.item", false},
		"prefix, sibling":        {"order.item.*", "order.paid", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := hook.MatchType(tc.pattern, tc.eventType); got != tc.want {
				t.Errorf("MatchType(%q, %q) = %v, want %v", tc.pattern, tc.eventType, got, tc.want)
			}
		})
	}
}

// typeGrammar is the rule as documented, written a second time.
var typeGrammar = regexp.MustCompile(`\A[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\z`)

func FuzzMatchType(f *testing.F) {
	f.Add("*", "order.paid")
	f.Add("order.*", "order.paid")
	f.Add("order.*", "order")
	f.Add("order.paid", "order.paid")
	f.Add("order.*.*", "order..")
	f.Fuzz(func(t *testing.T, pattern, eventType string) {
		typeOK := hook.CheckType(eventType) == nil
		if want := len(eventType) <= hook.MaxTypeLength && typeGrammar.MatchString(eventType); typeOK != want {
			t.Fatalf("CheckType(%q) ok is %v, want %v", eventType, typeOK, want)
		}
		patternOK := hook.CheckPattern(pattern) == nil
		stem, isPrefix := strings.CutSuffix(pattern, ".*")
		if want := len(pattern) <= hook.MaxTypeLength && (pattern == "*" || typeGrammar.MatchString(stem)); patternOK != want {
			t.Fatalf("CheckPattern(%q) ok is %v, want %v", pattern, patternOK, want)
		}
		if !typeOK || !patternOK {
			return
		}
		want := pattern == "*" || pattern == eventType || isPrefix && segmentsBelow(stem, eventType)
		if got := hook.MatchType(pattern, eventType); got != want {
			t.Fatalf("MatchType(%q, %q) = %v, want %v", pattern, eventType, got, want)
		}
	})
}

// segmentsBelow compares segment by segment.
func segmentsBelow(stem, eventType string) bool {
	want, got := strings.Split(stem, "."), strings.Split(eventType, ".")
	if len(got) <= len(want) {
		return false
	}
	for i, s := range want {
		if got[i] != s {
			return false
		}
	}
	return true
}
