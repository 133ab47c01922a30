package deliveries

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

func TestBodies(t *testing.T) {
	t.Parallel()
	text := func(b body) string {
		var out strings.Builder
		for _, l := range b.Lines {
			out.WriteString(l.Indent + l.Key + l.Rest)
		}
		return out.String()
	}
	for name, tc := range map[string]struct {
		in     string
		raw    bool
		want   string
		pretty bool
		cut    bool
	}{
		"JSON":           {in: `{"a":[1,"x:y"],"b":{}}`, want: "{\n  \"a\": [\n    1,\n    \"x:y\"\n  ],\n  \"b\": {}\n}", pretty: true},
		"JSON as it is":  {in: `{"a":1}`, raw: true, want: `{"a":1}`},
		"text":           {in: "oops\n<b>", want: "oops\n<b>"},
		"broken JSON":    {in: `{"a":`, want: `{"a":`},
		"long":           {in: strings.Repeat("é", maxShown), want: strings.Repeat("é", maxShown/2), cut: true},
		"deep":           {in: strings.Repeat("[", 50) + strings.Repeat("]", 50), want: strings.Repeat("[", 50) + strings.Repeat("]", 50)},
		"quotes in keys": {in: `{"a\"b{[":1}`, want: "{\n  \"a\\\"b{[\": 1\n}", pretty: true},
	} {
		b := bodyOf([]byte(tc.in), tc.raw)
		if got := text(b); got != tc.want || b.Pretty != tc.pretty || b.Cut != tc.cut || !utf8.ValidString(got) {
			t.Errorf("%s: %q, pretty %v, cut %v", name, got, b.Pretty, b.Cut)
		}
	}
	for name, in := range map[string]string{"not UTF-8": "\xff\xfe", "zero": "a\x00b"} {
		if b := bodyOf([]byte(in), false); !b.Binary || len(b.Lines) > 0 {
			t.Errorf("%s is shown: %+v", name, b)
		}
	}
	if b := bodyOf(nil, false); !b.Empty {
		t.Errorf("nothing is not empty: %+v", b)
	}
}

// now is when the timelines are drawn.
var now = time.Date(2026, 11, 16, 3, 12, 40, 0, time.UTC)

func at(ago time.Duration) view.Stamp { return view.Stamp(now.Add(-ago)) }

func TestTimelineTellsHoldsFromWaits(t *testing.T) {
	t.Parallel()
	open, code := "open", 500
	c := course{
		delivery: &view.Delivery{Status: "pending", Attempts: 2, Charged: 2, CreatedAt: at(time.Hour), DueAt: at(-10 * time.Minute), ExpiresAt: at(-100 * time.Hour)},
		attempts: []view.Attempt{
			{Number: 1, StartedAt: at(time.Hour), NextDueAt: at(59 * time.Minute), Class: "down", Reason: "connect_refused"},
			{Number: 2, StartedAt: at(30 * time.Minute), NextDueAt: at(-10 * time.Minute), Class: "retry", StatusCode: &code, Kind: "probe", Lane: view.AttemptLane{State: &open}},
		},
		ladder:      []view.Step{{Attempt: 3, Min: "1s", Max: "1m"}, {Attempt: 4, Min: "1s", Max: "30m"}, {Attempt: 5, Min: "1s", Max: "1h"}},
		maxAttempts: 4, selected: 2, now: now,
	}
	l := c.timeline()
	if len(l.Holds) != 1 || l.Holds[0].Label != "held 29 m" || l.Holds[0].Reason != "breaker open, nothing charged" {
		t.Errorf("holds: %+v", l.Holds)
	}
	if len(l.Waits) != 1 || l.Waits[0].Label != "1 m" {
		t.Errorf("waits: %+v", l.Waits)
	}
	if len(l.Attempts) != 2 || l.Attempts[0].Code != "refused" || l.Attempts[1].Code != "500" || !l.Attempts[1].Selected {
		t.Errorf("attempts: %+v", l.Attempts)
	}
	if len(l.Due) != 2 || l.Due[0].Number != 3 || l.Due[1].Number != 4 || l.Due[1].Label != "some time up to 03:52:40" {
		t.Errorf("due: %+v", l.Due)
	}
	if l.Ahead != "Ahead: 40 m, to scale. Attempt 4 is the last, by 03:52:40" {
		t.Errorf("ahead: %s", l.Ahead)
	}
	waits := "open"
	c.delivery.DueAt, c.delivery.WaitingFor, c.attempts[1].NextDueAt = at(20*time.Minute), &waits, at(20*time.Minute)
	if l = c.timeline(); len(l.Holds) != 2 || l.Holds[1].Reason != "the breaker is open" || len(l.Due) != 0 {
		t.Errorf("held now: %+v, due %+v", l.Holds, l.Due)
	}
	c.delivery.Status, c.delivery.SettledAt = "dead", at(30*time.Minute)
	if l = c.timeline(); len(l.Due) != 0 || l.Now.After(now.Add(-28*time.Minute)) {
		t.Errorf("ended: until %v, due %+v", l.Now, l.Due)
	}
}
