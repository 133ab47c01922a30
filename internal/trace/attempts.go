package trace

import (
	"context"
	"net/url"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// attempts makes spans of attempts, beside those who make the attempts: an event
// loop has no time for it.
type attempts struct {
	spans   trace.Tracer
	queue   *queue
	inbox   chan attempted
	closing chan struct{}
	once    sync.Once
	worker  sync.WaitGroup
}

// attempted is what a span needs of an attempt.
type attempted struct {
	from                              hook.Trace
	tenant, event, endpoint, delivery hook.ID
	number, status                    int
	kind                              hook.AttemptKind
	class                             hook.Class
	reason                            hook.Reason
	url                               string
	started, ended                    time.Time
	latency                           time.Duration
}

// newAttempts starts it, with room for so many attempts to wait.
func newAttempts(spans trace.Tracer, q *queue, room int) *attempts {
	a := &attempts{spans: spans, queue: q, inbox: make(chan attempted, room), closing: make(chan struct{})}
	a.worker.Go(a.work)
	return a
}

// Attempted makes a span of an attempt that has ended, at an event that came in
// the trace from. It never waits.
func (t *Tracer) Attempted(from hook.Trace, a *hook.Attempt, ended time.Time) {
	select {
	case t.attempts.inbox <- attempted{
		from: from, tenant: a.TenantID, event: a.EventID, endpoint: a.EndpointID, delivery: a.DeliveryID,
		number: a.Number, status: a.Status, kind: a.Kind, class: a.Class, reason: a.Reason,
		url: a.Detail.URL, started: a.StartedAt, ended: ended, latency: a.Latency,
	}:
	default:
		t.queue.dropped.Add(1)
	}
}

func (a *attempts) work() {
	for {
		select {
		case x := <-a.inbox:
			a.span(&x)
		case <-a.closing:
			for {
				select {
				case x := <-a.inbox:
					a.span(&x)
				default:
					return
				}
			}
		}
	}
}

// close makes spans of what waits and ends. What comes later is not looked at.
func (a *attempts) close() {
	a.once.Do(func() { close(a.closing) })
	a.worker.Wait()
}

// span makes the span: the root of a trace of its own, linked to the accept. The
// attempt may happen days later, and one event can have many thousands.
func (a *attempts) span(x *attempted) {
	accept := spanContext(x.from)
	if !accept.IsValid() {
		return
	}
	_, span := a.spans.Start(context.Background(), "deliver",
		trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: accept}),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(x.started))
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(x.attributes()...)
	if x.class != hook.Success {
		span.SetStatus(codes.Error, x.reason.String())
	}
	span.End(trace.WithTimestamp(x.ended))
}

func (x *attempted) attributes() []attribute.KeyValue {
	list := append(make([]attribute.KeyValue, 0, 13),
		keyMethod.String(method),
		keyTenant.String(hook.TenantPrefix.Format(x.tenant)),
		keyEvent.String(hook.EventPrefix.Format(x.event)),
		keyEndpoint.String(hook.EndpointPrefix.Format(x.endpoint)),
		keyDelivery.String(hook.DeliveryPrefix.Format(x.delivery)),
		keyNumber.Int(x.number), keyKind.String(x.kind.String()),
		keyClass.String(x.class.String()), keyReason.String(x.reason.String()),
		keyLatency.Float64(float64(x.latency.Microseconds())/1000),
	)
	// The host alone: paths and queries of webhooks may hold secrets.
	if u, err := url.Parse(x.url); err == nil && u.Host != "" {
		list = append(list, keyAddress.String(u.Hostname()))
	}
	if x.status != 0 {
		list = append(list, keyStatus.Int(x.status))
	}
	if x.class != hook.Success {
		list = append(list, keyError.String(x.reason.String()))
	}
	return list
}
