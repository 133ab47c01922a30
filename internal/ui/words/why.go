package words

import (
	"math"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// Fact is a row of the panel that explains an attempt.
type Fact struct {
	Key  string
	Text Text
}

// Why explains an attempt: what the answer means, and how the wait after it was
// found.
type Why struct {
	Title string
	Lead  Sentence
	Facts []Fact
}

// WhyAttempt explains attempt a of delivery d. before are its other attempts.
func WhyAttempt(d *Delivery, a *view.Attempt, before []view.Attempt, now time.Time) Why {
	w := Why{Title: "Why attempt " + Number(a.Number) + " " + became(d, a), Lead: lead(a, before)}
	add := func(key string, t Text) {
		if len(t) > 0 {
			w.Facts = append(w.Facts, Fact{key, t})
		}
	}
	add("Class, reason", say(code(a.Class), ", ", code(a.Reason)))
	add("Charged", charge(d, a))
	if a.RetryAfter != nil {
		add("Retry-After", say(code(*a.RetryAfter), ", as the header came"))
	}
	add("Wait", wait(d, a, now))
	add("Lane at that moment", laneThen(a))
	if a.Wait != nil {
		add("Given up", givenUp(d, now))
	}
	if a.PolicyHash != "" {
		t := say(code(a.PolicyHash))
		if a.Node != nil {
			t = say(t, ", ", code(*a.Node))
		}
		add("Policy, node", t)
	}
	return w
}

// became ends the title: is retried, was the last.
func became(d *Delivery, a *view.Attempt) string {
	switch {
	case a.Class == "success":
		return "ended the delivery"
	case a.Wait != nil || !timeOf(a.NextDueAt).IsZero():
		if a.Number < d.Delivery.Attempts {
			return "was retried"
		}
		return "is retried"
	case a.Number < d.Delivery.Attempts:
		return "was not the last"
	case d.Delivery.Status == "pending" && !a.Charged:
		return "does not count"
	default:
		return "is not retried"
	}
}

// lead says what the answer means for this event and for the endpoint.
func lead(a *view.Attempt, before []view.Attempt) Sentence {
	var t Text
	if a.StatusCode != nil && *a.StatusCode != 0 {
		t = say("The destination answered ", code(Number(*a.StatusCode)), ".")
	} else {
		r := ReasonOf(a.Reason)
		if r.Meaning == "" {
			r.Meaning = "It ended with " + a.Reason + "."
		}
		t = say(r.Meaning)
	}
	if c := ClassOf(a.Class); c.Meaning != "" {
		t = say(t, " ", c.Meaning)
	}
	if n := same(a, before); n > 0 && a.Class == "retry" {
		return Sentence{t, say("The answer was the same in the ", Count(n, "attempt", "attempts"),
			" before. It will probably not change by itself: read the response, have the receiver fixed, then redeliver.")}
	}
	return Sentence{Say: t}
}

// same counts the attempts directly before a that were answered alike.
func same(a *view.Attempt, before []view.Attempt) int {
	byNumber := make(map[int]*view.Attempt, len(before))
	for i := range before {
		byNumber[before[i].Number] = &before[i]
	}
	n := 0
	for {
		b := byNumber[a.Number-n-1]
		if b == nil || b.Reason != a.Reason || Answer(b.StatusCode, "") != Answer(a.StatusCode, "") {
			return n
		}
		n++
	}
}

// charge tells whether an attempt counts, and if not why.
func charge(d *Delivery, a *view.Attempt) Text {
	switch {
	case a.Charged && d.MaxAttempts > 0 && a.Run == d.Delivery.Run && a.Number == d.Delivery.Attempts:
		return say("yes, ", Number(d.Delivery.Charged), " of ", Number(d.MaxAttempts))
	case a.Charged:
		return say("yes")
	case a.Kind == "probe":
		return say("no: a probe never is")
	case a.Kind == "manual":
		return say("no: what is sent by hand never is")
	case a.Class == "throttle":
		return say("no: being told to wait never is")
	case a.Class == "local":
		return say("no: it failed on our side")
	case a.Lane.State != nil && *a.Lane.State != view.LaneClosed:
		return say("no: the breaker was open")
	default:
		return say("no")
	}
}

// wait tells how long, drawn from what, and who said so.
func wait(d *Delivery, a *view.Attempt, now time.Time) Text {
	w := a.Wait
	if w == nil {
		return nil
	}
	drawn := Duration(spanOf(w.DelayMS))
	due := Text(nil)
	if t := timeOf(a.NextDueAt); !t.IsZero() {
		due = say("; due at ", at(t, now))
	}
	switch w.Source {
	case "none":
		return say("none: it is sent again as soon as its lane lets it", due)
	case "retry_after":
		return say("the endpoint asked for it; with a little more, so that not all come back at once: ", strong(drawn), due)
	case "throttle":
		return say("the endpoint asked for less and did not say how long: ", strong(drawn), due)
	case "backoff":
		t := say("retry ", Number(w.Retry), " has a ceiling of ", Duration(spanOf(w.CeilingMS)))
		if low, high, known := d.drawnFrom(w); known {
			t = say(t, "; drawn from ", Duration(low), " to ", Duration(high), ", any moment equally likely")
		}
		return say(t, "; ", trim(w.U, 3), " was drawn: ", strong(drawn), due)
	default:
		return say(code(w.Source), ": ", strong(drawn), due)
	}
}

// drawnFrom returns the ends of the jitter of a wait: from the ladder of its
// policy or, with full jitter, from the wait itself.
func (d *Delivery) drawnFrom(w *view.Wait) (low, high time.Duration, known bool) {
	for _, s := range d.Ladder {
		if s.Attempt != w.Retry+1 {
			continue
		}
		low, err := quantity.ParseDuration(s.Min)
		high, err2 := quantity.ParseDuration(s.Max)
		delay := time.Duration(w.DelayMS * float64(time.Millisecond))
		if err == nil && err2 == nil && delay >= low && delay <= high {
			return low, high, true
		}
	}
	if full := w.U * w.CeilingMS; w.U > 0 && math.Abs(full-w.DelayMS) <= 1+full/1e4 {
		return 0, spanOf(w.CeilingMS), true
	}
	return 0, 0, false
}

// laneThen tells the state of the lane when the attempt was made.
func laneThen(a *view.Attempt) Text {
	if a.Lane.State == nil {
		return nil
	}
	t := say(code(*a.Lane.State), ", ", Number(a.Lane.InFlight), " in flight")
	if a.Lane.Limit > 0 {
		return say(code(*a.Lane.State), ", ", Number(a.Lane.InFlight), " of limit ", trim(a.Lane.Limit, 1), " in flight")
	}
	return t
}

func givenUp(d *Delivery, now time.Time) Text {
	ends := timeOf(d.Delivery.ExpiresAt)
	switch {
	case d.MaxAttempts > 0 && !ends.IsZero():
		return say("when ", Count(d.MaxAttempts, "attempt is charged", "attempts are charged"), ", or when a retry would be due after ", at(ends, now))
	case d.MaxAttempts > 0:
		return say("when ", Count(d.MaxAttempts, "attempt is charged", "attempts are charged"))
	case !ends.IsZero():
		return say("when a retry would be due after ", at(ends, now))
	default:
		return nil
	}
}
