package dispatch

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// Observer hears what happens on the lanes of this node. The event loops call
// it, so it must return at once.
type Observer interface {
	// Attempted tells of an attempt that has ended.
	Attempted(a Attempted)
	// LaneOpened tells that a lane opened.
	LaneOpened(o Opening)
	// LaneFound tells that a lane was taken over open: it opened earlier, under
	// an owner before.
	LaneFound(tenant, endpoint hook.ID)
	// LaneClosed tells that a lane closed.
	LaneClosed(tenant, endpoint hook.ID)
	// LaneLeft tells that a lane is no longer in this node's memory: it has
	// long been idle, its endpoint was deleted, or its shard is another node's.
	LaneLeft(tenant, endpoint hook.ID)
	// LaneNews tells of something else that happened on a lane.
	LaneNews(n LaneNews)
	// NodeNews tells of this node, or of one that is not seen any more.
	NodeNews(n NodeNews)
}

// Opening is what opened a lane.
type Opening struct {
	Tenant, Endpoint hook.ID
	URL, UID         string // of the endpoint
	Failures         int
	// Of the latest of them: why, the status if there was an answer, and the text of
	// the error if there was none.
	Reason hook.Reason
	Status int
	Error  string
}

// LaneNews is something that happened on a lane, beside its breaker.
type LaneNews struct {
	Tenant, Endpoint hook.ID
	// Type is EndpointRecovered, BreakerProbeFailed, LaneThrottled, LaneSlowStartDone
	// or DeliveryDeadLettered.
	Type   hook.OperationalType
	Reason string        // why a probe failed, or a delivery is a dead letter
	Wait   time.Duration // that a destination asks for
}

// NodeNews is something that happened to a node.
type NodeNews struct {
	Node   hook.Node
	Type   hook.OperationalType // NodeJoined, NodeLeft or NodeLeaseLost
	Shards int                  // that were lost
}

// tellLane passes on what a result means beside the breaker. They are few: nothing is
// told of a success on a lane that is well.
func (l *loop) tellLane(r *runner, f *flight, c lane.Change, v policy.Verdict) {
	tell := func(t hook.OperationalType, reason string, wait time.Duration) {
		l.d.cfg.Observer.LaneNews(LaneNews{Tenant: r.tenant, Endpoint: r.endpoint, Type: t, Reason: reason, Wait: wait})
	}
	if f.tag.Probe && !c.Closed && v.Class != hook.Success && v.Class != hook.Local {
		tell(hook.BreakerProbeFailed, v.Reason.String(), 0)
	}
	if v.RetryAfter > 0 {
		tell(hook.LaneThrottled, "", v.RetryAfter)
	}
	if c.SlowStartDone {
		tell(hook.LaneSlowStartDone, "", 0)
	}
	if c.Recovered {
		tell(hook.EndpointRecovered, "", 0)
	}
}

// tellDead passes on that a delivery has become a dead letter.
func (l *loop) tellDead(r *runner, why hook.EndReason) {
	l.d.cfg.Observer.LaneNews(LaneNews{Tenant: r.tenant, Endpoint: r.endpoint, Type: hook.DeliveryDeadLettered, Reason: why.String()})
}

// Attempted is an attempt that has ended, as an observer counts it.
type Attempted struct {
	Tenant, Endpoint hook.ID
	Kind             hook.AttemptKind
	Class            hook.Class
	Reason           hook.Reason
	State            hook.DeliveryState // the delivery's, after it
	Attempts         int                // of the delivery, this one included
	Took             time.Duration
}

// Tracer makes a span of each attempt at an event that belongs to a trace. The
// event loops call it, so it must return at once.
type Tracer interface {
	// Attempted tells of an attempt that has ended, at an event that came in the
	// trace from.
	Attempted(from hook.Trace, a *hook.Attempt, ended time.Time)
}

// trace notes whose trace the event of an attempt belongs to, if anybody wants to
// know.
func (d *Dispatcher) trace(f *flight, e *hook.Event) {
	if d.cfg.Tracer != nil {
		_, f.trace = hook.CutTrace(e.ContentType)
	}
}

// traced tells of an attempt that has ended.
func (d *Dispatcher) traced(f *flight, a *hook.Attempt) {
	if d.cfg.Tracer != nil && f.trace.Parent != "" {
		d.cfg.Tracer.Attempted(f.trace, a, f.answered)
	}
}
