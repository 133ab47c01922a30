package deliveries

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// heldFrom is how late an attempt must be to have been held: a busy lane is no gate.
const heldFrom = 2 * time.Second

// course is the timeline of a delivery: what was, and what its policy has ahead of it.
type course struct {
	delivery    *view.Delivery
	attempts    []view.Attempt
	ladder      []view.Step // empty: not known
	maxAttempts int         // 0: not known
	selected    int
	now         time.Time
}

// timeline draws it.
func (c *course) timeline() chart.Timeline {
	d := c.delivery
	accepted := time.Time(d.CreatedAt)
	t := chart.Timeline{
		Accepted: accepted, AcceptedLabel: "accepted " + words.Clock(accepted, c.now), Now: c.end(), NowLabel: "now " + words.Clock(c.now, c.now),
	}
	for i := range c.attempts {
		a := &c.attempts[i]
		t.Attempts = append(t.Attempts, chart.Attempt{
			Number: a.Number, At: time.Time(a.StartedAt), Class: site.ClassOf(a.Class), Code: code(a), Selected: a.Number == c.selected,
		})
	}
	t.Holds, t.Waits = c.pauses()
	t.Past = "So far: " + words.Duration(c.now.Sub(accepted)) + ", to scale"
	if d.Status != "pending" {
		t.Past = "From the first to the last moment: " + words.Duration(t.Now.Sub(accepted)) + ", to scale"
	}
	t.PastSentence = c.past()
	if d.Status == "pending" {
		t.Due = c.due()
		t.Ahead, t.AheadSentence = c.ahead(t.Due)
	}
	return t
}

// end is the right edge of what was.
func (c *course) end() time.Time {
	settled := time.Time(c.delivery.SettledAt)
	if c.delivery.Status == "pending" || settled.IsZero() {
		return c.now
	}
	from := time.Time(c.delivery.CreatedAt)
	return settled.Add(max(settled.Sub(from), time.Second) / 25) // room for the last sign
}

// code is what stands over the sign of an attempt.
func code(a *view.Attempt) string {
	if a.StatusCode != nil {
		return strconv.Itoa(*a.StatusCode)
	}
	_, tail, found := strings.Cut(a.Reason, "_")
	if !found {
		tail = a.Reason
	}
	return words.Cut(tail, 10)
}

// pauses are the stretches between the attempts: the waits of the schedule, and what
// the delivery was held beyond them.
func (c *course) pauses() (holds, waits []chart.Pause) {
	from, due := time.Time(c.delivery.CreatedAt), time.Time(c.delivery.CreatedAt)
	until := func(at time.Time, reason string) {
		if due.IsZero() {
			return // it had ended, and somebody sent it again
		}
		if held := at.Sub(due); held >= heldFrom {
			holds = append(holds, chart.Pause{From: due, To: at, Label: "held " + words.Duration(held), Reason: reason})
			at = due
		}
		if wait := at.Sub(from); wait > 0 {
			waits = append(waits, chart.Pause{From: from, To: at, Label: words.Duration(wait)})
		}
	}
	for i := range c.attempts {
		a := &c.attempts[i]
		at := time.Time(a.StartedAt)
		switch {
		case a.Kind == "manual", a.Kind == "replay":
		case a.Kind == "probe", a.Lane.State != nil && *a.Lane.State != view.LaneClosed:
			until(at, "breaker open, nothing charged")
		default:
			until(at, "its lane let nothing pass, nothing charged")
		}
		from, due = at, time.Time(a.NextDueAt)
	}
	if d := c.delivery; d.Status == "pending" {
		if due.IsZero() {
			due = time.Time(d.DueAt)
		}
		if due.Before(from) {
			due = from // a probe in between did not change when it is due
		}
		reason := "as soon as its lane lets it"
		if d.WaitingFor != nil {
			reason = words.WaitingForOf(*d.WaitingFor).Word
		}
		if !due.After(c.now) {
			until(c.now, reason)
		}
	}
	return holds, waits
}

// past says in words what the picture shows.
func (c *course) past() string {
	if len(c.attempts) == 0 {
		return "No attempt so far."
	}
	var parts []string
	for i := range c.attempts {
		a := &c.attempts[i]
		parts = append(parts, words.Answer(a.StatusCode, a.Reason)+" at "+words.Clock(time.Time(a.StartedAt), c.now))
	}
	const most = 20
	text := "Attempts: "
	if left := len(parts) - most; left > 0 {
		text, parts = fmt.Sprintf("The last %d attempts: ", most), parts[left:]
	}
	return text + strings.Join(parts, ", ") + "."
}

// due are the next attempts: one at a moment that is known, the one after it within
// the limits of its draw.
func (c *course) due() []chart.Due {
	d := c.delivery
	at := time.Time(d.DueAt)
	if !at.After(c.now) {
		return nil // what keeps it decides when
	}
	out := []chart.Due{{Number: d.Attempts + 1, From: at, Label: words.Clock(at, c.now)}}
	low, high, ok := c.wait(d.Charged + 2)
	if ok {
		out = append(out, chart.Due{
			Number: d.Attempts + 2, From: at.Add(low), To: at.Add(high),
			Label: "some time up to " + words.Clock(at.Add(high), c.now), Note: "any moment in here, equally likely",
		})
	}
	return out
}

// wait returns the limits of the wait before the n-th attempt that counts.
func (c *course) wait(n int) (low, high time.Duration, ok bool) {
	for _, s := range c.ladder {
		if s.Attempt != n || c.maxAttempts > 0 && n > c.maxAttempts {
			continue
		}
		low, err := quantity.ParseDuration(s.Min)
		high, err2 := quantity.ParseDuration(s.Max)
		return low, high, err == nil && err2 == nil
	}
	return 0, 0, false
}

// ahead says how far the schedule goes.
func (c *course) ahead(due []chart.Due) (title, sentence string) {
	if len(due) == 0 {
		return "", ""
	}
	end := due[len(due)-1].To
	if end.IsZero() {
		end = due[len(due)-1].From
	}
	title = "Ahead: " + words.Duration(end.Sub(c.now)) + ", to scale"
	sentence = fmt.Sprintf("Attempt %d at %s", due[0].Number, due[0].Label)
	if len(due) > 1 {
		sentence += fmt.Sprintf(", attempt %d %s", due[1].Number, due[1].Label)
	}
	latest := time.Time(c.delivery.DueAt)
	last := c.delivery.Attempts + 1
	for n := c.delivery.Charged + 2; ; n++ {
		_, high, ok := c.wait(n)
		if !ok {
			break
		}
		latest = latest.Add(high)
		last++
	}
	if expires := time.Time(c.delivery.ExpiresAt); !expires.IsZero() && expires.Before(latest) {
		latest = expires
	}
	if last > due[0].Number {
		tail := fmt.Sprintf("Attempt %d is the last, by %s", last, words.Clock(latest, c.now))
		return title + ". " + tail, sentence + ". " + tail + "."
	}
	return title + ". It is the last", sentence + ". It is the last."
}
