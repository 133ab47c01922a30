package words

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// Delivery is what the sentences about a delivery are made of. Everything but
// Delivery may be unknown.
type Delivery struct {
	Delivery    view.Delivery
	MaxAttempts int         // of its policy; 0: not known
	Ladder      []view.Step // of the policy that its attempts had; empty: not known
	Lane        *view.Lane
}

// DeliverySentence says where a delivery stands and what comes next.
func DeliverySentence(d *Delivery, now time.Time) Sentence {
	switch v := &d.Delivery; v.Status {
	case "delivered":
		return d.delivered(now)
	case "dead":
		return d.dead(now)
	case "cancelled":
		t := say("Cancelled")
		if ended := timeOf(v.SettledAt); !ended.IsZero() {
			t = say(t, " at ", at(ended, now))
		}
		t = say(t, d.after(), ".")
		if v.Reason != nil {
			t = say(t, " ", EndReasonOf(*v.Reason).explain())
		}
		return Sentence{t, say("It will not be sent. Redeliver sends it once more.")}
	case "pending":
		return d.pending(now)
	default:
		return Sentence{Say: say("Its status is ", code(v.Status), ".")}
	}
}

// explain is the meaning of a word, or the word itself.
func (w Word) explain() string {
	if w.Meaning != "" {
		return w.Meaning
	}
	return "Reason: " + w.API + "."
}

// after tells how many attempts there were, with a blank before it.
func (d *Delivery) after() string {
	if d.Delivery.Attempts == 0 {
		return " without an attempt"
	}
	return " after " + Count(d.Delivery.Attempts, "attempt", "attempts")
}

func (d *Delivery) delivered(now time.Time) Sentence {
	v := &d.Delivery
	t := say("Delivered")
	ended := timeOf(v.SettledAt)
	if ended.IsZero() {
		ended = timeOf(v.FirstDeliveredAt)
	}
	if !ended.IsZero() {
		t = say(t, " at ", at(ended, now))
	}
	if v.Attempts > 0 {
		t = say(t, " with attempt ", Number(v.Attempts))
	}
	if from := timeOf(v.CreatedAt); !from.IsZero() && ended.After(from) {
		t = say(t, ", ", Latency(float64(ended.Sub(from).Microseconds())/1000), " after it was accepted")
	}
	return Sentence{say(t, "."), say(nothingToDo)}
}

func (d *Delivery) dead(now time.Time) Sentence {
	v := &d.Delivery
	t := say("Given up")
	if ended := timeOf(v.SettledAt); !ended.IsZero() {
		t = say(t, " at ", at(ended, now))
	}
	t = say(t, d.after())
	if v.Last != nil {
		t = say(t, ", the last with ", code(Answer(v.Last.StatusCode, v.Last.Reason)))
	}
	t = say(t, ".")
	kept := say("It is kept")
	if end := timeOf(v.KeptUntil); !end.IsZero() {
		kept = say(kept, ", and removed ", removal(end, now))
	}
	if v.Reason == nil {
		return Sentence{t, say(kept, ". Redeliver when the cause is gone.")}
	}
	t = say(t, " ", EndReasonOf(*v.Reason).explain())
	then := ". Redeliver when the receiver is fixed."
	switch *v.Reason {
	case "permanent":
		then = ". Read the response, have the receiver fixed, then redeliver."
	case "gone":
		then = ". Redeliver only if the endpoint takes events again."
	case "expired", "breaker_open":
		then = ". Redeliver when the endpoint delivers again."
	}
	return Sentence{t, say(kept, then)}
}

func (d *Delivery) pending(now time.Time) Sentence {
	v := &d.Delivery
	due := timeOf(v.DueAt)
	var t Text
	do := say(nothingToDo)
	switch {
	case v.WaitingFor != nil:
		w := WaitingForOf(*v.WaitingFor)
		t = say("It is due and waits: ", w.Word, ".")
		if w.Meaning != "" {
			t = say(t, " ", w.Meaning)
		}
		if l := d.Lane; l != nil {
			t = say(t, sendsAgain(*v.WaitingFor, l, now))
		}
		if *v.WaitingFor == view.WaitPaused {
			do = say("Resume the endpoint to send it.")
		}
	case due.After(now) && v.Attempts == 0:
		t = say("Its first attempt is due at ", at(due, now), ", ", until(due, now), ".")
	case due.After(now):
		t = say("Attempt ", Number(v.Attempts+1), " is due at ", at(due, now), ", ", until(due, now), ".", d.held())
	case v.Attempts == 0:
		t = say("It is sent now, or as soon as requests before it have ended.")
	default:
		t = say("Attempt ", Number(v.Attempts+1), " is made now, or as soon as requests before it have ended.")
	}
	return Sentence{say(t, d.charged(), d.ends(now)), do}
}

// held adds that a delivery that is not due will be held if nothing changes.
func (d *Delivery) held() Text {
	if v := d.Delivery.View; v != nil && *v == view.Held {
		return say(" Its lane sends nothing now: if that stays so, it is held then, which costs no attempt.")
	}
	return nil
}

// sendsAgain tells when the lane sends again, if that is known.
func sendsAgain(what string, l *view.Lane, now time.Time) Text {
	switch {
	case what == view.WaitOpen && timeOf(l.NextProbeAt).After(now):
		return say(" The next probe is ", until(timeOf(l.NextProbeAt), now), ".")
	case what == view.WaitHold && timeOf(l.HoldUntil).After(now):
		return say(" That ends at ", at(timeOf(l.HoldUntil), now), ".")
	case what == view.WaitPace && l.RatePerSecond != nil && l.PacedBy != nil:
		return say(" At most ", Rate(*l.RatePerSecond), " are sent: ", PacedByOf(*l.PacedBy).Meaning, ".")
	default:
		return nil
	}
}

// charged tells how many of its attempts are used, with a blank before it.
func (d *Delivery) charged() string {
	v := &d.Delivery
	switch {
	case v.Attempts == 0:
		return ""
	case d.MaxAttempts > 0:
		return " " + Number(v.Charged) + " of " + Count(d.MaxAttempts, "attempt is used.", "attempts are used.")
	default:
		return " " + Count(v.Charged, "attempt of this run is charged.", "attempts of this run are charged.")
	}
}

func (d *Delivery) ends(now time.Time) Text {
	if ends := timeOf(d.Delivery.ExpiresAt); !ends.IsZero() {
		return say(" It is given up when a retry would be due after ", at(ends, now), ".")
	}
	return nil
}
