package view

import (
	"encoding/json"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Endpoint is an endpoint as the API shows it: header values and secrets
// are never in it.
type Endpoint struct {
	ID            string            `json:"id"`
	UID           *string           `json:"uid"`
	Tenant        string            `json:"tenant"`
	URL           string            `json:"url"`
	Description   string            `json:"description"`
	Types         []string          `json:"types" nullable:"false"`
	Filter        *string           `json:"filter" doc:"Expression over type, payload and tenant; null: events are not chosen by their content."`
	Status        string            `json:"status" enum:"active,paused,disabled"`
	StatusReason  *string           `json:"status_reason" doc:"Why it is not active: manual, gone (it answered 410) or failing (nothing but failures for long)."`
	Policy        json.RawMessage   `json:"policy" doc:"The endpoint's policy level."`
	PolicyHash    string            `json:"policy_hash" doc:"Of the policy that all levels give together."`
	Headers       map[string]string `json:"headers" doc:"Values are write-only and read as ***."`
	Signatures    []Signature       `json:"signatures" nullable:"false"`
	Body          string            `json:"body" enum:"payload,envelope,cloudevents,cloudevents_binary,slack,discord,teams" doc:"What is sent: the payload as it is, or a form that other software expects. Signed as sent."`
	TraceContext  string            `json:"trace_context" enum:"off,forward" doc:"forward: traceparent and tracestate of the publisher are sent along."`
	SecretLast4   string            `json:"secret_last4"`
	SecretsActive int               `json:"secrets_active"`
	Health        Health            `json:"health"`
	Metadata      map[string]string `json:"metadata"`
	CreatedAt     Stamp             `json:"created_at"`
	UpdatedAt     Stamp             `json:"updated_at"`
	Version       int64             `json:"version"`
	Warnings      []string          `json:"warnings,omitempty" doc:"Soft findings about the policy, after a write."`
}

// Signature is one signature an endpoint gets.
type Signature struct {
	Scheme string `json:"scheme" enum:"standard,standard_ed25519,stripe"`
	Header string `json:"header,omitempty" maxLength:"128" doc:"With scheme stripe."`
}

// Health is the short form of a lane.
type Health struct {
	State         string  `json:"state" enum:"closed,open"`
	FilterErrors  int64   `json:"filter_errors" doc:"Events that were sent because the filter could not be evaluated for them, since it was written."`
	FilterError   *string `json:"filter_error" doc:"What the last of them said."`
	FilterErrorAt Stamp   `json:"filter_error_at" doc:"When that was."`
}

// Masked stands for a value that can be written but not read.
const Masked = "***"

// OfEndpoint shows an endpoint, but for what takes its secrets or its policy to
// tell.
func OfEndpoint(d store.Destination, headers map[string]string) Endpoint {
	e := d.Endpoint
	return Endpoint{
		ID:           hook.EndpointPrefix.Format(e.ID),
		UID:          Nullable(e.UID),
		Tenant:       hook.TenantPrefix.Format(e.TenantID),
		URL:          e.URL,
		Description:  e.Description,
		Types:        e.Types,
		Filter:       Nullable(e.Filter),
		Status:       e.State.String(),
		StatusReason: Nullable(e.StateReason),
		Policy:       OrEmpty(e.Policy),
		Headers:      maskHeaders(headers),
		Signatures:   signaturesOf(e.Signatures),
		Body:         e.Body.String(),
		TraceContext: e.TraceContext.String(),
		Health: Health{
			State: LaneState(d), FilterErrors: e.FilterErrors.Count, FilterError: Nullable(e.FilterErrors.Last), FilterErrorAt: Stamp(e.FilterErrors.At),
		},
		Metadata:  OrEmptyMap(e.Metadata),
		CreatedAt: Stamp(e.CreatedAt),
		UpdatedAt: Stamp(e.UpdatedAt),
		Version:   e.Rev,
	}
}

func signaturesOf(list []hook.Signature) []Signature {
	out := make([]Signature, len(list))
	for i, s := range list {
		out[i] = Signature{Scheme: s.Scheme.String(), Header: s.Header}
	}
	return out
}

func maskHeaders(headers map[string]string) map[string]string {
	out := make(map[string]string, len(headers))
	for name := range headers {
		out[name] = Masked
	}
	return out
}
