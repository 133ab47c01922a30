package words

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// Lane is what the sentence of a lane is made of. Everything but Lane may be
// unknown.
type Lane struct {
	Lane         view.Lane
	Endpoint     view.Endpoint // URL, and why it is not active
	Waiting      view.Gauges   // the latest
	Last         *view.Last    // how the latest attempt ended
	FirstExpires time.Time     // of what is held
	By, Note     string        // who paused or disabled it, and what they noted
	ChangedAt    time.Time     // and when
}

// nothingToDo ends a sentence about what goes right or mends itself.
const nothingToDo = "Nothing to do."

// LaneSentence says what a lane does, since when, what it costs, and what to do.
func LaneSentence(l *Lane, now time.Time) Sentence {
	switch s := StateOf(&l.Lane, &l.Waiting, now); s {
	case Disabled, Paused:
		return l.off(s, now)
	case Holding:
		return l.holding(now)
	case Probing:
		return Sentence{
			say("One probe is on its way. If it succeeds, the lane sends again, slowly at first.", l.held(now)),
			say(l.lost(now), " ", nothingToDo),
		}
	case ToldToWait:
		return l.toldToWait(now)
	case RetryStorm:
		return l.storm(now)
	case SlowStart:
		return Sentence{
			say(l.since(now), " The limit is ", trim(l.Lane.Limit, 0), " and grows in rounds while answers stay fast; new events go first."),
			say(nothingToDo),
		}
	case QueueGrowing:
		return l.growing(now)
	case Draining:
		return l.draining(now)
	case Delivering:
	}
	return Sentence{say(l.since(now), l.paced()), say(nothingToDo)}
}

// off tells of an endpoint that is paused or disabled.
func (l *Lane) off(s State, now time.Time) Sentence {
	t := say(s.String())
	if !l.ChangedAt.IsZero() {
		t = say(t, " for ", lasting(l.ChangedAt, now))
	}
	why := ""
	if l.Endpoint.StatusReason != nil {
		why = *l.Endpoint.StatusReason
	}
	switch {
	case l.By != "":
		t = say(t, " by ", l.By)
	case why == "manual":
		t = say(t, " by hand")
	case why != "":
		r := StatusReasonOf(why)
		if r.Meaning == "" {
			r.Meaning = why
		}
		t = say(t, ", because ", r.Meaning)
	}
	if l.Note != "" {
		t = say(t, ": “", l.Note, "”")
	}
	t = say(t, ".", l.held(now))
	if s == Disabled && why == "gone" {
		return Sentence{t, say("Delete it, or resume it if it still takes events. Resume sends what is held, slowly at first.")}
	}
	return Sentence{t, say("Resume sends them, slowly at first.")}
}

// holding tells of an open breaker.
func (l *Lane) holding(now time.Time) Sentence {
	t := say("Open")
	if opened := timeOf(l.Lane.OpenedAt); !opened.IsZero() {
		t = say(t, " for ", lasting(opened, now))
	}
	if r := l.Lane.OpenReason; r != nil {
		if *r == "ratio" {
			t = say(t, " because too many of the latest first attempts failed")
		} else {
			t = say(t, " after ", OpenReasonOf(*r).Word)
		}
	}
	var last Outcome
	if l.Last != nil && l.Last.Class != "success" {
		last = ReasonOf(l.Last.Reason)
		t = say(t, ", the last with ", code(Answer(l.Last.StatusCode, l.Last.Reason)))
	}
	switch probe := timeOf(l.Lane.NextProbeAt); {
	case probe.IsZero():
	case probe.After(now):
		t = say(t, "; next probe ", until(probe, now))
	default:
		t = say(t, "; a probe is due now")
	}
	do := l.lost(now)
	if last.Tell != "" {
		do = say(do, " Tell its owner ", last.Tell, ".")
	}
	return Sentence{say(t, ".", l.held(now)), say(do, " If you know that it is back, probe now; it is asked again by itself.")}
}

// held tells what waits while nothing is sent, with a blank before it. The figures
// know what is held, but are up to a minute old; the queue of the lane is counted
// now, and has what waits for a retry in it.
func (l *Lane) held(now time.Time) Text {
	q := &l.Lane.RetryQueue
	switch g := l.Waiting.Held; {
	case g != nil && *g > 0:
		what := Count(*g, "delivery is held", "deliveries are held")
		return say(" ", strong(what), "; holding costs no attempt", l.expires(now), ".")
	case q.Depth != nil && *q.Depth > 0:
		what := " are held or wait for another attempt"
		if *q.Depth == 1 && !q.AtLeast {
			what = " is held or waits for another attempt"
		}
		return say(" ", strong(start(countMore(*q.Depth, q.AtLeast))+what), "; holding costs no attempt", l.expires(now), ".")
	case g != nil || q.Depth != nil:
		return say(" Nothing is held.")
	default:
		return say(" Deliveries are held; holding costs no attempt", l.expires(now), ".")
	}
}

func countMore(n int64, more bool) string {
	if more {
		return "at least " + Count(n, "delivery", "deliveries")
	}
	return Count(n, "delivery", "deliveries")
}

func (l *Lane) expires(now time.Time) Text {
	switch {
	case l.FirstExpires.IsZero():
		return nil
	case !l.FirstExpires.After(now):
		return say(", and the first expire now")
	default:
		return say(", and the first expires ", until(l.FirstExpires, now))
	}
}

// lost tells that nothing is, or what becomes of what is held too long.
func (l *Lane) lost(now time.Time) Text {
	if !l.FirstExpires.IsZero() && !l.FirstExpires.After(now) {
		return say("What expires becomes a dead letter and can be replayed.")
	}
	return say("Nothing is lost.")
}

// toldToWait tells of a Retry-After.
func (l *Lane) toldToWait(now time.Time) Sentence {
	t := say("The endpoint works and asked for ")
	if th := l.Lane.Learnt.Throttle; th != nil && th.RetryAfter != "" && th.RetryAfter != "0s" {
		t = say(t, spell(th.RetryAfter), " of ")
	}
	t = say(t, "quiet")
	if l.Last != nil && l.Last.Class == "throttle" && l.Last.StatusCode != nil {
		t = say(t, " (", code(Number(*l.Last.StatusCode)), ")")
	}
	hold := timeOf(l.Lane.HoldUntil)
	t = say(t, ". The lane waits until ", at(hold, now), ", ", until(hold, now))
	if r := l.Lane.RatePerSecond; r != nil {
		t = say(t, ", and then sends ", PerSecond(*r), " per second")
	}
	return Sentence{say(t, "."), say("Nothing is lost, and being told to wait costs no attempt. ", nothingToDo)}
}

// storm tells of retries that outnumber first attempts.
func (l *Lane) storm(now time.Time) Sentence {
	s := &l.Lane.Storm
	t := say("A retry storm")
	if since := timeOf(s.Since); !since.IsZero() {
		t = say(t, " for ", lasting(since, now))
	}
	t = say(t, ": ", strong(Count(s.Retries, "retry", "retries")), " against ")
	switch {
	case s.NoFirst || s.First != nil && *s.First == 0:
		t = say(t, "no first attempt")
	case s.First == nil:
		t = say(t, "an unknown number of first attempts")
	default:
		t = say(t, Count(*s.First, "first attempt", "first attempts"))
	}
	t = say(t, " in 15 minutes (ratio ", Ratio(s.Ratio), ").", l.queue(now))
	do := say("Nothing is lost yet: retries use up attempts.")
	if l.Last != nil {
		if o := ReasonOf(l.Last.Reason); o.Tell != "" {
			do = say(do, " Tell its owner ", o.Tell, ".")
		}
	}
	return Sentence{t, say(do, " Pause it if the receiver asks for quiet.")}
}

// queue tells what waits for another attempt, with a blank before it.
func (l *Lane) queue(now time.Time) Text {
	q := &l.Lane.RetryQueue
	if q.Depth == nil || *q.Depth == 0 {
		return nil
	}
	wait := " wait for another attempt"
	if *q.Depth == 1 && !q.AtLeast {
		wait = " waits for another attempt"
	}
	t := say(" ", strong(start(countMore(*q.Depth, q.AtLeast))+wait))
	if empty := timeOf(q.EmptyAt); empty.After(now) {
		return say(t, "; at this pace there is none left at about ", about(empty, now), ".")
	}
	return say(t, ".")
}

// growing is the early warning.
func (l *Lane) growing(now time.Time) Sentence {
	t := say("The retry queue grows")
	if since := timeOf(l.Lane.RetryQueue.Since); !since.IsZero() {
		t = say(t, " since ", at(since, now))
	}
	t = say(t, ".", l.queue(now))
	if l.Last != nil && l.Last.Class != "success" {
		t = say(t, " The last answer was ", code(Answer(l.Last.StatusCode, l.Last.Reason)), ".")
	}
	return Sentence{t, say("Nothing is lost yet. A storm may follow: look at its latest attempts.")}
}

// draining tells how long a backlog will last.
func (l *Lane) draining(now time.Time) Sentence {
	t := say(l.since(now), " New events go first; ")
	n, known := backlog(&l.Waiting)
	if known {
		verb := " waiting deliveries drain"
		if n == 1 {
			verb = " waiting delivery drains"
		}
		t = say(t, strong(Number(n)+verb))
	} else {
		t = say(t, "what was held drains")
	}
	if r := l.Lane.Learnt.Recovery; r != nil && r.Rate > 0 {
		t = say(t, " while the lane sends ", PerSecond(r.Rate), " per second, and more as the endpoint bears it")
		if end, ok := drained(n, known, r.Rate, l.Lane.Learnt.Usual, now); ok {
			t = say(t, "; at this pace they are done at about ", about(end, now))
		}
	}
	return Sentence{say(t, "."), say(nothingToDo)}
}

// drained estimates when a backlog is gone. What is left of the rate by new
// events is what drains it.
func drained(n uint64, known bool, rate float64, usual *float64, now time.Time) (time.Time, bool) {
	if usual != nil {
		rate -= *usual
	}
	const most = 30 * day // beyond that it is a guess
	if !known || rate <= 0 || float64(n)/rate > most.Seconds() {
		return time.Time{}, false
	}
	return now.Add(time.Duration(float64(n) / rate * float64(time.Second))), true
}

// since tells since when a closed lane delivers.
func (l *Lane) since(now time.Time) Text {
	if closed := timeOf(l.Lane.ClosedAt); !closed.IsZero() {
		return say("Delivering since ", at(closed, now), ".")
	}
	return say("Delivering. The breaker has never opened.")
}

func (l *Lane) paced() Text {
	by, rate := l.Lane.PacedBy, l.Lane.RatePerSecond
	if by == nil || rate == nil {
		return nil
	}
	why := PacedByOf(*by).Meaning
	if why == "" {
		why = *by
	}
	return say(" At most ", Rate(*rate), " are sent: ", why, ".")
}
