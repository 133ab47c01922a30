package alert

import (
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

// Rules about the state of one endpoint, tenant or replay.

// retryStorm has no division in it: without first attempts a ratio would be
// undefined, and the rule silent exactly when everything that is sent is a retry.
func retryStorm(v values, r *Reading) []verdict {
	s := r.Lane.Storm
	if s.First == 0 && s.Retries == 0 {
		s.First, s.Retries = int64(r.Quarter.Get(stats.Attempts(hook.First))), int64(r.Quarter.Get(stats.Attempts(hook.Retry)))
	}
	ratio := v.of("ratio")
	if !(float64(s.Retries) > v.of("retries") && float64(s.Retries) > ratio*float64(s.First)) {
		return nil
	}
	against := "no first attempts"
	if s.First > 0 {
		against = of(s.First, "first attempt", "first attempts")
	}
	return found(s.Ratio(), ratio, fmt.Sprintf("%s got %s against %s in 15 minutes (ratio %s; limit %s). Look at its lane and its last error: it is failing what it is sent.",
		r.who(), of(s.Retries, "retry", "retries"), against, decimal(s.Ratio(), 1), decimal(ratio, 1)))
}

// queueGrowing ends only when the queue has not grown, not already when it grows
// less.
func queueGrowing(v values, r *Reading) []verdict {
	l := &r.Lane
	grown := l.Depth - l.DepthBefore
	if grown <= 0 && (!l.AtLeast || l.Depth == 0) {
		return nil
	}
	strong := float64(grown) > v.of("growth") && float64(l.Depth) > v.of("factor")*float64(l.DepthBefore)
	return []verdict{{
		value: float64(l.Depth), threshold: max(float64(l.DepthBefore)+v.of("growth"), v.of("factor")*float64(l.DepthBefore)), weak: !strong,
		summary: fmt.Sprintf("%s: %s wait for another attempt or are held, %s more than 5 minutes ago. Look at its lane: whether the breaker is open, and the last error.",
			r.who(), of(l.Depth, "delivery", "deliveries"), number(max(grown, 0))),
	}}
}

func endpointFailing(v values, r *Reading) []verdict {
	l := &r.Lane
	if l.Failures == 0 || float64(l.Failures) < v.of("failures") {
		return nil
	}
	return found(float64(l.Failures), v.of("failures"), fmt.Sprintf("%s failed %s in a row, the last one with %s. Ask whoever runs it.",
		r.who(), of(l.Failures, "attempt", "attempts"), l.answered()))
}

// tripSeen is how long a trip counts after it happened: a breaker that opens and
// closes between two rounds is told of all the same.
const tripSeen = 2 * time.Minute

func breakerOpen(_ values, r *Reading) []verdict {
	l := &r.Lane
	if l.OpenedAt.IsZero() {
		return nil
	}
	since := max(r.At.Sub(l.OpenedAt), 0)
	switch {
	case l.Open:
		return found(1, 1, fmt.Sprintf("%s is down: its breaker has been open for %s after %s, and %s held. Nothing is lost; a probe finds out when it is back. Look at its last error.",
			r.who(), lasted(since), l.answered(), of(l.Held, "delivery is", "deliveries are")))
	case since < tripSeen:
		return found(1, 1, fmt.Sprintf("%s was down: its breaker opened after %s and closed again within %s. Look at its last error.",
			r.who(), l.answered(), lasted(max(l.ClosedAt.Sub(l.OpenedAt), 0))))
	default:
		return nil
	}
}

func breakerOpenLong(v values, r *Reading) []verdict {
	l := &r.Lane
	age, limit := r.At.Sub(l.OpenedAt), v.duration("age")
	if !l.Open || l.OpenedAt.IsZero() || age <= limit {
		return nil
	}
	return found(age.Seconds(), limit.Seconds(), fmt.Sprintf("%s has been down for %s (limit %s), last with %s; %s held. Ask whoever runs it; held deliveries expire after breaker.max_hold.",
		r.who(), lasted(age), lasted(limit), l.answered(), of(l.Held, "delivery is", "deliveries are")))
}

func holdExpiring(v values, r *Reading) []verdict {
	l := &r.Lane
	if l.MaxHold <= 0 || l.OldestHeld <= 0 {
		return nil
	}
	p := 100 * float64(l.OldestHeld) / float64(l.MaxHold)
	limit, step := v.of("percent"), 0
	if second := v.of("page_percent"); p > second {
		limit, step = second, 1
	}
	if p <= limit {
		return nil
	}
	left := "is due to expire now"
	if rest := l.MaxHold - l.OldestHeld; rest > 0 {
		left = "becomes a dead letter in " + lasted(rest)
	}
	return []verdict{{
		value: p, threshold: limit, step: step,
		summary: fmt.Sprintf("%s: the oldest of %s has been held for %s of %s (%s) and %s. Bring the endpoint back, or raise breaker.max_hold.",
			r.who(), of(l.Held, "delivery", "deliveries"), lasted(l.OldestHeld), lasted(l.MaxHold), share(p), left),
	}}
}

func endpointDisabled(_ values, r *Reading) []verdict {
	if r.Level() == hook.LevelTenant {
		n := r.Tenant.Disabled
		if n == 0 {
			return nil
		}
		return found(float64(n), 1, fmt.Sprintf("%s has %s that answered 410 or did nothing but fail. Their deliveries are held: resume or delete them.",
			r.who(), of(n, "disabled endpoint", "disabled endpoints")))
	}
	l := &r.Lane
	if !l.Disabled {
		return nil
	}
	var why string
	switch l.DisabledReason {
	case "gone":
		why = "it answered 410 Gone"
	case "failing":
		why = "it did nothing but fail for disable_after, last with " + l.answered()
	default:
		return nil // a person did it, and knows
	}
	return found(1, 1, fmt.Sprintf("%s was disabled because %s; %s held until they expire. Resume it when it is back, or delete it.",
		r.who(), why, of(l.Held, "delivery is", "deliveries are")))
}

func longRetry(v values, r *Reading) []verdict {
	n := r.Tenant.PendingLong
	if r.Level() == hook.LevelSystem {
		n = r.System.PendingLong
	}
	if float64(n) <= v.of("deliveries") {
		return nil
	}
	return found(float64(n), v.of("deliveries"), fmt.Sprintf("%s: %s pending for longer than %s (limit %s). Look at which endpoints they wait for: one is down, paused or slow.",
		r.who(), of(n, "delivery is", "deliveries are"), lasted(v.duration("age")), number(int64(v.of("deliveries")))))
}

func lettersExpiring(v values, r *Reading) []verdict {
	n := r.Tenant.Expiring
	if n == 0 || float64(n) < v.of("letters") {
		return nil
	}
	return found(float64(n), v.of("letters"), fmt.Sprintf("%s: %s removed within %s. Replay what must still arrive, or discard them.",
		r.who(), of(n, "dead letter will be", "dead letters will be"), lasted(v.duration("within"))))
}

func replayPaused(_ values, r *Reading) []verdict {
	var out []verdict
	for _, p := range r.Tenant.Replays {
		if p.Reason == hook.PausedByUser {
			continue // a person did it, and knows
		}
		step, next := 0, "It goes on by itself when its endpoint is back."
		if p.Reason.NeedsPerson() {
			step, next = 1, "It waits for a person: find out what fails, then resume or cancel it."
		}
		progress := of(p.Fed, "delivery", "deliveries")
		if p.Total >= 0 {
			progress = number(p.Fed) + " of " + of(p.Total, "delivery", "deliveries")
		}
		out = append(out, verdict{
			value: 1, threshold: 1, step: step,
			subject: &hook.AlertSubject{Tenant: r.Subject.Tenant, Replay: p.ID},
			summary: fmt.Sprintf("Replay %s paused itself (%s) after %s. %s", hook.ReplayPrefix.Format(p.ID), p.Reason, progress, next),
		})
	}
	return out
}
