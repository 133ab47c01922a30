package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/destination"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// EndpointPath is an endpoint of a path.
type EndpointPath struct {
	rest.TenantPath
	Endpoint string `path:"endpoint" maxLength:"64" doc:"ep_…, or the endpoint's uid."`
}

type endpointCreate struct {
	rest.TenantPath
	Body struct {
		URL         string            `json:"url" maxLength:"2048"`
		Types       []string          `json:"types,omitempty" minItems:"1" maxItems:"100" doc:"Event types: order.paid, order.*, or * (the default)."`
		Filter      string            `json:"filter,omitempty" maxLength:"1000" doc:"Only events for which this expression over type, payload and tenant is true, such as payload.total > 100; empty: all." example:"payload.total > 100"`
		UID         string            `json:"uid,omitempty" doc:"Your own name for it, unique within the tenant."`
		Description string            `json:"description,omitempty" maxLength:"1000"`
		Policy      json.RawMessage   `json:"policy,omitempty" doc:"The endpoint's policy level."`
		Headers     map[string]string `json:"headers,omitempty" doc:"Sent with every request; values cannot be read back."`
		Signatures  []view.Signature  `json:"signatures,omitempty" maxItems:"3"`
		Body        string            `json:"body,omitempty" enum:"payload,envelope,cloudevents,cloudevents_binary,slack,discord,teams" doc:"What is sent: the payload as it is, or a form that other software expects. Signed as sent."`
		Trace       string            `json:"trace_context,omitempty" enum:"off,forward" doc:"forward sends the publisher's traceparent and tracestate along."`
		Secret      string            `json:"secret,omitempty" writeOnly:"true" doc:"whsec_… or whsk_…; made when absent."`
		Metadata    map[string]string `json:"metadata,omitempty"`
		Paused      bool              `json:"paused,omitempty"`
	}
}

type endpointPatch struct {
	EndpointPath
	rest.IfMatch
	Body struct {
		URL         rest.Change[string]             `json:"url,omitzero" maxLength:"2048"`
		Types       rest.Change[[]string]           `json:"types,omitzero" minItems:"1" maxItems:"100"`
		Filter      rest.Change[string]             `json:"filter,omitzero" maxLength:"1000" doc:"An expression over type, payload and tenant; null or empty: no filter." example:"payload.total > 100"`
		UID         rest.Change[string]             `json:"uid,omitzero"`
		Description rest.Change[string]             `json:"description,omitzero" maxLength:"1000"`
		Policy      rest.Change[json.RawMessage]    `json:"policy,omitzero" doc:"Merged into the stored level."`
		Headers     rest.Change[map[string]*string] `json:"headers,omitzero" doc:"null removes a header; *** keeps its value."`
		Signatures  rest.Change[[]view.Signature]   `json:"signatures,omitzero" maxItems:"3"`
		Body        rest.Change[string]             `json:"body,omitzero" enum:"payload,envelope,cloudevents,cloudevents_binary,slack,discord,teams" doc:"What is sent: the payload as it is, or a form that other software expects. Signed as sent."`
		Trace       rest.Change[string]             `json:"trace_context,omitzero" enum:"off,forward"`
		Metadata    rest.Change[map[string]*string] `json:"metadata,omitzero"`
	}
}

// endpointDraft is an endpoint on its way into the store.
type endpointDraft struct {
	endpoint     hook.Endpoint
	headers      map[string]string
	resolved     *policy.Resolved
	storedPolicy bool // the request leaves the policy alone
}

// newEndpoint turns the body of a create into an endpoint, or names every field
// that is wrong.
func (a *API) newEndpoint(ctx context.Context, c *rest.Call, t hook.Tenant, in *endpointCreate) (*endpointDraft, error) {
	bad := &rest.Invalid{}
	b := &in.Body
	d := &endpointDraft{
		endpoint: hook.Endpoint{
			ID:           a.cfg.IDs.Next(c.Now),
			TenantID:     t.ID,
			UID:          b.UID,
			URL:          a.checkURL(bad, b.URL),
			Description:  b.Description,
			Types:        b.Types,
			Filter:       destination.Filter(bad, b.Filter),
			Signatures:   a.readSignatures(bad, b.Signatures),
			Body:         destination.BodyMode(bad, b.Body),
			TraceContext: destination.TraceContext(bad, b.Trace),
			Metadata:     b.Metadata,
			Rev:          1,
			CreatedAt:    c.Now,
			UpdatedAt:    c.Now,
		},
		headers: b.Headers,
	}
	level, err := a.policies.Given(ctx, bad, b.Policy)
	if err != nil {
		return nil, err
	}
	d.endpoint.SetLevel(level)
	if b.Paused {
		d.endpoint.State, d.endpoint.StateReason = hook.Paused, reasonManual
	}
	return d, a.finishEndpoint(bad, t, d)
}

// patchedEndpoint applies the body of a PATCH to a stored endpoint.
func (a *API) patchedEndpoint(ctx context.Context, c *rest.Call, t hook.Tenant, before shown, in *endpointPatch) (*endpointDraft, error) {
	bad := &rest.Invalid{}
	b := &in.Body
	d := &endpointDraft{endpoint: before.Endpoint, headers: before.headers, storedPolicy: !b.Policy.Set}
	e := &d.endpoint
	if b.URL.Set {
		e.URL = a.checkURL(bad, b.URL.To)
	}
	if b.Signatures.Set {
		e.Signatures = a.readSignatures(bad, b.Signatures.To)
	}
	if b.Body.Set {
		e.Body = destination.BodyMode(bad, b.Body.To)
	}
	if b.Trace.Set {
		e.TraceContext = destination.TraceContext(bad, b.Trace.To)
	}
	if b.Filter.Set {
		e.Filter = destination.Filter(bad, b.Filter.To)
	}
	b.Types.Apply(&e.Types)
	b.UID.Apply(&e.UID)
	b.Description.Apply(&e.Description)
	level, err := a.policies.Patched(ctx, bad, e.Level(), b.Policy)
	if err != nil {
		return nil, err
	}
	e.SetLevel(level)
	e.Metadata = rest.PatchTexts(e.Metadata, b.Metadata)
	d.headers = destination.PatchHeaders(bad, d.headers, b.Headers)
	e.UpdatedAt = c.Now
	return d, a.finishEndpoint(bad, t, d)
}

// finishEndpoint checks what create and change have in common and seals the
// headers.
func (a *API) finishEndpoint(bad *rest.Invalid, t hook.Tenant, d *endpointDraft) error {
	e := &d.endpoint
	bad.CheckUID("uid", e.UID, string(hook.EndpointPrefix))
	bad.CheckText("description", e.Description, rest.MaxDescription)
	bad.CheckMetadata(e.Metadata)
	destination.CheckHeaders(bad, e, d.headers)
	if len(e.Types) == 0 {
		e.Types = []string{"*"}
	}
	destination.CheckTypes(bad, e.Types)
	resolved, err := a.policies.Check(bad, t.Level(), e.Level(), d.storedPolicy)
	if err != nil {
		return err
	}
	d.resolved = resolved
	if err := bad.Err(); err != nil {
		return err
	}
	return a.sealHeaders(d)
}

func (a *API) checkURL(bad *rest.Invalid, raw string) string {
	if raw == "" {
		bad.Add("url", "required", "is required")
		return raw
	}
	clean, err := a.cfg.URLs.CheckURL(raw)
	if err != nil {
		// The error names the thing it is about; the path does so already.
		bad.AddAs("url_blocked", "url", strings.TrimPrefix(err.Error(), "url "))
		return raw
	}
	return clean
}

// readSignatures returns the signatures given, or the server's usual one.
func (a *API) readSignatures(bad *rest.Invalid, list []view.Signature) []hook.Signature {
	if len(list) == 0 {
		list = []view.Signature{{Scheme: a.scheme.String()}}
	}
	out := make([]hook.Signature, 0, len(list))
	seen := map[hook.Signature]bool{}
	for i, v := range list {
		s, err := a.readSignature(v)
		switch {
		case err != nil:
			bad.Add(rest.At("signatures", i), "invalid", err.Error())
		case seen[s]:
			bad.Add(rest.At("signatures", i), "not_allowed", "is listed twice")
		}
		seen[s] = true
		out = append(out, s)
	}
	return out
}

func (a *API) readSignature(v view.Signature) (hook.Signature, error) {
	scheme, err := hook.ParseScheme(v.Scheme)
	if err != nil {
		return hook.Signature{}, err
	}
	if scheme != hook.SchemeStripe {
		if v.Header != "" {
			return hook.Signature{}, errors.New("takes a header with scheme stripe only")
		}
		return hook.Signature{Scheme: scheme}, nil
	}
	header := cmp.Or(v.Header, a.cfg.StripeHeader)
	if header == "" {
		return hook.Signature{}, errors.New("needs a header name")
	}
	return hook.Signature{Scheme: scheme, Header: header}, hook.CheckHeaderName(header)
}

func (a *API) sealHeaders(d *endpointDraft) error {
	e := &d.endpoint
	if len(d.headers) == 0 {
		e.HeadersSealed = nil
		return nil
	}
	plain, err := json.Marshal(d.headers)
	if err != nil {
		return fmt.Errorf("write headers: %w", err)
	}
	_, e.HeadersSealed, err = a.cfg.Vault.Seal(e.TenantID, e.ID, vault.PurposeHeaders, plain)
	if err != nil {
		return fmt.Errorf("seal headers: %w", err)
	}
	return nil
}
