package accept

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/jsonscan"
)

// batchResult is the answer to one event of a batch.
type batchResult struct {
	Index      int         `json:"index"`
	Status     int         `json:"status"`
	ID         string      `json:"id,omitempty"`
	Deliveries *int        `json:"deliveries,omitempty"`
	Replayed   bool        `json:"replayed,omitempty"`
	Error      *batchError `json:"error,omitempty"`
}

type batchError struct {
	Code   string              `json:"code"`
	Detail string              `json:"detail"`
	Errors []rest.FieldProblem `json:"errors,omitempty"`
}

type batchAnswer struct {
	Accepted int           `json:"accepted"`
	Rejected int           `json:"rejected"`
	Results  []batchResult `json:"results" nullable:"false"`
}

// batchSuffix follows the path of single events.
const batchSuffix = "/batch"

func (a *acceptor) acceptBatch(w http.ResponseWriter, r *http.Request) {
	c := rest.CallBy(w)
	t := a.follow(c, a.cfg.Path+batchSuffix, r.Header)
	events, err := a.readBatch(c, w, r)
	var answer *batchAnswer
	var status *rest.Problem
	if err == nil {
		answer, status, err = a.runBatch(r.Context(), c, events, sentAs(r.Header, cloudEventsType), t.trace)
	}
	if err != nil {
		p := a.server.Problem(c, err)
		t.refused(p)
		a.server.Fail(w, c, p)
		return
	}
	t.answered(answer, status)
	if status.RetryAfter() > 0 {
		w.Header()["Retry-After"] = status.GetHeaders()["Retry-After"]
	}
	body, err := json.Marshal(answer)
	if err != nil {
		a.server.Fail(w, c, err)
		return
	}
	rest.WriteJSON(w, status.Status, body)
}

// readBatch returns the events of a batch, still as raw JSON.
func (a *acceptor) readBatch(c *rest.Call, w http.ResponseWriter, r *http.Request) ([][]byte, error) {
	if _, err := c.OneTenant(); err != nil {
		return nil, err
	}
	if len(r.Header["Idempotency-Key"]) > 0 {
		// Ignoring it would promise what is not kept.
		return nil, rest.BadParameter("header.Idempotency-Key", "does not cover a batch: give each event an idempotency_key")
	}
	body, err := rest.ReadBody(w, r, a.cfg.MaxBatchBody, cloudEventsType)
	if err != nil {
		return nil, err
	}
	if sentAs(r.Header, cloudEventsType) {
		return cloudEventsOf(body)
	}
	list, ok := jsonscan.AppendMembers(nil, body, maxMembers)
	if !ok {
		if err := rest.CheckJSON(body); err != nil {
			return nil, err
		}
		return nil, rest.FieldError("body", "wrong_type", "must be an object")
	}
	bad := &rest.Invalid{}
	var events [][]byte
	found := false
	for _, m := range list {
		switch {
		case m.Name != "events":
			bad.Add(m.Name, "unknown_field", "is not a known field")
		case found:
			bad.Add(m.Name, "not_allowed", "is given twice")
		default:
			found = true
			if events, ok = jsonscan.Elements(m.Value, maxBatch); !ok {
				bad.Add("events", "wrong_type", "must be an array")
			} else if len(events) == 0 || len(events) > maxBatch {
				bad.Add("events", "out_of_range", fmt.Sprintf("must hold 1 to %d events", maxBatch))
			}
		}
	}
	if !found {
		bad.Add("events", "required", "is required")
	}
	return events, bad.Err()
}

// cloudEventsOf returns the events of a batch in the format of CloudEvents.
func cloudEventsOf(body []byte) ([][]byte, error) {
	events, ok := jsonscan.Elements(body, maxBatch)
	switch {
	case !ok:
		if err := rest.CheckJSON(body); err != nil {
			return nil, err
		}
		return nil, rest.FieldError("body", "wrong_type", "must be an array")
	case len(events) == 0 || len(events) > maxBatch:
		return nil, rest.FieldError("events", "out_of_range", fmt.Sprintf("must hold 1 to %d events", maxBatch))
	}
	return events, nil
}

// runBatch decodes every event, hands over the good ones, and answers all of
// them in order.
func (a *acceptor) runBatch(ctx context.Context, c *rest.Call, events [][]byte, cloud bool, trace *hook.EventTrace) (*batchAnswer, *rest.Problem, error) {
	answer := &batchAnswer{Results: make([]batchResult, len(events))}
	var subs []hook.Submission
	var indexes []int
	told := 0 // errors
	for i, raw := range events {
		d, err := a.decodeItem(ctx, c, raw, i, cloud)
		if err != nil {
			p := a.server.Problem(c, err)
			if p.Status >= http.StatusInternalServerError {
				return nil, nil, p // the store is not there: nothing was handed over yet
			}
			answer.Results[i] = refusal(i, p, rest.MaxErrors-told)
			told += len(p.Errors)
			continue
		}
		d.ContentType, d.Trace = hook.WithHops(d.ContentType, c.Hops), trace
		subs = append(subs, d.Submission)
		indexes = append(indexes, i)
	}
	var first *rest.Problem // of those that ingest refused
	if len(subs) > 0 {
		results := a.cfg.Ingest.AcceptBatch(ctx, c.Tenant, subs)
		if len(results) != len(subs) {
			return nil, nil, fmt.Errorf("accept batch: %d answers to %d events", len(results), len(subs))
		}
		for n, res := range results {
			i := indexes[n]
			if res.Err != nil {
				p := a.server.Problem(c, res.Err)
				answer.Results[i] = refusal(i, p, rest.MaxErrors-told)
				told += len(p.Errors)
				if first == nil {
					first = p
				}
				continue
			}
			answer.Accepted++
			answer.Results[i] = acceptance(i, res.Receipt)
		}
	}
	answer.Rejected = len(events) - answer.Accepted
	return answer, batchStatus(answer, first), nil
}

// decodeItem reads one event of a batch. The payload is copied: the event may
// stay in memory for long, and must not keep the whole body there with it.
func (a *acceptor) decodeItem(ctx context.Context, c *rest.Call, raw []byte, i int, cloud bool) (d *decoded, err error) {
	prefix := rest.At("events", i) + "."
	if cloud {
		d, err = decodeCloudEvent(raw, "", prefix)
	} else {
		d, err = decodeEvent(raw, true, "", prefix, c.Now)
	}
	if err != nil {
		return nil, err
	}
	if err := a.prepare(ctx, c.Tenant, d, prefix); err != nil {
		return nil, err
	}
	d.Payload = bytes.Clone(d.Payload)
	return d, nil
}

// batchStatus is the status of the whole batch: 202 when any event was
// accepted, 422 when none was. When all failed for one passing reason, that
// reason is the answer, so that clients send the batch again.
func batchStatus(answer *batchAnswer, first *rest.Problem) *rest.Problem {
	if answer.Accepted > 0 {
		return &rest.Problem{Status: http.StatusAccepted}
	}
	for _, r := range answer.Results {
		if first == nil || first.RetryAfter() == 0 || r.Status != first.Status {
			return &rest.Problem{Status: http.StatusUnprocessableEntity}
		}
	}
	return first
}

// refusal answers one event of a batch. Room is how many errors the answer may
// still name; an event beyond it gets its code alone.
func refusal(i int, p *rest.Problem, room int) batchResult {
	e := &batchError{Code: p.Code, Detail: p.Detail, Errors: p.Errors}
	if len(p.Errors) > max(0, room) {
		e.Errors = p.Errors[:max(0, room)]
	}
	if room <= 0 && len(p.Errors) > 0 {
		e.Detail = unnamedDetail
	}
	return batchResult{Index: i, Status: p.Status, Error: e}
}

var unnamedDetail = fmt.Sprintf("broke a rule; only the first %d errors of a batch are named", rest.MaxErrors)

func acceptance(i int, r hook.Receipt) batchResult {
	return batchResult{
		Index: i, Status: http.StatusAccepted, ID: hook.EventPrefix.Format(r.EventID),
		Deliveries: &r.Deliveries, Replayed: r.Replayed,
	}
}
