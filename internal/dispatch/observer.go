package dispatch

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Observer hears what happens on the lanes of this node. The event loops call
// it, so it must return at once.
type Observer interface {
	// Attempted tells of an attempt that has ended.
	Attempted(a Attempted)
	// LaneOpened tells that a lane opened.
	LaneOpened(tenant, endpoint hook.ID)
	// LaneFound tells that a lane was taken over open: it opened earlier, under
	// an owner before.
	LaneFound(tenant, endpoint hook.ID)
	// LaneClosed tells that a lane closed.
	LaneClosed(tenant, endpoint hook.ID)
	// LaneLeft tells that a lane is no longer in this node's memory: it has
	// long been idle, its endpoint was deleted, or its shard is another node's.
	LaneLeft(tenant, endpoint hook.ID)
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
