package replay

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// laneState is what the lanes that the next deliveries go to allow.
type laneState uint8

const (
	laneReady    laneState = iota
	laneSettling           // closed, but in slow start or asked to wait: better add nothing
	laneOpen               // the destination is down
	laneHeld               // a person, or a rule, has turned the endpoint off
	laneGone               // the endpoint is deleted
)

const (
	// lookBack is how much of the past decides.
	lookBack = time.Minute
	// leastAnswers is how many answers say something about a destination.
	leastAnswers = 10
	// refusedShare is the percentage of answers that refuse for good above
	// which a replay makes no sense.
	refusedShare = 50
	// maxSelfPauses with nothing delivered in between, and a person must look.
	maxSelfPauses = 3
	// maxLag bounds how much of the pace a late step may catch up with.
	maxLag = 2 * time.Second
	// The deliveries that were fed and have no answer yet are bounded to so
	// many minutes of the pace, or to the floor: a destination that cannot keep
	// up gets no pile.
	waitingMinutes = 2
	waitingFloor   = 20
)

// pacer remembers the last minute of a replay. What must outlive it is in the
// replay itself; without a memory it only waits a little longer before it grows
// or pauses.
//
// It is pure: the time comes with every call.
type pacer struct {
	samples  []sample  // oldest first; the first is a minute old or the oldest there is
	minute   time.Time // begin of the minute after which the pace may grow
	heldBack bool      // less than the pace was fed in this minute
}

// sample is what had been counted at one moment.
type sample struct {
	at                       time.Time
	answers, errors, refused int64
}

// verdict is what to do with a replay now.
type verdict struct {
	job     hook.ReplayJob // as it is to be stored
	changed bool           // state or pace differ from before
	action  string         // of the audit record; empty for a change of pace
	feed    int            // deliveries to feed
	pacedAt time.Time      // how far that uses up the pace
}

// step decides about a running replay, or one that paused itself. lane is that
// of the next due(now, j) deliveries.
func (p *pacer) step(now time.Time, j hook.ReplayJob, lane laneState) verdict {
	switch {
	case j.AllFed():
		return finish(now, j)
	case lane == laneGone:
		j.FinishedAt = now
		return move(now, j, hook.ReplayCancelled, "", "replay.cancel")
	case j.State == hook.ReplayPaused:
		return p.rest(now, j, lane)
	default:
		return p.run(now, j, lane)
	}
}

// run feeds a running replay unless something speaks against it.
func (p *pacer) run(now time.Time, j hook.ReplayJob, lane laneState) verdict {
	p.look(now, &j)
	if why := p.alarm(&j, lane); why != "" {
		p.forget()
		return pause(now, j, why)
	}
	v := verdict{job: j}
	if lane == laneSettling {
		p.heldBack = true
		v.pacedAt = now
	} else {
		v.feed, v.pacedAt = p.allow(now, &j)
	}
	if rate := p.nextRate(now, &j); rate != j.CurrentPerMinute {
		v.job.CurrentPerMinute, v.job.UpdatedAt, v.changed = rate, now, true
	}
	return v
}

// alarm returns why a running replay must pause; empty when it need not.
func (p *pacer) alarm(j *hook.ReplayJob, lane laneState) hook.PauseReason {
	switch last := p.last(); {
	case lane == laneHeld:
		return hook.PausedEndpointOff
	case lane == laneOpen:
		return hook.PausedByBreaker
	case last.answers < leastAnswers:
		return ""
	case exceeds(last.refused, last.answers, refusedShare):
		return hook.PausedStuck
	case exceeds(last.errors, last.answers, j.PauseErrorPercent):
		return hook.PausedByErrors
	default:
		return ""
	}
}

// exceeds reports whether part is more than so many percent of whole.
func exceeds(part, whole int64, percent float64) bool {
	return float64(part)*100 > percent*float64(whole)
}

// rest lets a replay that paused itself go on once its lanes are well and the
// minute that made it pause is over.
func (p *pacer) rest(now time.Time, j hook.ReplayJob, lane laneState) verdict {
	if j.PauseReason.NeedsPerson() || lane != laneReady || now.Sub(j.PausedAt) < lookBack {
		return verdict{job: j}
	}
	p.forget()
	j.CurrentPerMinute, j.PacedAt = j.PerMinute, now
	return move(now, j, hook.ReplayRunning, "", "replay.resume")
}

// look takes note of the counters. The first minute begins when the pace began
// to be used, which is just before the first step.
func (p *pacer) look(now time.Time, j *hook.ReplayJob) {
	if p.minute.IsZero() {
		p.minute = now
		if now.Sub(j.PacedAt) <= maxLag {
			p.minute = j.PacedAt
		}
	}
	c := &j.Counts
	p.samples = append(p.samples, sample{at: now, answers: c.Answers, errors: c.Errors, refused: c.Refused})
	from := now.Add(-lookBack)
	for len(p.samples) > 1 && !p.samples[1].at.After(from) {
		p.samples = p.samples[1:]
	}
}

// last returns what was counted in the last minute.
func (p *pacer) last() sample {
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	return sample{
		at: last.at, answers: last.answers - first.answers, errors: last.errors - first.errors, refused: last.refused - first.refused,
	}
}

// forget begins anew, as after a pause.
func (p *pacer) forget() { *p = pacer{} }

// nextRate returns the pace for the minute that begins, or the present one
// within a minute. It grows only after a minute that was fed in full and
// answered well.
func (p *pacer) nextRate(now time.Time, j *hook.ReplayJob) int {
	if now.Sub(p.minute) < lookBack {
		return j.CurrentPerMinute
	}
	last, heldBack := p.last(), p.heldBack
	p.minute, p.heldBack = now, false
	if heldBack || last.answers == 0 || exceeds(last.errors, last.answers, j.PauseErrorPercent) {
		return j.CurrentPerMinute
	}
	return paceOf(j).Next(j.CurrentPerMinute)
}

func paceOf(j *hook.ReplayJob) policy.Pace {
	return policy.Pace{PerMinute: j.PerMinute, Ramp: j.Ramp, MaxMultiple: j.MaxMultiple}
}

// due returns how many deliveries the pace has room for, and how far they use
// it up. The pace is kept in the replay, so that neither a restart nor two
// nodes that both feed for a moment exceed it.
func due(now time.Time, j *hook.ReplayJob) (n int, pacedAt time.Time) {
	gap := time.Minute / time.Duration(max(j.CurrentPerMinute, 1))
	pacedAt = j.PacedAt
	if late := now.Add(-max(gap, maxLag)); pacedAt.Before(late) {
		pacedAt = late
	}
	n = max(int(now.Sub(pacedAt)/max(gap, 1)), 0)
	return n, pacedAt.Add(time.Duration(n) * gap)
}

// allow is due, less what waits for an answer already.
func (p *pacer) allow(now time.Time, j *hook.ReplayJob) (n int, pacedAt time.Time) {
	n, pacedAt = due(now, j)
	c := &j.Counts
	waiting := c.Fed - max(c.Answers, c.Delivered+c.Failed)
	room := max(waitingMinutes*int64(j.CurrentPerMinute), waitingFloor) - max(waiting, 0)
	if int64(n) > room {
		p.heldBack = true
		n = int(max(room, 0))
	}
	return n, pacedAt
}

// finish ends a replay whose deliveries have all ended. What was in the set and
// not fed counts as skipped, so that the numbers add up.
func finish(now time.Time, j hook.ReplayJob) verdict {
	if j.Counts.Outstanding() > 0 {
		return verdict{job: j}
	}
	c := &j.Counts
	c.Skipped = max(c.Skipped, j.Total-c.Fed)
	j.Total = c.Fed + c.Skipped
	j.FinishedAt = now
	return move(now, j, hook.ReplayDone, "", "replay.finish")
}

// pause stops a running replay. One that pauses itself again and again without
// having delivered anything waits for a person.
func pause(now time.Time, j hook.ReplayJob, why hook.PauseReason) verdict {
	if why == hook.PausedByBreaker || why == hook.PausedByErrors {
		if j.Counts.Delivered > j.DeliveredAtPause {
			j.SelfPauses = 0
		}
		j.SelfPauses++
		j.DeliveredAtPause = j.Counts.Delivered
		if j.SelfPauses >= maxSelfPauses {
			why = hook.PausedStuck
		}
	}
	j.PausedAt = now
	return move(now, j, hook.ReplayPaused, why, "replay.pause")
}

func move(now time.Time, j hook.ReplayJob, to hook.ReplayState, why hook.PauseReason, action string) verdict {
	j.State, j.PauseReason, j.UpdatedAt = to, why, now
	return verdict{job: j, changed: true, action: action}
}
