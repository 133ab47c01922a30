// Package accept is the hot path of the API: the two routes that take events,
// one at a time and in batches.
//
// It decodes an event without touching the bytes of its payload, and answers
// once ingest has made it durable. It knows ingest, and no resource that the API
// shows.
package accept

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Ingest makes events durable. The receipt is the promise the API hands on, so
// Accept returns only once the event is on disk.
type Ingest interface {
	Accept(ctx context.Context, tenant hook.ID, s *hook.Submission) (hook.Receipt, error)
	// AcceptBatch answers every submission, in order.
	AcceptBatch(ctx context.Context, tenant hook.ID, subs []hook.Submission) []hook.Result
}

// Config is what AddRoutes needs. All of it is required but for Tracer.
type Config struct {
	Path   string // of the events of a tenant, which is {tenant} in it
	Ingest Ingest
	// EndpointByUID finds the endpoint that an event names by its uid.
	EndpointByUID func(ctx context.Context, tenant hook.ID, uid string) (hook.Endpoint, error)
	MaxPayload    int64
	MaxBatchBody  int64
	Tracer        Tracer // nil: nobody traces
}

// acceptor serves the two routes.
type acceptor struct {
	cfg    Config
	server *rest.Server
}

// AddRoutes adds the two routes that take events. They are plain handlers: huma
// would decode the payload, and its bytes have to stay as they are.
func AddRoutes(server *rest.Server, cfg Config) {
	a := &acceptor{cfg: cfg, server: server}
	server.Plain(a.eventOperation(), rest.NeedSend, a.acceptEvent)
	server.Plain(a.batchOperation(), rest.NeedSend, a.acceptBatch)
}

// maxEventBody bounds the body around one payload: base64 needs four bytes for
// three, the other members need little.
func (a *acceptor) maxEventBody() int64 { return a.cfg.MaxPayload/3*4 + 64<<10 }

func (a *acceptor) acceptEvent(w http.ResponseWriter, r *http.Request) {
	c := rest.CallBy(w)
	t := a.follow(c, a.cfg.Path, r.Header)
	receipt, err := a.accept(c, w, r, &t)
	if err != nil {
		p := a.server.Problem(c, err)
		t.refused(p)
		a.server.Fail(w, c, p)
		return
	}
	t.accepted(receipt)
	if receipt.Replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	body := append(make([]byte, 0, 64), `{"id":"`...)
	body = hook.EventPrefix.Append(body, receipt.EventID)
	body = append(body, `","deliveries":`...)
	body = append(strconv.AppendInt(body, int64(receipt.Deliveries), 10), '}')
	rest.WriteJSON(w, http.StatusAccepted, body)
}

func (a *acceptor) accept(c *rest.Call, w http.ResponseWriter, r *http.Request, t *trail) (hook.Receipt, error) {
	tenant, err := c.OneTenant()
	if err != nil {
		return hook.Receipt{}, err
	}
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return hook.Receipt{}, err
	}
	body, err := rest.ReadBody(w, r, a.maxEventBody(), cloudEventType)
	if err != nil {
		return hook.Receipt{}, err
	}
	var d *decoded
	if sentAs(r.Header, cloudEventType) {
		d, err = decodeCloudEvent(body, key, "")
	} else {
		d, err = decodeEvent(body, false, key, "", c.Now)
	}
	if err != nil {
		return hook.Receipt{}, err
	}
	if err := a.prepare(r.Context(), tenant, d, ""); err != nil {
		return hook.Receipt{}, err
	}
	d.ContentType = hook.WithHops(d.ContentType, c.Hops)
	d.Trace, t.typ = t.trace, d.Type
	return a.cfg.Ingest.Accept(r.Context(), tenant, &d.Submission)
}

// idempotencyKey returns the key of the request, empty when there is none.
func idempotencyKey(h http.Header) (string, error) {
	values := h["Idempotency-Key"]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", rest.BadParameter("header.Idempotency-Key", "may be given once only")
	case values[0] == "" || len(values[0]) > maxKeyChars || !rest.VisibleASCII(values[0]):
		return "", rest.BadParameter("header.Idempotency-Key", badKeyMessage)
	}
	return values[0], nil
}

// prepare checks the size of a decoded event and finds its targets.
func (a *acceptor) prepare(ctx context.Context, tenant hook.ID, d *decoded, prefix string) error {
	if int64(len(d.Payload)) > a.cfg.MaxPayload {
		return rest.TooLarge(a.cfg.MaxPayload)
	}
	if len(d.targets) == 0 {
		return nil
	}
	bad := &rest.Invalid{}
	seen := make(map[hook.ID]bool, len(d.targets))
	for i, text := range d.targets {
		if bad.Full() {
			break
		}
		id, err := a.endpointID(ctx, tenant, text)
		switch {
		case err == nil && seen[id]: // named by id and by uid
		case errors.Is(err, hook.ErrNotFound):
			bad.Add(prefix+rest.At("endpoints", i), "unknown", "does not exist")
		case err != nil:
			return fmt.Errorf("find endpoint: %w", err)
		default:
			seen[id] = true
			d.Endpoints = append(d.Endpoints, id)
		}
	}
	return bad.Err()
}

// endpointID returns the id of an endpoint given by id or uid. Ids are checked by
// ingest, inside the tenant.
func (a *acceptor) endpointID(ctx context.Context, tenant hook.ID, text string) (hook.ID, error) {
	if strings.HasPrefix(text, string(hook.EndpointPrefix)) {
		id, err := hook.EndpointPrefix.Parse(text)
		if err != nil {
			return 0, hook.ErrNotFound
		}
		return id, nil
	}
	if !rest.ValidUID(text) {
		return 0, hook.ErrNotFound
	}
	e, err := a.cfg.EndpointByUID(ctx, tenant, text)
	return e.ID, err
}
