package seed

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Rows are complete for the last minutes, and a sample before: lists show the
// newest, and figures are kept apart from rows.
const (
	day          = 24 * time.Hour
	completeFor  = 10 * time.Minute
	sampleOneIn  = 60
	rowsPerBatch = 1000
)

// busy is the share of the traffic of noon at a moment: the story ends at noon.
func (w *writer) busy(at time.Time) float64 {
	hours := w.now.Sub(at).Hours()
	wave := 0.62 + 0.38*math.Cos(hours/24*2*math.Pi)
	return wave * (1 + 0.08*math.Sin(hours*7) + 0.05*math.Sin(hours*31))
}

// batch gathers what is written at once.
type batch struct {
	store.Batch

	revs map[hook.ID]int64
}

// writeRows writes the events of all destinations with what became of them.
func (w *writer) writeRows(ctx context.Context, all []*destination) error {
	b := &batch{revs: map[hook.ID]int64{}}
	for _, d := range all {
		rev, err := w.db.ConfigRev(ctx, d.of.id)
		if err != nil {
			return err
		}
		b.revs[d.of.id] = rev
	}
	for _, d := range all {
		for at := w.ago(day); at.Before(w.now); {
			thin := 1.0
			if at.Before(w.ago(completeFor)) && !w.held(d, at) {
				thin = sampleOneIn
			}
			at = at.Add(time.Duration(thin * w.rng.ExpFloat64() / (d.rate * w.busy(at)) * float64(time.Second))).Truncate(time.Microsecond)
			if !at.Before(w.now) {
				break
			}
			w.event(b, d, at)
			if len(b.Accepts) >= rowsPerBatch {
				if err := w.commit(ctx, b); err != nil {
					return err
				}
			}
		}
	}
	return w.commit(ctx, b)
}

func (w *writer) commit(ctx context.Context, b *batch) error {
	if len(b.Accepts) == 0 {
		return nil
	}
	b.Node, b.Now, b.Uncounted = w.node.ID, w.now, true
	settles := b.Settles
	b.Settles = nil
	if err := w.db.Commit(ctx, &b.Batch); err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	for _, a := range b.Accepts {
		if a.Outcome != store.AcceptStored {
			return fmt.Errorf("event %d: outcome %d", a.Event.ID, a.Outcome)
		}
	}
	b.Accepts = nil
	for len(settles) > 0 { // the attempts of a delivery follow each other
		var later []*store.Settle
		inThis := map[hook.ID]bool{}
		for _, s := range settles {
			if inThis[s.Delivery.ID] {
				later = append(later, s)
				continue
			}
			inThis[s.Delivery.ID] = true
			b.Settles = append(b.Settles, s)
		}
		if err := w.db.Commit(ctx, &b.Batch); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		for _, s := range b.Settles {
			if s.Outcome != store.SettleWritten {
				return fmt.Errorf("delivery %d, attempt %d: outcome %d", s.Delivery.ID, s.Delivery.Attempts, s.Outcome)
			}
		}
		settles, b.Settles = later, nil
	}
	return nil
}

// held reports whether what was accepted at a moment still waits.
func (w *writer) held(d *destination, at time.Time) bool {
	switch d.plot {
	case outage:
		return !at.Before(w.ago(outageFor))
	case draining: // live events go first; the oldest of what was held have left
		return !at.Before(w.ago(drainOutage-9*time.Minute)) && at.Before(w.ago(drainedSince))
	case throttled:
		return !at.Before(w.ago(throttleFor)) && w.rng.IntN(3) == 0
	case paused:
		return !at.Before(w.ago(pausedFor))
	case gone:
		return !at.Before(w.ago(goneFor))
	default:
		return false
	}
}

// event adds an event and its delivery.
func (w *writer) event(b *batch, d *destination, at time.Time) {
	kind := d.types[w.rng.IntN(len(d.types))]
	body := w.payload(kind, at)
	a := &store.Accept{
		Event:     hook.Event{ID: w.id(at), TenantID: d.of.id, Type: kind, CreatedAt: at, ContentType: "application/json", Payload: body},
		ConfigRev: b.revs[d.of.id],
	}
	row := hook.Delivery{
		ID: w.id(at), TenantID: d.of.id, EventID: a.Event.ID, EndpointID: d.id, DueAt: at, Size: len(body),
		Progress: hook.Progress{Run: 1, RunDueAt: at},
	}
	a.Deliveries = []hook.Delivery{row}
	b.Accepts = append(b.Accepts, a)
	what := "delivered"
	chance := w.rng.Float64()
	switch {
	case w.held(d, at):
		what = "held"
		if d.plot == outage && at.Before(w.ago(outageFor-4*time.Second)) { // what opened the breaker
			what = "retrying"
			w.attempt(b, d, &row, at.Add(30*time.Millisecond), 503, w.ago(-20*time.Second))
		}
	case d.plot == rejecting && at.After(w.ago(rejectingFor)) && chance < 0.12:
		what = "dead"
		w.attempt(b, d, &row, at.Add(10*time.Millisecond), 422, time.Time{})
	case d.plot == gone && chance < 0.3:
		what = "gone"
		w.attempt(b, d, &row, at.Add(10*time.Millisecond), 410, time.Time{})
	case chance < 0.006:
		what = "retried"
		again := at.Add(time.Duration(4+w.rng.IntN(20)) * time.Second)
		if again.After(w.now) {
			w.attempt(b, d, &row, at.Add(5*time.Millisecond), 502, again)
			break
		}
		w.attempt(b, d, &row, at.Add(5*time.Millisecond), 502, again)
		w.attempt(b, d, &row, again.Add(time.Millisecond), 200, time.Time{})
	default:
		w.attempt(b, d, &row, at.Add(3*time.Millisecond), 200, time.Time{})
	}
	w.places.Deliveries[what] = hook.DeliveryPrefix.Format(row.ID)
	w.places.Events[what] = hook.EventPrefix.Format(a.Event.ID)
}

// answers are what destinations say.
var answers = map[int]struct {
	class  hook.Class
	reason hook.Reason
	body   string
	says   string
}{
	200: {hook.Success, hook.OK, `{"received":true}`, ""},
	410: {hook.Permanent, hook.Gone, `{"error":"this service was shut down"}`, "the endpoint answered 410 Gone"},
	422: {hook.Permanent, hook.ClientError, `{"error":{"code":"unknown_field","message":"customer.vat_id is not known to schema v3","field":"customer.vat_id"}}`, "the endpoint answered 422 Unprocessable Entity"},
	502: {hook.Retryable, hook.ServerError, "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx/1.25.4</center></body></html>", "the endpoint answered 502 Bad Gateway"},
	503: {hook.Down, hook.Unavailable, `upstream connect error or disconnect/reset before headers. reset reason: connection failure`, "the endpoint answered 503 Service Unavailable"},
}

// attempt adds an attempt and what it makes of the delivery. again is when the next
// one is due, zero: there is none.
func (w *writer) attempt(b *batch, d *destination, row *hook.Delivery, at time.Time, status int, again time.Time) {
	answer := answers[status]
	took := w.took(d)
	kind := hook.First
	if row.Attempts > 0 {
		kind = hook.Retry
	}
	prev, due := row.Attempts, row.DueAt
	row.Attempts++
	att := &hook.Attempt{
		ID: w.id(at), TenantID: row.TenantID, DeliveryID: row.ID, EndpointID: row.EndpointID, EventID: row.EventID, NodeID: w.node.ID,
		Number: row.Attempts, Run: 1, Kind: kind, Class: answer.class, Reason: answer.reason, Status: status, Latency: took, StartedAt: at,
		PolicyHash: w.policy, Error: answer.says, Excerpt: []byte(answer.body), Charged: answer.class != hook.Down,
		Detail: w.detail(d, row, at, took),
	}
	done := at.Add(took)
	row.Last = hook.LastResult{AttemptID: att.ID, Class: att.Class, Reason: att.Reason, Status: status, Latency: took, At: done}
	switch {
	case status == 200:
		row.State, row.SettledAt, row.FirstDeliveredAt = hook.Delivered, done, done
	case again.IsZero():
		row.State, row.Reason, row.SettledAt = hook.Dead, hook.DeadPermanent, done
		if status == 410 {
			row.Reason = hook.DeadGone
		}
		row.Progress.FailedAttempts, row.Progress.Charged = row.Progress.FailedAttempts+1, row.Progress.Charged+1
	default:
		row.DueAt = again.Truncate(time.Microsecond)
		row.Progress.FailedAttempts, row.Progress.BackoffSteps = row.Progress.FailedAttempts+1, row.Progress.BackoffSteps+1
		if att.Charged {
			row.Progress.Charged++
		}
		att.RetryN, att.Ceiling, att.Delay, att.DelaySource, att.NextDueAt = row.Progress.BackoffSteps, 30*time.Second, again.Sub(done), hook.DelayBackoff, row.DueAt
		att.U = min(att.Delay.Seconds()/30, 0.999)
	}
	shard := hook.ShardOf(d.id)
	b.Settles = append(b.Settles, &store.Settle{Shard: shard, Epoch: w.epochs[shard], Prev: prev, Due: due, Delivery: *row, Attempt: att})
}

func (w *writer) detail(d *destination, row *hook.Delivery, at time.Time, took time.Duration) hook.AttemptDetail {
	return hook.AttemptDetail{
		URL: d.url, RemoteAddr: "203.0.113.20:443", LaneState: "closed", LaneLimit: 20, LaneInFlight: 1 + w.rng.IntN(3),
		RequestHeaders: map[string][]string{
			"Content-Type": {"application/json"}, "User-Agent": {"Breakwater"}, "Webhook-Id": {hook.EventPrefix.Format(row.EventID)},
			"Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {"v1,***"},
		},
		ResponseHeaders: map[string][]string{
			"Content-Type": {"application/json"}, "Server": {"nginx/1.25.4"}, "Date": {at.Format(time.RFC1123)},
			"X-Request-Id": {fmt.Sprintf("%016x", w.rng.Uint64())},
		},
		Phases: hook.Phases{DNS: 900 * time.Microsecond, Connect: 3 * time.Millisecond, TLS: 9 * time.Millisecond, FirstByte: took},
	}
}

// took draws how long an answer took.
func (w *writer) took(d *destination) time.Duration {
	return time.Duration(float64(d.took) * math.Exp(0.35*w.rng.NormFloat64())).Truncate(time.Microsecond)
}

// payload is the body of an event.
func (w *writer) payload(kind string, at time.Time) []byte {
	number := 100_000 + w.rng.IntN(900_000)
	body, err := json.MarshalIndent(map[string]any{
		"id": fmt.Sprintf("obj_%06d", number), "type": kind, "created": at.Format(time.RFC3339),
		"data": map[string]any{
			"number": number, "currency": "EUR", "amount": float64(w.rng.IntN(90_000)) / 100,
			"customer": map[string]any{"name": []string{"Ada Martin", "Noor Haddad", "Kai Berger", "Lena Okafor"}[w.rng.IntN(4)], "country": "NL"},
			"lines":    []map[string]any{{"sku": fmt.Sprintf("SKU-%04d", w.rng.IntN(9999)), "quantity": 1 + w.rng.IntN(4)}},
		},
	}, "", "  ")
	if err != nil {
		panic(err) // plain values always encode
	}
	return body
}
