package alert

import (
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

// Rules about figures: shares and means over a window.

// percentOf is a share of a whole that is large enough to have one.
func percentOf(part, whole uint64, v values) (float64, bool) {
	if whole == 0 || float64(whole) < v.of(minSamples) {
		return 0, false
	}
	return 100 * float64(part) / float64(whole), true
}

func endpointErrors(v values, r *Reading) []verdict {
	failed, all := r.Quarter.Get(stats.FailedFirst), r.Quarter.Get(stats.Attempts(hook.First))
	p, ok := percentOf(failed, all, v)
	if !ok || p <= v.of("percent") {
		return nil
	}
	return found(p, v.of("percent"), fmt.Sprintf("%s failed %s of %s in 15 minutes (%s; limit %s). Look at its latest attempts for the error.",
		r.who(), number(failed), of(all, "first attempt", "first attempts"), share(p), share(v.of("percent"))))
}

func retryRate(v values, r *Reading) []verdict {
	all := r.Hour.AllDelivered()
	retried := all - r.Hour.Get(stats.Delivered(1))
	p, ok := percentOf(retried, all, v)
	if !ok || p <= v.of("percent") {
		return nil
	}
	return found(p, v.of("percent"), fmt.Sprintf("%s: %s of %s in the last hour needed a retry (%s; limit %s). Look at which errors the first attempts met.",
		r.who(), number(retried), of(all, "delivery", "deliveries"), share(p), share(v.of("percent"))))
}

func deadRate(v values, r *Reading) []verdict {
	dead := r.Day.AllDead()
	all := dead + r.Day.AllDelivered()
	p, ok := percentOf(dead, all, v)
	if !ok || p <= v.of("percent") {
		return nil
	}
	return found(p, v.of("percent"), fmt.Sprintf("%s: %s of %s in the last 24 hours were given up (%s; limit %s). Look at the dead letters by reason, and replay them once the cause is gone.",
		r.who(), number(dead), of(all, "delivery", "deliveries"), share(p), share(v.of("percent"))))
}

func successRate(v values, r *Reading) []verdict {
	delivered := r.Hour.AllDelivered()
	all := delivered + r.Hour.AllDead()
	p, ok := percentOf(delivered, all, v)
	if !ok || p >= v.of("percent") {
		return nil
	}
	return found(p, v.of("percent"), fmt.Sprintf("%s: %s of %s that ended in the last hour arrived (%s; at least %s is wanted). Look at the dead letters by endpoint and reason.",
		r.who(), number(delivered), of(all, "delivery", "deliveries"), share(p), share(v.of("percent"))))
}

func attemptsToSuccess(v values, r *Reading) []verdict {
	n := r.Hour.AllDelivered()
	if n == 0 || float64(n) < v.of(minSamples) {
		return nil
	}
	mean, limit, what := float64(r.Hour.Get(stats.TriesOfDelivered))/float64(n), v.of("attempts"), "attempts"
	if retries := v.of("retries_per_delivery"); retries > 0 {
		mean, limit, what = mean-1, retries, "retries"
	}
	if mean <= limit {
		return nil
	}
	return found(mean, limit, fmt.Sprintf("%s: %s of the last hour took %s %s on average (limit %s). Look at which errors the failed attempts met.",
		r.who(), of(n, "delivery", "deliveries"), decimal(mean, 2), what, decimal(limit, 2)))
}

func secondAttemptSuccess(v values, r *Reading) []verdict {
	n := r.Hour.Get(stats.SecondTries)
	delivered := min(r.Hour.Get(stats.Delivered(2)), n)
	p, ok := percentOf(delivered, n, v)
	if !ok || p >= v.of("percent") {
		return nil
	}
	return found(p, v.of("percent"), fmt.Sprintf("%s: %s of %s in the last hour succeeded (%s; at least %s is usual). Failures last longer than the first retry waits: look at their reasons.",
		r.who(), number(delivered), of(n, "second attempt", "second attempts"), share(p), share(v.of("percent"))))
}

func deliveryLatency(v values, r *Reading) []verdict {
	times := r.Hour.DeliveryTimes()
	if n := times.Count(); n == 0 || float64(n) < v.of(minSamples) {
		return nil
	}
	limit := v.duration("latency")
	p99 := times.Quantile(0.99)
	if p99 <= limit {
		return nil
	}
	return found(p99.Seconds(), limit.Seconds(), fmt.Sprintf("%s: one delivery in a hundred of the last hour took %s or longer to arrive (limit %s). Look at what waits, and for what: pace, breaker or retries.",
		r.who(), lasted(p99), lasted(limit)))
}

func deadLettersGrowing(v values, r *Reading) []verdict {
	n := r.Quarter.AllDead()
	if float64(n) < v.of("letters") || n == 0 {
		return nil
	}
	var most hook.EndReason
	var top uint64
	r.Quarter.ByReason(func(reason hook.EndReason, n uint64) {
		if n > top {
			most, top = reason, n
		}
	})
	return found(float64(n), v.of("letters"), fmt.Sprintf("%s has %s of the last 15 minutes, most of them %s. Look at them by reason; they can be replayed.",
		r.who(), of(n, "new dead letter", "new dead letters"), most))
}
