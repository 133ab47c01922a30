package accept

import (
	"net/http"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Tracer makes a span of each request that hands over events.
type Tracer interface {
	// Begin begins the span of a request, in the trace from unless that is zero.
	Begin(from hook.Trace, r Begun) Span
}

// Begun is a request at its beginning.
type Begun struct {
	At     time.Time
	Route  string // its path, with names for what varies
	Tenant hook.ID
}

// Span is the record of one request.
type Span interface {
	// Trace returns the trace context that the events of the request go on with,
	// and whether it is to be kept with them.
	Trace() (t hook.Trace, keep bool)
	End(o Outcome)
}

// Outcome is a request at its end.
type Outcome struct {
	Status int
	Code   string // of what went wrong, as the API calls it; empty: nothing

	// Of one event.
	Type    string // empty: it could not be read
	Receipt hook.Receipt
	// Of a batch, in which the above are empty.
	Accepted, Rejected int
}

// trail is what a request leaves behind for those who look for it. The zero
// value is that of a request that nobody traces.
type trail struct {
	span  Span
	trace *hook.EventTrace // of its events
	typ   string           // of its event
}

// follow begins the trail of a request.
func (a *acceptor) follow(c *rest.Call, route string, h http.Header) trail {
	var from hook.Trace
	if parents := h[hook.HeaderTraceParent]; parents != nil {
		from = hook.ReadTrace(parents, h[hook.HeaderTraceState])
	}
	if a.cfg.Tracer == nil {
		if from.Parent == "" {
			return trail{}
		}
		return trail{trace: &hook.EventTrace{Trace: from}}
	}
	span := a.cfg.Tracer.Begin(from, Begun{At: c.Now, Route: route, Tenant: c.Tenant})
	own, keep := span.Trace()
	return trail{span: span, trace: &hook.EventTrace{Trace: own, Keep: keep}}
}

// refused ends the trail of a request that failed as a whole.
func (t *trail) refused(p *rest.Problem) {
	if t.span != nil {
		t.span.End(Outcome{Status: p.Status, Code: p.Code, Type: t.typ})
	}
}

// accepted ends the trail of one event.
func (t *trail) accepted(r hook.Receipt) {
	if t.span != nil {
		t.span.End(Outcome{Status: http.StatusAccepted, Type: t.typ, Receipt: r})
	}
}

// answered ends the trail of a batch.
func (t *trail) answered(a *batchAnswer, status *rest.Problem) {
	if t.span != nil {
		t.span.End(Outcome{Status: status.Status, Code: status.Code, Accepted: a.Accepted, Rejected: a.Rejected})
	}
}
