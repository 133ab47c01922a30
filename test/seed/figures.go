package seed

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// figures makes the logs of a day, one for each minute.
func (w *writer) figures(all []*destination) []stats.Record {
	var out []stats.Record
	for at := w.ago(day).Truncate(time.Minute); at.Before(w.now); at = at.Add(time.Minute) {
		var l stats.Log
		share := 1.0
		if left := w.now.Sub(at); left < time.Minute {
			share = left.Minutes()
		}
		waits := make(waiting)
		for _, d := range all {
			w.minute(&l, waits, d, at, share)
		}
		waits.log(&l, time.Duration(share*float64(time.Minute)))
		out = append(out, stats.Record{At: at, Packed: append([]byte(nil), l.Packed()...)})
	}
	return out
}

// waiting is how many deliveries of tenants waited in a minute.
type waiting map[hook.ID]*[4]uint64

// waitsFor are the counters of what waits, in the order of waiting.
var waitsFor = [4]stats.Counter{stats.ReadySeconds, stats.DelayedSeconds, stats.RetryingSeconds, stats.HeldSeconds}

// tell says how many wait for a destination.
func (t waiting) tell(l *stats.Log, d *destination, gauge stats.Counter, n uint64) {
	l.Tell(gauge, n)
	if t[d.of.id] == nil {
		t[d.of.id] = new([4]uint64)
	}
	for i, g := range []stats.Counter{stats.Ready, stats.Delayed, stats.Retrying, stats.Held} {
		if g == gauge {
			t[d.of.id][i] += n
		}
	}
}

// log adds for how long deliveries waited, and that somebody looked, as a server does.
func (t waiting) log(l *stats.Log, looked time.Duration) {
	seconds := uint64(max(looked.Seconds(), 1))
	for _, tenant := range slices.Sorted(maps.Keys(t)) {
		l.Begin(0, stats.Owner{Tenant: tenant})
		for i, counter := range waitsFor {
			if n := t[tenant][i]; n > 0 {
				l.Count(counter, n*seconds)
			}
		}
		l.End()
	}
	l.Begin(0, stats.Owner{})
	l.Count(stats.LookedSeconds, seconds)
	l.End()
}

// minute counts what happened at a destination in a minute.
func (w *writer) minute(l *stats.Log, waits waiting, d *destination, at time.Time, share float64) {
	mean := d.rate * 60 * w.busy(at) * share
	n := uint64(max(0, math.Round(mean+math.Sqrt(mean)*w.rng.NormFloat64())))
	if n > 0 {
		l.Begin(1, stats.Owner{Tenant: d.of.id})
		l.Count(stats.Events, n)
		l.End()
	}
	l.Begin(1, stats.Owner{Tenant: d.of.id, Endpoint: d.id})
	defer l.End()
	if n > 0 {
		l.Count(stats.Accepted, n)
	}
	since := w.now.Sub(at)
	down := d.plot == outage && (since <= outageFor || since <= earlyOutage && since > earlyEnded) ||
		d.plot == draining && since <= drainOutage && since > drainedSince
	switch {
	case down:
		w.downMinute(l, waits, d, since)
	case d.plot == paused && since <= pausedFor, d.plot == gone && since <= goneFor:
		began := pausedFor
		if d.plot == gone {
			began = goneFor
		}
		waits.tell(l, d, stats.Held, uint64((began-since).Seconds()*d.rate*0.6))
	default:
		w.upMinute(l, waits, d, n, since)
	}
}

// downMinute is a minute of an outage: probes fail, and deliveries wait.
func (w *writer) downMinute(l *stats.Log, waits waiting, d *destination, since time.Duration) {
	began := outageFor
	switch {
	case d.plot == draining:
		began = drainOutage
	case since > outageFor:
		began = earlyOutage
	}
	probes := uint64(2)
	if age := began - since; age < 0 || age < time.Minute { // the first minute: what opened it
		l.Count(stats.Attempts(hook.First), 5)
		l.Count(stats.FailedFirst, 5)
		l.Count(stats.Failed(hook.Unavailable), 5)
		probes = 4
	}
	l.Count(stats.Attempts(hook.Probe), probes)
	l.Count(stats.Failed(hook.Unavailable), probes)
	l.Count(stats.AttemptTook(30*time.Millisecond), probes)
	l.Tell(stats.Breaker, 1)
	l.Tell(stats.Limit, 1)
	l.Tell(stats.InFlight, 1)
	waits.tell(l, d, stats.Held, uint64(max(0, (began-since).Seconds()+60)*d.rate))
	l.Tell(stats.Oldest, uint64(max(0, (began-since).Seconds()+60)))
}

// upMinute is a minute in which the destination answers.
func (w *writer) upMinute(l *stats.Log, waits waiting, d *destination, n uint64, since time.Duration) {
	backlog := uint64(0)
	if d.plot == draining && since <= drainedSince { // what was held goes out beside the new
		rate := 60 * 3 * min(1, float64(drainedSince-since)/float64(3*time.Minute)+0.1)
		backlog = uint64(rate)
		waits.tell(l, d, stats.Held, 0)
		waits.tell(l, d, stats.Ready, uint64(max(0, 5700-(drainedSince-since).Seconds()*4)))
		l.Tell(stats.Oldest, uint64((drainOutage - 9*time.Minute).Seconds()))
	}
	if d.plot == outage && since <= earlyEnded && since > earlyEnded-8*time.Minute {
		backlog = uint64(14 * 60 * d.rate / 8)
		waits.tell(l, d, stats.Ready, uint64(max(0, (since-earlyEnded+8*time.Minute).Seconds()*14*d.rate)))
	}
	sent := n + backlog
	if sent == 0 {
		return
	}
	bad, reason := w.part(sent, 0.004), hook.ServerError
	switch {
	case d.plot == throttled && since <= throttleFor+time.Minute:
		bad, reason = w.part(sent, 0.2), hook.Throttled
		waits.tell(l, d, stats.Ready, sent/3)
		waits.tell(l, d, stats.Retrying, sent/4)
	case d.plot == rejecting && since <= rejectingFor:
		bad, reason = w.part(sent, 0.12), hook.ClientError
	case d.plot == gone:
		bad, reason = w.part(sent, 0.3), hook.Gone
	}
	dead := reason == hook.ClientError || reason == hook.Gone
	l.Count(stats.Attempts(hook.First), sent)
	w.latencies(l, d, sent, stats.AttemptTook)
	if bad > 0 {
		l.Count(stats.FailedFirst, bad)
		l.Count(stats.Failed(reason), bad)
	}
	switch {
	case bad > 0 && reason == hook.Gone:
		l.Count(stats.Dead(hook.DeadGone), bad)
	case bad > 0 && dead:
		l.Count(stats.Dead(hook.DeadPermanent), bad)
	case bad > 0:
		l.Count(stats.Attempts(hook.Retry), bad)
		l.Count(stats.SecondTries, bad)
		l.Count(stats.Delivered(2), bad)
	}
	l.Count(stats.Delivered(1), sent-bad)
	l.Count(stats.TriesOfDelivered, sent-bad)
	w.latencies(l, d, sent-bad, stats.DeliveryTook)
	l.Tell(stats.Limit, 20)
	l.Tell(stats.LimitLow, 20)
	l.Tell(stats.InFlight, 1+sent/60)
	l.Tell(stats.Breaker, 0)
}

// part draws how many of n something happens to.
func (w *writer) part(n uint64, share float64) uint64 {
	exact := float64(n) * share
	whole := uint64(exact)
	if w.rng.Float64() < exact-float64(whole) {
		whole++
	}
	return min(whole, n)
}

// latencies counts how long n answers took.
func (w *writer) latencies(l *stats.Log, d *destination, n uint64, counter func(time.Duration) stats.Counter) {
	const groups = 12
	each := n / groups
	for range groups {
		if each > 0 {
			l.Count(counter(w.took(d)), each)
		}
	}
	if rest := n - each*groups; rest > 0 {
		l.Count(counter(w.took(d)), rest)
	}
}

// fold adds up all logs.
func fold(ctx context.Context, db store.StatsKeeper) error {
	for {
		n, err := db.FoldStats(ctx, 1<<20)
		if err != nil || n == 0 {
			return err
		}
	}
}
