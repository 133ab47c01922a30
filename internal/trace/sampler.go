package trace

import (
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// linked decides about an attempt as if it were a part of the trace that it is
// linked to, so that an accept and its attempts are sampled alike. Everything else
// is left to the sampler that the operator chose.
type linked struct{ sdk.Sampler }

// ShouldSample implements sdk.Sampler.
func (s linked) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	if len(p.Links) != 1 || trace.SpanContextFromContext(p.ParentContext).IsValid() {
		return s.Sampler.ShouldSample(p)
	}
	accept := p.Links[0].SpanContext
	p.ParentContext = trace.ContextWithRemoteSpanContext(p.ParentContext, accept)
	p.TraceID = accept.TraceID()
	result := s.Sampler.ShouldSample(p)
	result.Tracestate = trace.TraceState{} // its trace is its own
	return result
}
