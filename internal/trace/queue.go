package trace

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// queue bounds the spans that wait for the collector and counts what becomes of
// them. It stands on both sides of the SDK's batch processor, which drops too but
// tells nobody: in front as a processor, behind as an exporter. As it lets no more
// in than the batch processor has room for, that one never drops.
type queue struct {
	room     int64
	exporter sdk.SpanExporter
	log      *slog.Logger

	waiting               atomic.Int64
	sent, dropped, failed atomic.Uint64

	// Of the goroutine that exports.
	told   time.Time
	toldOf Counts
}

func (q *queue) counts() Counts {
	return Counts{Sent: q.sent.Load(), Dropped: q.dropped.Load(), Failed: q.failed.Load()}
}

// entrance is the side of the queue that spans come in by.
type entrance struct {
	queue             *queue
	sdk.SpanProcessor // the batch processor behind it
}

// OnEnd implements sdk.SpanProcessor. It never waits.
func (e entrance) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if e.queue.waiting.Add(1) > e.queue.room {
		e.queue.waiting.Add(-1)
		e.queue.dropped.Add(1)
		return
	}
	e.SpanProcessor.OnEnd(s)
}

// ExportSpans implements sdk.SpanExporter. The batch processor calls it from one
// goroutine. It does not return what went wrong: it has told already, and nobody
// tries again.
func (q *queue) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := q.exporter.ExportSpans(ctx, spans)
	q.waiting.Add(-int64(len(spans)))
	lost := 0
	if part := (*rejected)(nil); errors.As(err, &part) {
		lost = int(min(max(part.spans, 0), int64(len(spans))))
	} else if err != nil {
		lost = len(spans)
	}
	q.failed.Add(uint64(lost))
	q.sent.Add(uint64(len(spans) - lost))
	q.tell(err)
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (q *queue) Shutdown(ctx context.Context) error { return q.exporter.Shutdown(ctx) }

// tellEvery is how often the log hears of spans that were lost.
const tellEvery = time.Minute

func (q *queue) tell(err error) {
	now := q.counts()
	dropped, failed := now.Dropped-q.toldOf.Dropped, now.Failed-q.toldOf.Failed
	if dropped+failed == 0 || !q.told.IsZero() && time.Since(q.told) < tellEvery {
		return
	}
	q.told, q.toldOf = time.Now(), now
	q.log.Warn("traces are incomplete: the collector does not take all spans", "dropped", dropped, "failed", failed, "error", err)
}

// closed tells of the spans that were still waiting when the time to send them
// had passed.
func (q *queue) closed() {
	if n := q.waiting.Swap(0); n > 0 {
		q.dropped.Add(uint64(n))
		q.log.Warn("traces are incomplete: the collector did not take the last spans in time", "dropped", n)
	}
}
