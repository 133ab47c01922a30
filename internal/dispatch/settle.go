package dispatch

import (
	"slices"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/sign"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/window"
)

// result turns an answer into a verdict on the delivery, teaches the lane, and
// settles both together.
func (l *loop) result(now time.Time, f *flight) {
	r := f.r
	if l.shards[r.shard] != r.epoch {
		l.d.release(r.tenant) // the shard is another node's: it sends this one again
		return
	}
	v := f.dest.policy.Judge(f.delivery.Progress, f.delivery.DueAt, policy.Outcome{
		Kind: f.kind, LaneClosed: f.tag.Closed,
		Status: f.answer.Status, Reason: f.answer.Reason,
		RetryAfter: f.answer.Header["Retry-After"], Date: f.answer.Header.Get("Date"),
		At: f.answered, U: l.rng.Float64(),
	})
	change := r.lane.Result(now, l.rng.Float64(), f.tag, lane.Outcome{
		Class: v.Class, RTT: f.answer.Latency, Waited: f.answer.Waited, Hold: v.Hold, RetryAfter: v.RetryAfter, LastChance: v.LastChance,
		HostSilent: r.hostSilent(now, f, v.Class),
	})
	l.hostHeard(now, r, f, v.Class, change)
	if f.tag.Probe {
		r.soughtFresh = false
	}
	if why := l.disableReason(f, change, v); why != "" {
		l.disable(now, r, why)
		change.Save = true
	}
	r.hear(now, v)

	s := &store.Settle{
		Shard: r.shard, Epoch: r.epoch, Prev: f.delivery.Attempts, Due: f.delivery.DueAt,
		Delivery: settledDelivery(f, v), Attempt: l.attempt(now, f, v),
		Restored: v.Unchanged && f.delivery.Restore != nil && f.delivery.Restore.State != hook.Pending,
	}
	stays := v.Unchanged && f.delivery.Restore == nil && s.Delivery.State == hook.Pending
	r.win.Answered(f.it, s.Delivery)
	l.d.cfg.Observer.Attempted(Attempted{
		Tenant: r.tenant, Endpoint: r.endpoint, Kind: f.kind, Class: v.Class, Reason: v.Reason,
		State: s.Delivery.State, Attempts: s.Delivery.Attempts, Took: f.answer.Latency,
	})
	l.d.traced(f, s.Attempt)
	l.tellLane(r, f, change, v)
	if s.Delivery.State == hook.Dead && !v.Unchanged {
		l.tellDead(r, s.Delivery.Reason)
	}
	if r.dropped { // its endpoint was deleted; what happened is recorded
		l.d.cfg.Settler.Settle(s, nil)
		return
	}
	if stays && r.win.Return(f.it) { // a failed probe, and nothing else for the next one
		r.lane.Return(refOf(f.it))
	}
	var save *store.LaneSave
	if change.Save || l.hasMoved(now, r) {
		save = l.checkpoint(r)
	}
	l.d.cfg.Settler.Settle(s, save)
	l.note(r, f, change, v)
	if change.Refill || change.Opened {
		l.touch(r)
		return
	}
	// The lane wants no refill right now: only its own wake-up may pump it.
	l.setWake(r, window.Earliest(r.lane.Wake(now), l.nextLook(now, r)))
}

// note tells of a change of the breaker, and acts on it.
func (l *loop) note(r *runner, f *flight, c lane.Change, v policy.Verdict) {
	if c.Opened {
		r.soughtFresh = false
		if !r.discards() {
			l.evictToDisk(r)
		}
		l.d.cfg.Observer.LaneOpened(Opening{
			Tenant: r.tenant, Endpoint: r.endpoint, URL: f.dest.url, UID: f.dest.uid,
			Failures: c.Failures, Reason: v.Reason, Status: f.answer.Status, Error: brief(f.answer.Text),
		})
	}
	if c.Closed {
		l.d.cfg.Observer.LaneClosed(r.tenant, r.endpoint)
	}
	l.warnOfFailing(r, c)
}

// settledDelivery is the delivery row as the verdict leaves it.
func settledDelivery(f *flight, v policy.Verdict) hook.Delivery {
	d := f.delivery
	d.Attempts++
	d.Progress = v.Progress
	d.Last = hook.LastResult{Class: v.Class, Reason: v.Reason, Status: f.answer.Status, Latency: f.answer.Latency, At: f.answered}
	switch {
	case v.Unchanged && d.Restore != nil: // a manual send that failed
		d.State, d.DueAt, d.Reason = d.Restore.State, d.Restore.DueAt, d.Restore.Reason
	case v.Unchanged:
	default:
		d.State, d.Reason = v.State, v.End
		if v.State == hook.Pending {
			d.DueAt = v.DueAt
		} else {
			d.SettledAt = f.answered
		}
	}
	if d.State == hook.Delivered && d.FirstDeliveredAt.IsZero() {
		d.FirstDeliveredAt = f.answered
	}
	d.Restore = nil
	return d
}

// attempt is the log row.
func (l *loop) attempt(now time.Time, f *flight, v policy.Verdict) *hook.Attempt {
	d := &f.delivery
	kept := f.dest.record(&f.answer, d.Attempts+1)
	a := &hook.Attempt{
		ID: l.d.cfg.IDs.Next(now), TenantID: d.TenantID, DeliveryID: d.ID, EndpointID: d.EndpointID, EventID: d.EventID,
		NodeID: l.d.cfg.Node.ID, Number: d.Attempts + 1, Run: d.Progress.Run,
		Kind: f.kind, Class: v.Class, Reason: v.Reason, Charged: v.Charged,
		Status: f.answer.Status, Latency: f.answer.Latency, StartedAt: f.started,
		PolicyHash: f.dest.hash, RetryN: v.RetryN, Ceiling: v.Ceiling, U: v.U, Delay: v.Delay, DelaySource: v.Source,
		Error: brief(f.answer.Text), Excerpt: kept.body,
		Detail: hook.AttemptDetail{
			URL: f.dest.url, RequestHeaders: f.dest.masked(f.header), ResponseHeaders: kept.header,
			Truncated: kept.truncated, RemoteAddr: f.answer.RemoteAddr, Phases: f.answer.Phases,
			RetryAfter: brief(strings.Join(f.answer.Header["Retry-After"], ", ")), RetryAfterCapped: v.RetryAfterCapped,
			LaneState: f.laneState.String(), LaneLimit: f.laneLimit, LaneInFlight: f.laneInFlight,
		},
	}
	if v.State == hook.Pending && !v.Unchanged {
		a.NextDueAt = v.DueAt
	}
	return a
}

// hidden stands for the values of a header that are never shown.
var hidden = []string{mask}

// masked is the request's header without anything secret: our signatures and
// the endpoint's own values.
func (t *destination) masked(fields []egress.Field) map[string][]string {
	if fields == nil {
		return nil
	}
	out := make(map[string][]string, len(fields))
	values := make([]string, len(fields))
	for i, f := range fields {
		values[i] = f.Value
		out[f.Name] = values[i : i+1 : i+1]
		if f.Name == sign.HeaderSignature || slices.Contains(t.private, f.Name) {
			out[f.Name] = hidden
		}
	}
	return out
}

// settled gives slots back and forgets what has been settled.
func (l *loop) settled(now time.Time, settles []*store.Settle) {
	l.ended = l.ended[:0]
	for _, s := range settles {
		if s.Attempt != nil {
			l.ended = append(l.ended, s.Delivery.TenantID)
			if l.shards[s.Shard] == s.Epoch && l.unsettled[s.Shard] > 0 {
				l.unsettled[s.Shard]--
			}
		}
		l.acknowledge(now, s)
	}
	l.d.release(l.ended...)
}

func (l *loop) acknowledge(now time.Time, s *store.Settle) {
	if s.Outcome == store.SettleFenced {
		l.fencedOff(store.Held{Shard: s.Shard, Epoch: s.Epoch})
		return
	}
	r, ok := l.runners[s.Delivery.EndpointID]
	if !ok || r.epoch != s.Epoch {
		return
	}
	if !r.lane.Resting(now) {
		l.touch(r)
	}
	switch it, fate := r.win.Settled(now, &s.Delivery, s.Outcome == store.SettleGone); fate {
	case window.Stays:
	case window.Left:
		l.dropPayload(it)
		if it.MustReread() {
			l.touch(r)
		}
	case window.Refused:
		l.readAgainLater(r, s.Delivery.ID)
	}
}

// readAgainLater reads a delivery again whose row moved on without us: cancelled,
// or asked for by hand. It waits a moment first: a row that the store refuses to
// change would otherwise be sent as fast as it can be read.
func (l *loop) readAgainLater(r *runner, id hook.ID) {
	r.lane.Forget(id)
	l.postAfter(readAgain, func() {
		if !r.dropped {
			l.dropPayload(r.win.Reread(time.Now(), id))
			l.touch(r)
		}
	})
}
