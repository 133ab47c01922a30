package app

import (
	"github.com/breakwaterhq/breakwater/internal/api/accept"
	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/trace"
)

// openTracer starts the tracer if the environment asks for one. Without one, those
// who would use it get a plain nil.
func (a *App) openTracer() {
	a.tracer = trace.Open(trace.Config{Version: a.opts.Version, Node: a.node.Name, Log: a.log})
}

// closeTracer sends what spans are left, within bounds. Nobody makes any more.
func (a *App) closeTracer() {
	if a.tracer != nil {
		a.tracer.Close()
	}
}

func (a *App) attemptTracer() dispatch.Tracer {
	if a.tracer == nil {
		return nil
	}
	return a.tracer
}

func (a *App) acceptTracer() accept.Tracer {
	if a.tracer == nil {
		return nil
	}
	return requests{a.tracer}
}

// requests lets the routes that take events use the tracer.
type requests struct{ tracer *trace.Tracer }

func (r requests) Begin(from hook.Trace, b accept.Begun) accept.Span {
	return request{r.tracer.Begin(from, b.At, b.Route, b.Tenant)}
}

type request struct{ *trace.Request }

func (r request) End(o accept.Outcome) { r.Request.End(trace.Answer(o)) }
