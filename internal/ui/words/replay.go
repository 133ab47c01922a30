package words

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// ReplaySentence says how far a replay has come, and when it ends.
func ReplaySentence(r *view.Replay, now time.Time) Sentence {
	switch p := &r.Progress; r.Status {
	case "queued":
		return Sentence{
			say(replaySize(p), " wait", plural(total(p), "s", ""), " for this replay to start. It starts when no other one feeds the same endpoint."),
			say(nothingToDo),
		}
	case "running":
		return Sentence{say(underWay(p), pace(r), eta(p, now)), say("New events go first, always. ", nothingToDo)}
	case "paused":
		return paused(r)
	case "done":
		return Sentence{say("Done", ended(r, now), ". ", tally(p)), afterwards(p)}
	case "cancelled":
		t := say("Cancelled", ended(r, now), ". ", tally(p))
		if left, known := notFed(p); known && left > 0 {
			return Sentence{say(t, " ", Number(left), plural(left, " was not fed and stays as it was.", " were not fed and stay as they were.")), nil}
		}
		return Sentence{Say: t}
	default:
		return Sentence{Say: say("Its status is ", code(r.Status), ". ", tally(p))}
	}
}

func total(p *view.Progress) int64 {
	if p.Total == nil {
		return 2 // not known, and hardly one
	}
	return *p.Total
}

func replaySize(p *view.Progress) string {
	if p.Total == nil {
		return "Deliveries that were too many to count"
	}
	return Count(*p.Total, "delivery", "deliveries")
}

// underWay tells how many of how many were made pending again.
func underWay(p *view.Progress) Text {
	if p.Total == nil {
		return say(strong(Number(p.Fed)), plural(p.Fed, " is", " are"), " on ", plural(p.Fed, "its", "their"), " way or delivered; there were too many to count beforehand.")
	}
	t := say(strong(Number(p.Fed)+" of "+Number(*p.Total)), " ", plural(p.Fed, "is", "are"), " on ", plural(p.Fed, "its", "their"), " way or delivered")
	if p.Percent != nil {
		t = say(t, "; ", Percent(*p.Percent), " have ended")
	}
	return say(t, ".")
}

func pace(r *view.Replay) Text {
	now := r.CurrentPerMinute
	if now <= 0 {
		return nil
	}
	t := say(" The pace is ", Number(now), " per minute")
	if most := int(float64(r.PerMinute) * r.MaxMultiple); most > 0 && now >= most {
		return say(t, ", its maximum.")
	}
	return say(t, ", and grows after each clean minute.")
}

func eta(p *view.Progress, now time.Time) Text {
	if end := timeOf(p.ETA); !end.IsZero() {
		return say(" If every minute is clean, all are fed at about ", about(end, now), ".")
	}
	return nil
}

func paused(r *view.Replay) Sentence {
	p := &r.Progress
	t := underWay(p)
	reason := ""
	if r.PauseReason != nil {
		reason = *r.PauseReason
	}
	w := PauseReasonOf(reason)
	switch {
	case reason == "":
		t = say("Paused. ", t)
	case reason == "error_rate" && r.PauseErrorPercent > 0:
		t = say("It paused itself: more than ", trim(r.PauseErrorPercent, 2), " % of the answers in a minute were errors. ", t)
	case w.Meaning != "":
		t = say("Paused. ", w.Meaning, " ", t)
	default:
		t = say("Paused: ", code(reason), ". ", t)
	}
	switch reason {
	case "user", "":
		return Sentence{t, say("Resume it to go on.")}
	case "stuck":
		return Sentence{t, say("Look at what failed. Resume it when the receiver is fixed, or cancel it.")}
	default:
		return Sentence{t, say("It goes on by itself when the endpoint is well again. ", nothingToDo)}
	}
}

func ended(r *view.Replay, now time.Time) Text {
	end := timeOf(r.FinishedAt)
	if end.IsZero() {
		return nil
	}
	t := say(" at ", at(end, now))
	if from := timeOf(r.StartedAt); !from.IsZero() && end.After(from) {
		t = say(t, " after ", Duration(end.Sub(from)))
	}
	return t
}

// tally tells what became of them.
func tally(p *view.Progress) Text {
	t := say(strong(Number(p.Delivered)+" delivered"), ", ", Number(p.Failed), " failed again, ", Number(p.Skipped), " skipped")
	if p.Total != nil {
		t = say(t, " of ", Number(*p.Total))
	}
	return say(t, ".")
}

func notFed(p *view.Progress) (int64, bool) {
	if p.Total == nil {
		return 0, false
	}
	return max(*p.Total-p.Fed-p.Skipped, 0), true
}

func afterwards(p *view.Progress) Text {
	if p.Failed > 0 {
		return say("What failed again is a dead letter again. Look at it by reason.")
	}
	return say(nothingToDo)
}

// PreviewSentence says what a replay would do.
func PreviewSentence(p *view.ReplayPreview) Text {
	if p.Count == 0 && p.Exact {
		return say("Nothing matches this filter.")
	}
	t := say(strong(start(countMore(p.Count, !p.Exact))), plural(p.Count, " matches", " match"), " this filter")
	if n := len(p.PerEndpoint); n > 1 {
		t = say(t, ", of ", Count(n, "endpoint", "endpoints"))
	}
	if p.EstimatedSeconds > 0 {
		t = say(t, "; done after ", Duration(time.Duration(min(p.EstimatedSeconds, int64(100*365*day/time.Second)))*time.Second), " if every minute is clean")
	}
	return say(t, ". What dies later stays out.")
}

// PreviewEndpoint says what a replay would do to one endpoint.
func PreviewEndpoint(e *view.ReplayEndpointCount) string {
	switch e.State {
	case "closed":
		return "Starts at once."
	case "open":
		return "Its breaker is open: the replay waits until that closes."
	case "paused":
		return "It is paused: the replay waits until it is resumed."
	case "disabled":
		return "It is disabled: these are skipped."
	case "deleted":
		return "It was deleted: these are skipped."
	default:
		return "Its state is " + e.State + "."
	}
}
