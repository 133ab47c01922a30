package words

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// AlertSentence says what an alert tells, how long it lasts, and what to do.
func AlertSentence(a *view.Alert, now time.Time) Sentence {
	t := say(a.Summary)
	if a.Summary == "" {
		t = say(RuleOf(a.Rule).Word.Word, ".")
	}
	since, over := timeOf(a.Since), timeOf(a.ResolvedAt)
	switch {
	case a.Status == "resolved" && !over.IsZero():
		t = say(t, " It lasted ", Duration(over.Sub(since)), ", until ", at(over, now), ".")
	case a.Status == "resolved":
		t = say(t, " It is over.")
	case !since.IsZero():
		t = say(t, " It fires since ", at(since, now), ", for ", lasting(since, now), ".")
	}
	if a.Flapping {
		t = say(t, " It began ", Count(a.Count, "time", "times"), "; from now on only its end is told.")
	}
	if a.Status == "resolved" {
		return Sentence{Say: t}
	}
	s := Sentence{Say: say(t, acked(a, now))}
	if a.Summary == "" { // else it says so itself
		s.Do = say(RuleOf(a.Rule).Do)
	}
	return s
}

// acked tells who knows of it, with a blank before it.
func acked(a *view.Alert, now time.Time) Text {
	if a.AckedBy == nil {
		return nil
	}
	t := say(" Acknowledged by ", *a.AckedBy)
	if when := timeOf(a.AckedAt); !when.IsZero() {
		t = say(t, " at ", at(when, now))
	}
	if a.AckNote != nil {
		t = say(t, ": “", *a.AckNote, "”")
	}
	switch until := timeOf(a.SnoozedUntil); {
	case until.IsZero():
		return say(t, "; it is repeated no more.")
	case until.After(now):
		return say(t, "; it is not repeated before ", at(until, now), ".")
	default:
		return say(t, "; it is repeated again.")
	}
}

// AlertValue writes the value of an alert and the limit that it crossed; limit is
// empty for what is or is not.
func AlertValue(a *view.Alert) (value, limit string) {
	r := RuleOf(a.Rule)
	if r.unit == state {
		return None, ""
	}
	word := "limit "
	if r.below {
		word = "at least "
	}
	return r.format(a.Value), word + r.format(a.Threshold)
}

func (r *AlertRule) format(v float64) string {
	switch r.unit {
	case count:
		return trim(v, 0)
	case percent:
		return Percent(v)
	case seconds:
		return Latency(v * 1000)
	case size:
		if v < 0 || v > 1<<62 {
			return None
		}
		return Size(int64(v))
	default:
		return trim(v, 2)
	}
}

// AlertCounts says how many alerts fire, by severity.
func AlertCounts(firing []view.Alert) Text {
	if len(firing) == 0 {
		return say("Nothing fires.")
	}
	by := map[string]int{}
	for i := range firing {
		by[firing[i].Severity]++
	}
	var parts []string
	for _, s := range []struct{ name, one, many string }{
		{"page", "page", "pages"}, {"warning", "warning", "warnings"}, {"info", "info", "infos"},
	} {
		if n := by[s.name]; n > 0 {
			parts = append(parts, Count(n, s.one, s.many))
		}
		delete(by, s.name)
	}
	for _, n := range by {
		parts = append(parts, Number(n)+" of other severities")
	}
	return say(strong(Number(len(firing))+" firing"), ": ", list(parts, len(parts)), ".")
}
