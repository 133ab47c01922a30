package words

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// DeadGroup is a number of dead letters with the same endpoint, reason and last
// answer.
type DeadGroup struct {
	Reason   string
	Last     *view.Last // of one of them; null: they had no attempt
	Attempts int        // of each; 0: not known, or not the same
	State    State      // of their lane now
	Replayed bool       // a replay of them is under way
}

// DeadMeaning says what a group of dead letters means, and when to replay it.
func DeadMeaning(g *DeadGroup) string {
	if g.Replayed {
		return g.cause() + " Being replayed."
	}
	switch g.State {
	case RetryStorm:
		return g.cause() + " In a retry storm: a replay now would add to it."
	case Disabled:
		if g.Reason != "gone" {
			return g.cause() + " The endpoint is disabled: resume it first."
		}
	case Paused:
		return g.cause() + " The endpoint is paused: resume it first."
	case Holding, Probing:
		return g.cause() + " Replay when the endpoint is back."
	default:
	}
	return g.cause() + " " + g.then()
}

// cause is why they died.
func (g *DeadGroup) cause() string {
	switch {
	case g.Reason == "exhausted" && g.Attempts == 1:
		return "Its only attempt failed."
	case g.Reason == "exhausted" && g.Attempts > 1:
		return "All " + Number(g.Attempts) + " attempts failed."
	case g.Reason == "limited" && g.Last != nil && ReasonOf(g.Last.Reason).Meaning != "":
		return ReasonOf(g.Last.Reason).Meaning
	default:
		return EndReasonOf(g.Reason).explain()
	}
}

// then is when a replay makes sense.
func (g *DeadGroup) then() string {
	switch g.Reason {
	case "permanent":
		return "Replay only after a fix."
	case "gone":
		return "Replay only if it takes events again."
	case "limited":
		return "Replay when that is mended."
	case "expired", "breaker_open":
		return "Replay now: the endpoint delivers again."
	default:
		return "Replay when the receiver is fixed."
	}
}

// DeadLetters says how many there are and how long they stay. first is until when the
// first of them is kept; zero: that is not known.
func DeadLetters(n int64, more bool, first, now time.Time) Text {
	if n == 0 && !more {
		return say("Nothing has been given up on.")
	}
	verb := " have been given up on."
	if n == 1 && !more {
		verb = " has been given up on."
	}
	t := say(strong(start(countMore(n, more))), verb)
	if first.IsZero() {
		return t
	}
	return say(t, " ", plural(n, "It stays with its whole log, and is removed ", "They stay with their whole log; the first are removed "), removal(first, now), ".")
}

// removal is when retention takes away what is kept until a moment.
func removal(kept, now time.Time) Part {
	if kept.After(now) {
		return until(kept, now)
	}
	return Part{Text: "soon"}
}
