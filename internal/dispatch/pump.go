package dispatch

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/window"
)

// readTimeout bounds one read of the store on behalf of a lane.
const readTimeout = 10 * time.Second

// readAgain is the wait after a read that failed.
const readAgain = time.Second

// pump lets the lane send what it may, reads ahead when its window runs low,
// ends what was held too long, and sets its next wake-up.
func (l *loop) pump(now time.Time, r *runner) {
	if r.dest == nil || r.outdated || l.draining || l.leaving[r.shard] != nil || !l.d.owner.MayStart(r.shard, r.epoch) {
		return // whatever ends this state touches the lane again
	}
	l.refreshSigner(now, r)
	l.leaveAnnouncedOnDisk(now, r)
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
	it := r.win.Taken(dec.Ref.ID)
	l.unsettled[r.shard]++
	f := l.newFlight()
	*f = flight{
		loop: l, r: r, it: it, dest: r.dest, event: it.Event, delivery: it.Delivery,
		kind: dec.Kind, tag: dec.Tag, started: now, hostLoad: r.hostStarted(now),
		laneState: r.lane.State(), laneLimit: r.lane.Limit(), laneInFlight: r.lane.InFlight(),
	}
	l.d.crew.send(f, &l.d.work)
}

// readMore reads ahead when more is due on disk and the window wants it, or when
// deliveries were announced to it and there is room for them.
func (l *loop) readMore(now time.Time, r *runner) {
	if r.win.Reading() {
		return
	}
	rows := r.win.HasDue(now) && r.win.WantsRows(now, r.gate(now)) && r.win.RunsLow(now)
	if !rows && (len(r.announced) == 0 || r.win.RoomForNew() <= 0) {
		return
	}
	r.win.ReadAsked(now)
	l.toRead = append(l.toRead, r)
}

// nextLook is when the lane wants to be pumped without any other input.
func (l *loop) nextLook(now time.Time, r *runner) time.Time {
	g := r.gate(now)
	at := r.win.NextLook(now, r.lane.Wake(now), g)
	if g.Holds && !r.win.Expiring() {
		at = window.Earliest(at, r.expireAt)
	}
	return window.Earliest(window.Earliest(at, r.hostAt), l.evictAt(r))
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
	if r.win.Expiring() || now.Before(r.expireAt) {
		return
	}
	r.win.ExpiryBegun()
	l.reads.add(func(ctx context.Context) func() {
		rows, err := l.d.cfg.Store.ReadAhead(ctx, r.endpoint, now.Add(-hold), expireBatch)
		return func() { l.expired(r, hold, rows, err) }
	})
}

func (l *loop) expired(r *runner, hold time.Duration, rows []hook.Delivery, err error) {
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
		if it := r.win.Expire(&rows[i]); it != nil {
			r.lane.Forget(it.Delivery.ID)
			l.end(now, r, it.Delivery, hook.DeadExpired)
		}
	}
	r.win.ExpiryEnded()
	l.touch(r)
}

// end settles a delivery that does not wait any more as dead, without an attempt.
func (l *loop) end(now time.Time, r *runner, d hook.Delivery, why hook.EndReason) {
	due, restored := d.DueAt, false
	if was := d.Restore; was != nil { // only the request for a manual send ends
		restored = was.State != hook.Pending
		d.State, d.DueAt, d.Reason, d.Restore = was.State, was.DueAt, was.Reason, nil
	} else {
		d.State, d.Reason, d.SettledAt = hook.Dead, why, now
		l.tellDead(r, why)
	}
	l.d.cfg.Settler.Settle(&store.Settle{Shard: r.shard, Epoch: r.epoch, Prev: d.Attempts, Due: due, Delivery: d, Restored: restored}, nil)
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
	busy := !r.win.Idle() || len(r.announced) > 0 || r.loading ||
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
	r.win.Each(l.dropPayload)
	delete(l.runners, r.endpoint)
	l.d.cfg.Observer.LaneLeft(r.tenant, r.endpoint)
}
