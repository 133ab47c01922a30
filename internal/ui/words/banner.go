package words

import (
	"slices"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// Trouble is a lane that needs attention, with the name people know its endpoint by.
type Trouble struct {
	Name string
	Lane view.Lane
	Held *int64 // deliveries; null: not known
	More bool   // there are at least that many
}

// Fleet is what the banner of the overview is made of.
type Fleet struct {
	Lanes        []Trouble    // with an open breaker or a storm; paused ones are nobody's trouble
	MoreLanes    bool         // there are more than these
	Alerts       []view.Alert // that fire
	FirstExpires time.Time    // of everything held; zero: not known
}

// Banner is what a page says first when something is wrong.
type Banner struct {
	Class string // bad or warn
	Icon  string
	Title Text // what is wrong, and since when
	Cost  Text // is something lost, what does it cost
	Do    Text
	Show  int // lanes to show; 0: show the alerts
}

// String is all of it.
func (b *Banner) String() string {
	parts := []string{b.Title.String(), b.Cost.String(), b.Do.String()}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// OverviewBanner says what is wrong in the whole fleet; nil: nothing is.
func OverviewBanner(f *Fleet, now time.Time) *Banner {
	var open, storms []Trouble
	for _, t := range f.Lanes {
		switch StateOf(&t.Lane, nil, now) {
		case Holding, Probing:
			open = append(open, t)
		case RetryStorm:
			storms = append(storms, t)
		default: // it was, when the list was made
		}
	}
	pages := slices.DeleteFunc(slices.Clone(f.Alerts), func(a view.Alert) bool {
		return a.Severity != "page" || a.Status != "firing" || toldByLanes(a.Rule)
	})
	if len(open)+len(storms)+len(pages) == 0 {
		return nil
	}
	b := &Banner{Class: bad, Icon: "storm", Show: len(open) + len(storms)}
	b.Title = b.title(f, open, storms, pages, now)
	b.Cost = cost(f, open, storms, now)
	b.Do = advice(open, storms, pages, now)
	return b
}

// toldByLanes reports whether a lane in the banner says what an alert says.
func toldByLanes(rule string) bool {
	return rule == "retry_storm" || rule == "breaker_open" || rule == "breaker_open_long"
}

func (b *Banner) title(f *Fleet, open, storms []Trouble, pages []view.Alert, now time.Time) Text {
	var what []string
	more := ""
	if f.MoreLanes {
		more = "at least "
	}
	if n := len(open); n > 0 {
		what = append(what, more+Count(n, "breaker is open", "breakers are open"))
	}
	if n := len(storms); n > 0 {
		what = append(what, more+Count(n, "endpoint is in a retry storm", "endpoints are in a retry storm"))
	}
	if n := len(pages); n > 0 {
		what = append(what, Count(n, "alert wants a person now", "alerts want a person now"))
	}
	t := say(strong(start(list(what, len(what)))))
	switch since := earliest(open, storms, pages); {
	case since.IsZero():
		return say(t, strong("."))
	case len(open)+len(storms)+len(pages) == 1:
		return say(t, strong(": "+soleName(open, storms, pages)+", since "), at(since, now), strong("."))
	default:
		return say(t, strong(", the first since "), at(since, now), strong("."))
	}
}

// soleName names the only one there is.
func soleName(open, storms []Trouble, pages []view.Alert) string {
	if all := slices.Concat(open, storms); len(all) > 0 {
		return all[0].Name
	}
	return pages[0].Rule
}

func earliest(open, storms []Trouble, pages []view.Alert) (first time.Time) {
	see := func(s view.Stamp) {
		if t := timeOf(s); !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	for _, t := range open {
		see(t.Lane.OpenedAt)
	}
	for _, t := range storms {
		see(t.Lane.Storm.Since)
	}
	for _, a := range pages {
		see(a.Since)
	}
	return first
}

// cost tells what is held, and that nothing is lost by that.
func cost(f *Fleet, open, storms []Trouble, now time.Time) Text {
	var t Text
	if len(open) > 0 {
		n, more, known := sum(open)
		switch {
		case !known:
			t = say("Their deliveries are held.")
			if len(open) == 1 {
				t = say("Its deliveries are held.")
			}
		case n == 1 && !more:
			t = say("1 delivery is held.")
		default:
			t = say(start(countMore(n, more)), " are held.")
		}
		switch first := f.FirstExpires; {
		case first.IsZero():
			t = say(t, " Nothing is lost, and holding costs no attempt.")
		case first.After(now):
			t = say(t, " Nothing is lost, and holding costs no attempt; the first would expire ", until(first, now), ".")
		default:
			t = say(t, " Holding costs no attempt, but the first expire now: they become dead letters and can be replayed.")
		}
	}
	if len(storms) > 0 {
		if len(t) > 0 {
			t = say(t, " ")
		}
		t = say(t, "Retries of a storm use up attempts.")
	}
	return t
}

// sum adds up what is held. Where one number is not known, the sum is at least
// the others.
func sum(open []Trouble) (n int64, more, known bool) {
	for _, t := range open {
		if t.Held == nil {
			more = true
			continue
		}
		n, more, known = n+*t.Held, more || t.More, true
	}
	return n, more, known
}

// advice is the first thing to do, of the most urgent kind there is.
func advice(open, storms []Trouble, pages []view.Alert, now time.Time) Text {
	var t Text
	if len(open)+len(storms) > 0 {
		t = say("Lanes are separate: no other endpoint is slowed by this.")
	}
	add := func(more ...any) {
		if len(t) > 0 {
			t = say(t, " ")
		}
		t = say(append([]any{t}, more...)...)
	}
	said := map[string]bool{}
	for _, a := range pages {
		if said[a.Rule] {
			continue // the same advice
		}
		if len(said) == 2 {
			add("The others are under Alerts.")
			break
		}
		said[a.Rule] = true
		if r := RuleOf(a.Rule); r.Do != "" {
			add(r.Word.Word, ". ", r.Do)
		} else {
			add(a.Rule, ": ", a.Summary)
		}
	}
	if len(storms) > 0 {
		add("Tell the ", plural(len(storms), "owner of ", "owners of "), names(storms), " which answers ", plural(len(storms), "it gives.", "they give."))
	}
	if len(open) > 0 {
		add(probeAdvice(open, now))
	}
	return t
}

// probeAdvice tells what happens by itself, and when.
func probeAdvice(open []Trouble, now time.Time) Text {
	next, name := time.Time{}, open[0].Name
	for _, t := range open {
		if p := timeOf(t.Lane.NextProbeAt); !p.IsZero() && (next.IsZero() || p.Before(next)) {
			next, name = p, t.Name
		}
	}
	t := say("Nothing to do unless you know that ", name, " is back: then probe it")
	if next.IsZero() {
		return say(t, ". It is asked again by itself.")
	}
	return say(t, ". It is asked again by itself ", until(next, now), ".")
}

func names(lanes []Trouble) string {
	out := make([]string, len(lanes))
	for i, t := range lanes {
		out[i] = t.Name
	}
	return list(out, 3)
}

func plural[N Integer](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
