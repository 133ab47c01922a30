package dispatch

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// readTimeout bounds one read of the store on behalf of a lane.
const readTimeout = 10 * time.Second

// readAgain is the wait after a read that failed.
const readAgain = time.Second

// pump lets the lane send what it may, reads ahead when its window runs low,
// ends what was held too long, and sets its next wake-up.
func (l *loop) pump(now time.Time, r *resident) {
	if r.dest == nil || l.draining || l.leaving[r.shard] != nil || !l.d.owner.mayStart() {
		return // whatever ends this state touches the lane again
	}
	l.refreshSigner(now, r)
	if l.seekProbe(now, r) {
		return
	}
	l.sendWhatMay(now, r)
	l.readMore(now, r)
	l.expire(now, r)
	if l.evict(now, r) {
		return
	}
	l.setWake(r, l.nextLook(now, r))
}

func (l *loop) sendWhatMay(now time.Time, r *resident) {
	for r.lane.Queued() > 0 {
		if !l.d.slots.take() {
			l.starve(r)
			return
		}
		dec := r.lane.Next(now, l.d.slots.free()+1)
		if !dec.Send {
			l.d.slots.inUse.Add(-1)
			if dec.Starved {
				l.starve(r)
			}
			return
		}
		l.launch(now, r, dec)
	}
}

func (l *loop) starve(r *resident) {
	if !r.starved {
		r.starved = true
		l.starved = append(l.starved, r)
	}
}

// launch starts one attempt.
func (l *loop) launch(now time.Time, r *resident, dec lane.Decision) {
	it := r.items[dec.Ref.ID]
	it.waiting, it.flying = false, true
	l.unsettled[r.shard]++
	f := &flight{
		loop: l, r: r, it: it, dest: r.dest, event: it.event, delivery: it.delivery,
		kind: dec.Kind, tag: dec.Tag, started: now,
		laneState: r.lane.State(), laneLimit: r.lane.Limit(), laneInFlight: r.lane.InFlight(),
	}
	go l.d.fly(f)
}

// seekProbe looks on disk when a probe is due and the window holds nothing that
// never failed, or when a person asked for a delivery of a blocked lane. It
// reports whether the lane has to wait for that.
func (l *loop) seekProbe(now time.Time, r *resident) bool {
	blocked := !r.lane.BlockedSince(now).IsZero()
	if !blocked {
		r.lookNewest = false // the ordinary read ahead finds it
	}
	onDisk := !r.diskDue.IsZero() && !r.diskDue.After(now)
	probe := r.lane.ProbeDue(now) && !r.lane.HasFresh() && !r.soughtFresh
	if !onDisk || !probe && !r.lookNewest {
		return false
	}
	if r.reading {
		return true
	}
	r.reading, r.lookNewest = true, false
	l.reads.add(func() {
		ctx, cancel := context.WithTimeout(l.d.attempts, readTimeout)
		defer cancel()
		var next time.Time
		rows, err := l.d.cfg.Store.NewestDue(ctx, r.endpoint, now, freshKept)
		if err == nil && len(rows) == 0 {
			next, err = l.d.cfg.Store.NextDue(ctx, r.endpoint, now)
		}
		l.post(func() { l.probeFound(r, rows, next, err) })
	})
	return true
}

// probeFound takes what people asked for and, as the next probe, the newest
// delivery that never failed, else the newest.
func (l *loop) probeFound(r *resident, rows []hook.Delivery, next time.Time, err error) {
	l.readEnded(r)
	if r.dropped {
		return
	}
	now := time.Now()
	noted := r.noted
	r.noted = time.Time{}
	switch {
	case err != nil:
		l.d.cfg.Log.Warn("read of probe candidates failed", "endpoint", hook.EndpointPrefix.Format(r.endpoint), "error", err)
		r.diskDue = now.Add(readAgain)
	case len(rows) == 0:
		r.diskDue = next
	default:
		r.soughtFresh = true // until a probe has gone out
	}
	if !noted.IsZero() {
		r.noteDue(noted)
	}
	l.admitProbes(now, r, rows)
	r.gone = nil
	l.touch(r)
}

func (l *loop) admitProbes(now time.Time, r *resident, rows []hook.Delivery) {
	best := -1
	for i := range rows {
		switch {
		case rows[i].Restore != nil:
			l.admit(now, r, rows[i], nil)
		case best < 0 || rows[i].Progress.Fails == 0 && rows[best].Progress.Fails > 0:
			best = i
		}
	}
	if best >= 0 {
		l.admit(now, r, rows[best], nil)
	}
}

// readMore reads ahead when the window runs low and more is due on disk. A lane
// that is blocked reads nothing: its backlog costs nothing while it waits.
func (l *loop) readMore(now time.Time, r *resident) {
	if r.reading || r.diskDue.IsZero() || r.diskDue.After(now) ||
		r.lane.Queued() > l.d.cfg.Window/4 || len(r.items) >= l.room(now, r) || !r.lane.BlockedSince(now).IsZero() {
		return
	}
	r.reading = true
	limit := l.d.cfg.Window
	l.reads.add(func() {
		ctx, cancel := context.WithTimeout(l.d.attempts, readTimeout)
		defer cancel()
		var next time.Time
		rows, err := l.d.cfg.Store.ReadAhead(ctx, r.endpoint, now, limit)
		if err == nil && len(rows) < limit {
			next, err = l.d.cfg.Store.NextDue(ctx, r.endpoint, now)
		}
		l.post(func() { l.readAhead(r, now, rows, limit, next, err) })
	})
}

// readAhead takes what was read as of asOf into the window.
func (l *loop) readAhead(r *resident, asOf time.Time, rows []hook.Delivery, limit int, next time.Time, err error) {
	l.readEnded(r)
	if r.dropped {
		return
	}
	noted := r.noted
	r.noted = time.Time{}
	now := time.Now()
	switch {
	case err != nil:
		l.d.cfg.Log.Warn("read ahead failed", "endpoint", hook.EndpointPrefix.Format(r.endpoint), "error", err)
		r.diskDue = now.Add(readAgain)
	case len(rows) == limit:
		r.diskDue = asOf
	default:
		r.diskDue = next
	}
	if !noted.IsZero() {
		r.noteDue(noted)
	}
	for i := range rows {
		l.admit(now, r, rows[i], nil)
	}
	r.gone = nil
	l.touch(r)
}

func (l *loop) readEnded(r *resident) {
	l.reads.done()
	r.reading = false
}

// nextLook is when the lane wants to be pumped without any other input.
func (l *loop) nextLook(now time.Time, r *resident) time.Time {
	at := r.lane.Wake(now)
	blocked := !r.lane.BlockedSince(now).IsZero()
	if r.diskDue.After(now) && (!blocked || r.lane.Queued() == 0) && !r.lane.Paused() {
		// An open lane without anything in memory probes with what falls due.
		due := r.diskDue
		if blocked && at.After(due) {
			due = at
		}
		at = earliest(at, due)
	}
	if blocked {
		at = earliest(at, r.expireAt)
	}
	return earliest(at, r.evictAt())
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// expireBatch is how many held deliveries end in one go.
const expireBatch = 256

// expire ends deliveries that were held longer than the policy allows. Holding
// counts from the later of the due time and the moment the lane was blocked.
func (l *loop) expire(now time.Time, r *resident) {
	since := r.lane.BlockedSince(now)
	if since.IsZero() {
		r.expireAt = time.Time{}
		return
	}
	hold := r.dest.policy.Breaker.MaxHold
	if r.expireAt.IsZero() {
		r.expireAt = since.Add(hold)
	}
	if r.expiring || now.Before(r.expireAt) {
		return
	}
	r.expiring = true
	l.reads.add(func() {
		ctx, cancel := context.WithTimeout(l.d.attempts, readTimeout)
		defer cancel()
		rows, err := l.d.cfg.Store.ReadAhead(ctx, r.endpoint, now.Add(-hold), expireBatch)
		l.post(func() { l.expired(r, hold, rows, err) })
	})
}

func (l *loop) expired(r *resident, hold time.Duration, rows []hook.Delivery, err error) {
	l.reads.done()
	r.expiring = false
	if r.dropped {
		return
	}
	now := time.Now()
	r.expireAt = now.Add(min(max(hold/50, time.Second), time.Minute))
	if err != nil {
		l.d.cfg.Log.Warn("read of expired deliveries failed", "endpoint", hook.EndpointPrefix.Format(r.endpoint), "error", err)
	} else if len(rows) == expireBatch {
		r.expireAt = now.Add(100 * time.Millisecond)
	}
	if r.lane.BlockedSince(now).IsZero() {
		rows = nil // unblocked meanwhile: they are sent instead
	}
	for i := range rows {
		l.end(now, r, rows[i], hook.DeadExpired)
	}
	l.touch(r)
}

// end settles a delivery that waits as dead, without an attempt.
func (l *loop) end(now time.Time, r *resident, d hook.Delivery, why hook.EndReason) {
	if _, settled := r.gone[d.ID]; settled {
		return
	}
	it, held := r.items[d.ID]
	if held && !it.waiting {
		return // in flight, or its result is on its way to the store
	}
	if held {
		r.lane.Forget(d.ID)
		it.waiting = false
	} else {
		r.items[d.ID] = &item{delivery: d} // so that it is not read meanwhile
	}
	d.State, d.Reason, d.SettledAt, d.Restore = hook.Dead, why, now, nil
	l.d.cfg.Settler.Settle(&store.Settle{Shard: r.shard, Epoch: r.epoch, Prev: d.Attempts, Delivery: d}, nil)
}

// evictAt is when the lane may leave memory if nothing happens; zero while it
// has work or is not plainly closed.
func (r *resident) evictAt() time.Time {
	if r.idleSince.IsZero() {
		return time.Time{}
	}
	return r.idleSince.Add(idleEviction)
}

// evict lets go of a lane that has been without work for long. It reports
// whether it did.
func (l *loop) evict(now time.Time, r *resident) bool {
	busy := len(r.items) > 0 || !r.diskDue.IsZero() || r.reading || r.loading || r.expiring ||
		r.lane.InFlight() > 0 || !r.lane.BlockedSince(now).IsZero()
	switch {
	case busy:
		r.idleSince = time.Time{}
	case r.idleSince.IsZero():
		r.idleSince = now
	case !now.Before(r.evictAt()):
		l.drop(r)
		return true
	}
	return false
}

// drop takes the lane out of memory. Results that are still to come are thrown
// away, which is right only when there are none or the shard is lost.
func (l *loop) drop(r *resident) {
	r.dropped = true
	l.setWake(r, time.Time{})
	for _, it := range r.items {
		l.d.payloadBytes.Add(-it.counted)
	}
	delete(l.residents, r.endpoint)
}
