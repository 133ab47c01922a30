package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

const maxHeaders = 50

// EndpointPath is an endpoint of a path.
type EndpointPath struct {
	TenantPath
	Endpoint string `path:"endpoint" maxLength:"64" doc:"ep_…, or the endpoint's uid."`
}

type endpointCreate struct {
	TenantPath
	Body struct {
		URL         string            `json:"url" maxLength:"2048"`
		Types       []string          `json:"types,omitempty" maxItems:"100" doc:"Event types: order.paid, order.*, or * (the default)."`
		UID         string            `json:"uid,omitempty" doc:"Your own name for it, unique within the tenant."`
		Description string            `json:"description,omitempty" maxLength:"1000"`
		Policy      json.RawMessage   `json:"policy,omitempty" doc:"The endpoint's policy level."`
		Headers     map[string]string `json:"headers,omitempty" doc:"Sent with every request; values cannot be read back."`
		Signatures  []signatureView   `json:"signatures,omitempty" maxItems:"3"`
		Body        string            `json:"body,omitempty" enum:"payload,envelope"`
		Secret      string            `json:"secret,omitempty" writeOnly:"true" doc:"whsec_… or whsk_…; made when absent."`
		Metadata    map[string]string `json:"metadata,omitempty"`
		Paused      bool              `json:"paused,omitempty"`
	}
}

type endpointPatch struct {
	EndpointPath
	IfMatch
	Body struct {
		URL         change[string]             `json:"url,omitzero" maxLength:"2048"`
		Types       change[[]string]           `json:"types,omitzero" maxItems:"100"`
		UID         change[string]             `json:"uid,omitzero"`
		Description change[string]             `json:"description,omitzero" maxLength:"1000"`
		Policy      change[json.RawMessage]    `json:"policy,omitzero" doc:"Merged into the stored level."`
		Headers     change[map[string]*string] `json:"headers,omitzero" doc:"null removes a header; *** keeps its value."`
		Signatures  change[[]signatureView]    `json:"signatures,omitzero" maxItems:"3"`
		Body        change[string]             `json:"body,omitzero" enum:"payload,envelope"`
		Metadata    change[map[string]*string] `json:"metadata,omitzero"`
	}
}

// draft is an endpoint on its way into the store.
type draft struct {
	endpoint     hook.Endpoint
	headers      map[string]string
	resolved     *policy.Resolved
	storedPolicy bool // the request leaves the policy alone
}

// newDraft turns the body of a create into an endpoint, or names every field
// that is wrong.
func (a *API) newDraft(c *call, t hook.Tenant, in *endpointCreate) (*draft, error) {
	bad := &invalid{}
	b := &in.Body
	d := &draft{
		endpoint: hook.Endpoint{
			ID:          a.cfg.IDs.Next(c.now),
			TenantID:    t.ID,
			UID:         b.UID,
			URL:         a.checkURL(bad, b.URL),
			Description: b.Description,
			Types:       b.Types,
			Policy:      newPolicy(bad, b.Policy),
			Signatures:  a.readSignatures(bad, b.Signatures),
			Body:        readBodyMode(bad, b.Body),
			Metadata:    b.Metadata,
			Rev:         1,
			CreatedAt:   c.now,
			UpdatedAt:   c.now,
		},
		headers: b.Headers,
	}
	if b.Paused {
		d.endpoint.State, d.endpoint.StateReason = hook.Paused, reasonManual
	}
	return d, a.finishDraft(bad, t, d)
}

// patched applies the body of a PATCH to a stored endpoint.
func (a *API) patched(c *call, t hook.Tenant, before shown, in *endpointPatch) (*draft, error) {
	bad := &invalid{}
	b := &in.Body
	d := &draft{endpoint: before.Endpoint, headers: before.headers, storedPolicy: !b.Policy.set}
	e := &d.endpoint
	if b.URL.set {
		e.URL = a.checkURL(bad, b.URL.to)
	}
	if b.Signatures.set {
		e.Signatures = a.readSignatures(bad, b.Signatures.to)
	}
	if b.Body.set {
		e.Body = readBodyMode(bad, b.Body.to)
	}
	b.Types.apply(&e.Types)
	b.UID.apply(&e.UID)
	b.Description.apply(&e.Description)
	e.Policy = patchPolicy(bad, e.Policy, b.Policy)
	e.Metadata = patchTexts(e.Metadata, b.Metadata)
	d.headers = patchHeaders(bad, d.headers, b.Headers)
	e.UpdatedAt = c.now
	return d, a.finishDraft(bad, t, d)
}

// finishDraft checks what create and change have in common and seals the
// headers.
func (a *API) finishDraft(bad *invalid, t hook.Tenant, d *draft) error {
	e := &d.endpoint
	bad.checkUID("uid", e.UID, string(hook.EndpointPrefix))
	bad.checkText("description", e.Description, maxDescription)
	bad.checkMetadata(e.Metadata)
	bad.checkHeaders(d.headers)
	if len(e.Types) == 0 {
		e.Types = []string{"*"}
	}
	for i, p := range e.Types {
		if err := hook.CheckPattern(p); err != nil {
			bad.addAs("type_invalid", at("types", i), err.Error())
		}
	}
	resolved, err := a.checkPolicy(bad, t.Policy, e.Policy, d.storedPolicy)
	if err != nil {
		return err
	}
	d.resolved = resolved
	if err := bad.err(); err != nil {
		return err
	}
	return a.sealHeaders(d)
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func (a *API) checkURL(bad *invalid, raw string) string {
	if raw == "" {
		bad.add("url", "required", "is required")
		return raw
	}
	clean, err := a.cfg.URLs.CheckURL(raw)
	if err != nil {
		// The error names the thing it is about; the path does so already.
		bad.addAs("url_blocked", "url", strings.TrimPrefix(err.Error(), "url "))
		return raw
	}
	return clean
}

// readSignatures returns the signatures given, or the server's usual one.
func (a *API) readSignatures(bad *invalid, list []signatureView) []hook.Signature {
	if len(list) == 0 {
		list = []signatureView{{Scheme: a.scheme.String()}}
	}
	out := make([]hook.Signature, 0, len(list))
	seen := map[hook.Signature]bool{}
	for i, v := range list {
		s, err := a.readSignature(v)
		switch {
		case err != nil:
			bad.add(at("signatures", i), "invalid", err.Error())
		case seen[s]:
			bad.add(at("signatures", i), "not_allowed", "is listed twice")
		}
		seen[s] = true
		out = append(out, s)
	}
	return out
}

func (a *API) readSignature(v signatureView) (hook.Signature, error) {
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
	header := v.Header
	if header == "" {
		header = a.cfg.StripeHeader
	}
	if header == "" {
		return hook.Signature{}, errors.New("needs a header name")
	}
	return hook.Signature{Scheme: scheme, Header: header}, hook.CheckStripeHeader(header)
}

func readBodyMode(bad *invalid, s string) hook.BodyMode {
	if s == "" {
		return hook.BodyPayload
	}
	m, err := hook.ParseBodyMode(s)
	if err != nil {
		bad.add("body", "not_allowed", err.Error())
	}
	return m
}

// checkHeaders checks custom headers. Messages never hold a value.
func (e *invalid) checkHeaders(headers map[string]string) {
	if len(headers) > maxHeaders {
		e.add("headers", "out_of_range", fmt.Sprintf("must have at most %d entries", maxHeaders))
	}
	seen := map[string]bool{}
	for name, value := range headers {
		if key := strings.ToLower(name); seen[key] {
			e.add("headers."+name, "not_allowed", "is given twice; case makes no difference")
		} else {
			seen[key] = true
		}
		switch err := hook.CheckHeader(name, value); {
		case errors.Is(err, hook.ErrHeaderReserved):
			e.addAs("header_forbidden", "headers."+name, err.Error())
		case err != nil:
			e.add("headers."+name, "invalid", err.Error())
		case value == maskedValue:
			e.add("headers."+name, "not_allowed", "has the value that stands for a hidden one")
		}
	}
}

// patchHeaders applies a merge patch to headers, whose names know no case. A
// masked value that comes back from a read keeps what is stored.
func patchHeaders(bad *invalid, stored map[string]string, ch change[map[string]*string]) map[string]string {
	switch {
	case !ch.set:
		return stored
	case ch.null:
		return nil
	}
	out := mergeTexts(stored, nil)
	for name, value := range ch.to {
		have, ok := findHeader(out, name)
		switch {
		case value != nil && *value == maskedValue && ok:
			continue
		case value != nil && *value == maskedValue:
			bad.add("headers."+name, "not_allowed", "is hidden and cannot be set to ***")
			continue
		}
		delete(out, have)
		if value != nil {
			out[name] = *value
		}
	}
	return out
}

func (a *API) sealHeaders(d *draft) error {
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
