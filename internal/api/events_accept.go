package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/jsonscan"
)

const (
	eventsPath = tenantPath + "/events"
	batchPath  = eventsPath + "/batch"
)

// addAcceptRoutes adds the two routes that take events. They are plain handlers:
// huma would decode the payload, and its bytes have to stay as they are.
func (a *API) addAcceptRoutes() {
	a.plain(a.acceptOperation(), needSend, a.acceptEvent)
	a.plain(a.batchOperation(), needSend, a.acceptBatch)
}

// maxEventBody bounds the body around one payload: base64 needs four bytes for
// three, the other members need little.
func (a *API) maxEventBody() int64 { return a.cfg.MaxPayload/3*4 + 64<<10 }

func (a *API) acceptEvent(w http.ResponseWriter, r *http.Request) {
	c := callBy(w)
	receipt, err := a.accept(c, w, r)
	if err != nil {
		a.fail(w, c, err)
		return
	}
	if receipt.Replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	body := append(make([]byte, 0, 64), `{"id":"`...)
	body = hook.EventPrefix.Append(body, receipt.EventID)
	body = append(body, `","deliveries":`...)
	body = append(strconv.AppendInt(body, int64(receipt.Deliveries), 10), '}')
	writeJSON(w, http.StatusAccepted, body)
}

func (a *API) accept(c *call, w http.ResponseWriter, r *http.Request) (hook.Receipt, error) {
	tenant, err := c.oneTenant()
	if err != nil {
		return hook.Receipt{}, err
	}
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return hook.Receipt{}, err
	}
	body, err := readBody(w, r, a.maxEventBody())
	if err != nil {
		return hook.Receipt{}, err
	}
	d, err := decodeEvent(body, false, key, "", c.now)
	if err != nil {
		return hook.Receipt{}, err
	}
	if err := a.prepare(r.Context(), tenant, d, ""); err != nil {
		return hook.Receipt{}, err
	}
	d.ContentType = hook.WithHops(d.ContentType, c.hops)
	return a.cfg.Ingest.Accept(r.Context(), tenant, &d.Submission)
}

// idempotencyKey returns the key of the request, empty when there is none.
func idempotencyKey(h http.Header) (string, error) {
	values := h["Idempotency-Key"]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", badParameter("header.Idempotency-Key", "may be given once only")
	case values[0] == "" || len(values[0]) > maxKeyChars || !visibleASCII(values[0]):
		return "", badParameter("header.Idempotency-Key", badKeyMessage)
	}
	return values[0], nil
}

// prepare checks the size of a decoded event and finds its targets.
func (a *API) prepare(ctx context.Context, tenant hook.ID, d *decoded, prefix string) error {
	if int64(len(d.Payload)) > a.cfg.MaxPayload {
		return errTooLarge(a.cfg.MaxPayload)
	}
	if len(d.targets) == 0 {
		return nil
	}
	bad := &invalid{}
	seen := make(map[hook.ID]bool, len(d.targets))
	for i, text := range d.targets {
		if bad.full() {
			break
		}
		id, err := a.target(ctx, tenant, text)
		switch {
		case err == nil && seen[id]: // named by id and by uid
		case errors.Is(err, hook.ErrNotFound):
			bad.add(prefix+at("endpoints", i), "unknown", "does not exist")
		case err != nil:
			return fmt.Errorf("find target: %w", err)
		default:
			seen[id] = true
			d.Endpoints = append(d.Endpoints, id)
		}
	}
	return bad.err()
}

// target returns the id of an endpoint given by id or uid. Ids are checked by
// ingest, inside the tenant.
func (a *API) target(ctx context.Context, tenant hook.ID, text string) (hook.ID, error) {
	if strings.HasPrefix(text, string(hook.EndpointPrefix)) {
		id, err := hook.EndpointPrefix.Parse(text)
		if err != nil {
			return 0, hook.ErrNotFound
		}
		return id, nil
	}
	if !validUID(text) {
		return 0, hook.ErrNotFound
	}
	e, err := a.cfg.Store.EndpointByUID(ctx, tenant, text)
	return e.ID, err
}

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
	Code   string         `json:"code"`
	Detail string         `json:"detail"`
	Errors []FieldProblem `json:"errors,omitempty"`
}

type batchAnswer struct {
	Accepted int           `json:"accepted"`
	Rejected int           `json:"rejected"`
	Results  []batchResult `json:"results" nullable:"false"`
}

func (a *API) acceptBatch(w http.ResponseWriter, r *http.Request) {
	c := callBy(w)
	events, err := a.readBatch(c, w, r)
	if err != nil {
		a.fail(w, c, err)
		return
	}
	answer, status, err := a.runBatch(r.Context(), c, events)
	if err != nil {
		a.fail(w, c, err)
		return
	}
	if status.retryAfter > 0 {
		w.Header()["Retry-After"] = status.GetHeaders()["Retry-After"]
	}
	body, err := json.Marshal(answer)
	if err != nil {
		a.fail(w, c, err)
		return
	}
	writeJSON(w, status.Status, body)
}

// readBatch returns the events of a batch, still as raw JSON.
func (a *API) readBatch(c *call, w http.ResponseWriter, r *http.Request) ([][]byte, error) {
	if _, err := c.oneTenant(); err != nil {
		return nil, err
	}
	if len(r.Header["Idempotency-Key"]) > 0 {
		// Ignoring it would promise what is not kept.
		return nil, badParameter("header.Idempotency-Key", "does not cover a batch: give each event an idempotency_key")
	}
	body, err := readBody(w, r, a.cfg.MaxBatchBody)
	if err != nil {
		return nil, err
	}
	list, ok := jsonscan.AppendMembers(nil, body, maxMembers)
	if !ok {
		if err := checkJSON(body); err != nil {
			return nil, err
		}
		return nil, fieldError("body", "wrong_type", "must be an object")
	}
	bad := &invalid{}
	var events [][]byte
	found := false
	for _, m := range list {
		switch {
		case m.Name != "events":
			bad.add(m.Name, "unknown_field", "is not a known field")
		case found:
			bad.add(m.Name, "not_allowed", "is given twice")
		default:
			found = true
			if events, ok = jsonscan.Elements(m.Value, maxBatch); !ok {
				bad.add("events", "wrong_type", "must be an array")
			} else if len(events) == 0 || len(events) > maxBatch {
				bad.add("events", "out_of_range", fmt.Sprintf("must hold 1 to %d events", maxBatch))
			}
		}
	}
	if !found {
		bad.add("events", "required", "is required")
	}
	return events, bad.err()
}

// runBatch decodes every event, hands over the good ones, and answers all of
// them in order.
func (a *API) runBatch(ctx context.Context, c *call, events [][]byte) (*batchAnswer, *Problem, error) {
	answer := &batchAnswer{Results: make([]batchResult, len(events))}
	var subs []hook.Submission
	var indexes []int
	told := 0 // errors
	for i, raw := range events {
		d, err := a.decodeItem(ctx, c, raw, i)
		if err != nil {
			p := a.problem(c, err)
			if p.Status >= http.StatusInternalServerError {
				return nil, nil, p // the store is not there: nothing was handed over yet
			}
			answer.Results[i] = refusal(i, p, maxErrors-told)
			told += len(p.Errors)
			continue
		}
		d.ContentType = hook.WithHops(d.ContentType, c.hops)
		subs = append(subs, d.Submission)
		indexes = append(indexes, i)
	}
	var first *Problem // of those that ingest refused
	if len(subs) > 0 {
		results := a.cfg.Ingest.AcceptBatch(ctx, c.tenant, subs)
		if len(results) != len(subs) {
			return nil, nil, fmt.Errorf("accept batch: %d answers to %d events", len(results), len(subs))
		}
		for n, res := range results {
			i := indexes[n]
			if res.Err != nil {
				p := a.problem(c, res.Err)
				answer.Results[i] = refusal(i, p, maxErrors-told)
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
func (a *API) decodeItem(ctx context.Context, c *call, raw []byte, i int) (*decoded, error) {
	prefix := at("events", i) + "."
	d, err := decodeEvent(raw, true, "", prefix, c.now)
	if err != nil {
		return nil, err
	}
	if err := a.prepare(ctx, c.tenant, d, prefix); err != nil {
		return nil, err
	}
	d.Payload = bytes.Clone(d.Payload)
	return d, nil
}

// batchStatus is the status of the whole batch: 202 when any event was
// accepted, 422 when none was. When all failed for one passing reason, that
// reason is the answer, so that clients send the batch again.
func batchStatus(answer *batchAnswer, first *Problem) *Problem {
	if answer.Accepted > 0 {
		return &Problem{Status: http.StatusAccepted}
	}
	for _, r := range answer.Results {
		if first == nil || first.retryAfter == 0 || r.Status != first.Status {
			return &Problem{Status: http.StatusUnprocessableEntity}
		}
	}
	return first
}

// refusal answers one event of a batch. Room is how many errors the answer may
// still name; an event beyond it gets its code alone.
func refusal(i int, p *Problem, room int) batchResult {
	e := &batchError{Code: p.Code, Detail: p.Detail, Errors: p.Errors}
	if len(p.Errors) > max(0, room) {
		e.Errors = p.Errors[:max(0, room)]
	}
	if room <= 0 && len(p.Errors) > 0 {
		e.Detail = unnamedDetail
	}
	return batchResult{Index: i, Status: p.Status, Error: e}
}

var unnamedDetail = fmt.Sprintf("broke a rule; only the first %d errors of a batch are named", maxErrors)

func acceptance(i int, r hook.Receipt) batchResult {
	return batchResult{
		Index: i, Status: http.StatusAccepted, ID: hook.EventPrefix.Format(r.EventID),
		Deliveries: &r.Deliveries, Replayed: r.Replayed,
	}
}
