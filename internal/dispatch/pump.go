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
func (l *loop) pump(now time.Time, r *runner) {
	if r.dest == nil || l.draining || l.leaving[r.shard] != nil || !l.d.owner.mayStart(r.shard, r.epoch) {
		return // whatever ends this state touches the lane again
	}
	l.refreshSigner(now, r)
	l.spillHeard(now, r)
	if l.seek(now, r) {
		return
	}
	l.sendWhatMay(now, r)
	l.discard(now, r)
	l.readMore(now, r)
	l.expire(now, r)
	if l.evict(now, r) {
		return
	}
	l.setWake(r, l.nextLook(now, r))
}

func (l *loop) sendWhatMay(now time.Time, r *runner) {
	r.hostAt = time.Time{}
	for r.lane.Queued() > 0 {
		if ok, at := r.hostAllows(now); !ok {
			r.hostAt = at
			return
		}
		dec := l.d.slots.next(now, r.tenant, r.lane)
		if dec.Starved {
			l.starve(r)
			r.hostTurnPassed(now)
		}
		if !dec.Send {
			return
		}
		r.probeAsked = false
		l.launch(now, r, dec)
	}
}

func (l *loop) starve(r *runner) {
	if !r.starved {
		r.starved = true
		l.starved[r.tenant] = append(l.starved[r.tenant], r)
	}
}

// launch starts one attempt.
func (l *loop) launch(now time.Time, r *runner, dec lane.Decision) {
	it := r.items[dec.Ref.ID]
	r.dequeue(it)
	it.flying = true
	l.unsettled[r.shard]++
	f := l.newFlight()
	*f = flight{
		loop: l, r: r, it: it, dest: r.dest, event: it.event, delivery: it.delivery,
		kind: dec.Kind, tag: dec.Tag, started: now, hostLoad: r.hostStarted(now),
		laneState: r.lane.State(), laneLimit: r.lane.Limit(), laneInFlight: r.lane.InFlight(),
	}
	l.d.crew.send(f, &l.d.work)
}

// readPatience is how long what is on disk waits at most for the window to run
// low before it is read all the same.
const readPatience = 100 * time.Millisecond

// readMore reads ahead when more is due on disk and the window runs low, or has
// held nothing that was read for a while: more may arrive all the time than the
// lane sends. A lane that holds reads no rows: its backlog costs nothing while it
// waits.
func (l *loop) readMore(now time.Time, r *runner) {
	rows := l.mayReadRows(now, r) && (r.lane.Queued() <= l.lowWindow() || now.Sub(r.readAt) >= readPatience)
	if r.reading || !rows && (len(r.heard) == 0 || l.roomForNew(r) <= 0) {
		return
	}
	r.reading, r.readAt = true, now
	l.toRead = append(l.toRead, r)
}

// mayReadRows reports whether there are rows to read and room for them. What a
// lane has discarded is in the window until its end is stored.
func (l *loop) mayReadRows(now time.Time, r *runner) bool {
	return r.wantsRows(now) && r.readQueued <= l.lowWindow() && (!r.discards() || len(r.items) < l.d.cfg.Window)
}

// lowWindow is how many deliveries a window holds that runs low.
func (l *loop) lowWindow() int { return l.d.cfg.Window / 4 }

// nextLook is when the lane wants to be pumped without any other input.
func (l *loop) nextLook(now time.Time, r *runner) time.Time {
	at := r.lane.Wake(now)
	holds := r.holds(now)
	if r.diskDue.After(now) && (!holds || r.lane.Queued() == 0) && !r.lane.Paused() {
		// An open lane without anything in memory probes with what falls due.
		due := r.diskDue
		if holds && at.After(due) {
			due = at
		}
		at = earliest(at, due)
	}
	if holds && !r.expiring {
		at = earliest(at, r.expireAt)
	}
	return earliest(earliest(at, r.hostAt), l.evictAt(r))
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
func (l *loop) expire(now time.Time, r *runner) {
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

func (l *loop) expired(r *runner, hold time.Duration, rows []hook.Delivery, err error) {
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
	if since := r.lane.BlockedSince(now); since.IsZero() || now.Before(since.Add(hold)) {
		rows = nil // unblocked meanwhile: they are sent instead
	}
	for i := range rows {
		l.end(now, r, rows[i], hook.DeadExpired)
	}
	l.touch(r)
}

// end settles a delivery that waits as dead, without an attempt.
func (l *loop) end(now time.Time, r *runner, d hook.Delivery, why hook.EndReason) {
	if _, settled := r.gone[d.ID]; settled {
		return
	}
	it, held := r.items[d.ID]
	if held && !it.waiting {
		return // in flight, or its result is on its way to the store
	}
	if held {
		r.lane.Forget(d.ID)
		r.dequeue(it)
	} else {
		it = &item{delivery: d} // so that it is not read meanwhile
		r.items[d.ID] = it
	}
	it.unsettled++
	due := d.DueAt
	if was := d.Restore; was != nil { // only the wish for a manual send ends
		d.State, d.DueAt, d.Reason, d.Restore = was.State, was.DueAt, was.Reason, nil
	} else {
		d.State, d.Reason, d.SettledAt = hook.Dead, why, now
	}
	l.d.cfg.Settler.Settle(&store.Settle{Shard: r.shard, Epoch: r.epoch, Prev: d.Attempts, Due: due, Delivery: d}, nil)
}

// evictAt is when the lane may leave memory if nothing happens; zero while it
// has work or is not plainly closed.
func (l *loop) evictAt(r *runner) time.Time {
	switch {
	case r.idleSince.IsZero():
		return time.Time{}
	case len(l.runners) > l.d.cfg.Crowd:
		return r.idleSince.Add(crowdedEviction)
	default:
		return r.idleSince.Add(idleEviction)
	}
}

// evict lets go of a lane that has been without work for long. It reports
// whether it did.
func (l *loop) evict(now time.Time, r *runner) bool {
	busy := len(r.items)+len(r.heard) > 0 || !r.diskDue.IsZero() || r.reading || r.loading || r.expiring ||
		r.lane.InFlight() > 0 || !r.lane.BlockedSince(now).IsZero()
	switch {
	case busy:
		r.idleSince = time.Time{}
	case r.idleSince.IsZero():
		r.idleSince = now
	case !now.Before(l.evictAt(r)):
		if !r.savedAt.IsZero() && r.lane.Checkpoint().Moved(r.saved) {
			l.d.cfg.Settler.Settle(nil, l.checkpoint(r))
		}
		l.drop(r)
		return true
	}
	return false
}

// drop takes the lane out of memory: it is idle, its endpoint was deleted, or
// its shard is lost. Results that are still to come are settled all the same
// unless the shard is another node's.
func (l *loop) drop(r *runner) {
	r.dropped = true
	l.setWake(r, time.Time{})
	l.leaveSeat(time.Now(), r)
	for _, it := range r.items {
		l.d.payloadBytes.Add(-it.counted)
	}
	delete(l.runners, r.endpoint)
	l.d.cfg.Watch.LaneLeft(r.tenant, r.endpoint)
}
