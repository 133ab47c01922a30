// Package trace makes spans of what the server does and sends them to an
// OpenTelemetry collector over OTLP/HTTP. It is the only package that knows
// OpenTelemetry.
//
// It follows the standard OTEL_* variables and is off unless they ask for it: then
// Open returns nothing, and who would call it has nothing to call. What it does
// never waits for the collector: spans wait in a bounded queue, and those that
// find it full are counted and dropped.
package trace

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Tracer makes spans. It is safe for concurrent use.
type Tracer struct {
	provider  *sdk.TracerProvider
	spans     trace.Tracer
	queue     *queue
	collector *collector
	attempts  *attempts
}

// Counts are the spans of a process so far.
type Counts struct {
	Sent    uint64 // taken by the collector
	Dropped uint64 // too many were waiting
	Failed  uint64 // given up after the collector refused them or did not answer
}

// Counts returns what has become of the spans so far.
func (t *Tracer) Counts() Counts { return t.queue.counts() }

// closeTimeout is how long a stop waits for spans to be sent.
const closeTimeout = 5 * time.Second

// Close sends the spans that wait, within bounds. No span may end after it.
func (t *Tracer) Close() { t.closeWithin(closeTimeout) }

func (t *Tracer) closeWithin(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	t.attempts.close()
	t.collector.hurry()
	_ = t.provider.Shutdown(ctx) // what was not sent is counted
	t.queue.closed()
}

// Names of attributes. Those of HTTP are OpenTelemetry's, the others ours.
const (
	keyMethod  = attribute.Key("http.request.method")
	keyRoute   = attribute.Key("http.route")
	keyStatus  = attribute.Key("http.response.status_code")
	keyAddress = attribute.Key("server.address")
	keyError   = attribute.Key("error.type")

	keyTenant     = attribute.Key("breakwater.tenant.id")
	keyEvent      = attribute.Key("breakwater.event.id")
	keyType       = attribute.Key("breakwater.event.type")
	keyDeliveries = attribute.Key("breakwater.event.deliveries")
	keyOutcome    = attribute.Key("breakwater.accept.outcome")
	keyAccepted   = attribute.Key("breakwater.batch.accepted")
	keyRejected   = attribute.Key("breakwater.batch.rejected")
	keyEndpoint   = attribute.Key("breakwater.endpoint.id")
	keyDelivery   = attribute.Key("breakwater.delivery.id")
	keyNumber     = attribute.Key("breakwater.attempt.number")
	keyKind       = attribute.Key("breakwater.attempt.kind")
	keyClass      = attribute.Key("breakwater.attempt.class")
	keyReason     = attribute.Key("breakwater.attempt.reason")
	keyLatency    = attribute.Key("breakwater.attempt.latency_ms")
)

const method = "POST" // of requests that bring events, and of deliveries

// Request is the span of a request that brings events.
type Request struct {
	span trace.Span
	from hook.Trace
}

// Begin begins the span of a request, as a part of the trace from unless that is
// zero.
func (t *Tracer) Begin(from hook.Trace, at time.Time, route string, tenant hook.ID) *Request {
	ctx := context.Background()
	if sc := spanContext(from); sc.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, sc)
	}
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(at),
		trace.WithAttributes(keyMethod.String(method), keyRoute.String(route)),
	}
	if tenant != 0 {
		options = append(options, trace.WithAttributes(keyTenant.String(hook.TenantPrefix.Format(tenant))))
	}
	_, span := t.spans.Start(ctx, method+" "+route, options...)
	return &Request{span: span, from: from}
}

// Trace returns the trace context that the events of the request go on with,
// and whether it must be kept with them: the request's own, or what it came with
// if it is not sampled.
func (r *Request) Trace() (own hook.Trace, keep bool) {
	sc := r.span.SpanContext()
	if !sc.IsSampled() {
		return r.from, false
	}
	return hook.Trace{Parent: traceParent(sc), State: r.from.State}, true
}

// Answer is how a request ended.
type Answer struct {
	Status             int
	Code               string // of what went wrong; empty: nothing
	Type               string // of its event
	Receipt            hook.Receipt
	Accepted, Rejected int // events of a batch
}

// End ends the span.
func (r *Request) End(a Answer) {
	if !r.span.IsRecording() {
		return
	}
	attributes := []attribute.KeyValue{keyStatus.Int(a.Status), keyOutcome.String(a.outcome())}
	if a.Type != "" {
		attributes = append(attributes, keyType.String(a.Type))
	}
	if id := a.Receipt.EventID; id != 0 {
		attributes = append(attributes, keyEvent.String(hook.EventPrefix.Format(id)), keyDeliveries.Int(a.Receipt.Deliveries))
	}
	if a.Accepted+a.Rejected > 0 {
		attributes = append(attributes, keyAccepted.Int(a.Accepted), keyRejected.Int(a.Rejected))
	}
	if a.Code != "" {
		attributes = append(attributes, keyError.String(a.Code))
	}
	r.span.SetAttributes(attributes...)
	if a.Status >= 500 { // what a client did wrong is no error of the server
		r.span.SetStatus(codes.Error, a.Code)
	}
	r.span.End()
}

// outcome is one of a closed list.
func (a *Answer) outcome() string {
	switch {
	case a.Receipt.Replayed:
		return "replayed"
	case a.Receipt.EventID != 0, a.Accepted > 0 && a.Rejected == 0:
		return "accepted"
	case a.Accepted > 0:
		return "partly_accepted"
	}
	return "refused"
}

// spanContext is a trace context as OpenTelemetry has it; not valid when it is
// zero.
func spanContext(t hook.Trace) trace.SpanContext {
	if len(t.Parent) != len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") {
		return trace.SpanContext{}
	}
	traceID, err1 := trace.TraceIDFromHex(t.Parent[3:35])
	spanID, err2 := trace.SpanIDFromHex(t.Parent[36:52])
	if err1 != nil || err2 != nil {
		return trace.SpanContext{}
	}
	flags, err := strconv.ParseUint(t.Parent[53:], 16, 8)
	if err != nil {
		return trace.SpanContext{}
	}
	state, _ := trace.ParseTraceState(t.State) // none if OpenTelemetry is stricter
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags) & trace.FlagsSampled, TraceState: state, Remote: true})
}

func traceParent(sc trace.SpanContext) string {
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + sc.TraceFlags().String()
}
