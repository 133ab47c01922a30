package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/api/curl"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/shape"
	"github.com/breakwaterhq/breakwater/internal/sign"
)

// placeholder stands for a signature: the command runs, and no receiver takes it.
const placeholder = "v1,PLACEHOLDER"

func (a *API) addCurlRoute() {
	a.server.Plain(&huma.Operation{
		OperationID: "get-delivery-curl", Method: http.MethodGet, Path: deliveryPath + "/curl",
		Summary: "Get the request of a delivery as a command for a shell", Tags: []string{"deliveries"},
		Description: "For sh, bash and zsh. The endpoint's own headers are there with *** for their values.",
		Parameters: []*huma.Param{rest.TenantParam(), {
			Name: "delivery", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
		}, {
			Name: "sign", In: "query", Schema: &huma.Schema{Type: huma.TypeBoolean},
			Description: "true: with a signature made now, which needs admin or tenant:write and is audited; else with a placeholder.",
		}},
		Responses: map[string]*huma.Response{"200": {
			Description: "The command",
			Content:     map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
		}},
	}, rest.NeedRead, a.getCurl)
}

func (a *API) getCurl(w http.ResponseWriter, r *http.Request) {
	c := rest.CallBy(w)
	command, err := a.curlOf(r.Context(), c, r.PathValue("delivery"), r.URL.Query())
	if err != nil {
		a.server.Fail(w, c, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte(command)) //nolint:gosec // plain text, and nosniff; the client may be gone; nobody else to tell
}

func (a *API) curlOf(ctx context.Context, c *rest.Call, delivery string, query map[string][]string) (string, error) {
	signed := false
	if given := query["sign"]; len(given) > 0 {
		var err error
		if signed, err = strconv.ParseBool(given[0]); err != nil {
			return "", rest.BadParameter("query.sign", "must be true or false")
		}
	}
	if signed && c.Key.Scope != hook.ScopeAdmin && c.Key.Scope != hook.ScopeTenantWrite {
		return "", rest.Forbidden("a signature needs a key with scope admin or tenant:write")
	}
	row, err := a.delivery(ctx, c, delivery)
	if err != nil {
		return "", err
	}
	// The event, what is sent of it, and the command, which may be in base64.
	if err := a.server.Large(ctx, c, 3*a.cfg.MaxPayload); err != nil {
		return "", err
	}
	e, err := a.cfg.Store.EndpointByID(ctx, row.TenantID, row.EndpointID)
	if errors.Is(err, hook.ErrNotFound) {
		return "", rest.Conflict("deleted", "its endpoint is deleted")
	}
	if err != nil {
		return "", err
	}
	event, err := a.cfg.Store.Event(ctx, row.TenantID, row.EventID)
	if err != nil {
		return "", err
	}
	req := &curl.Request{URL: e.URL, Body: shape.Body(&event, e.Body)}
	req.Header = append(req.Header, curl.Field{Name: "Content-Type", Value: shape.Type(&event, e.Body)},
		curl.Field{Name: "Breakwater-Delivery", Value: hook.DeliveryPrefix.Format(row.ID)},
		curl.Field{Name: hook.HeaderType, Value: event.Type})
	set := func(name, value string) { req.Header = append(req.Header, curl.Field{Name: name, Value: value}) }
	shape.Headers(&event, e.Body, set)
	if signed {
		err = a.signCurl(ctx, c, &e, &event, hook.DeliveryPrefix.Format(row.ID), req.Body, set)
	} else {
		unsigned(&e, &event, c.Now, set)
	}
	if err != nil {
		return "", err
	}
	headers, err := a.openHeaders(e)
	if err != nil {
		return "", fmt.Errorf("open headers: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		set(http.CanonicalHeaderKey(name), "***")
	}
	return curl.Command(req), nil
}

// unsigned sets the headers of a signature without one.
func unsigned(e *hook.Endpoint, event *hook.Event, now time.Time, set func(name, value string)) {
	set(sign.HeaderID, hook.EventPrefix.Format(event.ID))
	set(sign.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	set(sign.HeaderSignature, placeholder)
	for _, s := range e.Signatures {
		if s.Scheme == hook.SchemeStripe {
			set(http.CanonicalHeaderKey(s.Header), "t="+strconv.FormatInt(now.Unix(), 10)+",v1=PLACEHOLDER")
		}
	}
}

// signCurl signs as an attempt would that is made now. That is recorded: whoever has
// the command can send it to the endpoint as long as receivers take its time.
func (a *API) signCurl(ctx context.Context, c *rest.Call, e *hook.Endpoint, event *hook.Event, delivery string, body []byte, set func(name, value string)) error {
	stored, err := a.cfg.Store.SecretsOf(ctx, e.ID)
	if err != nil {
		return fmt.Errorf("read secrets: %w", err)
	}
	var secrets []sign.Secret
	for _, s := range stored {
		if !isActive(s, c.Now) {
			continue
		}
		opened, err := a.openSecret(s)
		if err != nil {
			return fmt.Errorf("open secret: %w", err)
		}
		secrets = append(secrets, opened)
	}
	signer, err := sign.NewSigner(e.Signatures, secrets)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	if err := a.cfg.Store.WriteAudit(ctx, a.server.Audit(c, e.TenantID, "delivery.sign", delivery, nil)); err != nil {
		return fmt.Errorf("write audit record: %w", err)
	}
	signer.Sign(set, hook.EventPrefix.Format(event.ID), c.Now, body)
	return nil
}
