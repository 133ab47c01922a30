package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/sign"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// endpointView is an endpoint as the API shows it: header values and secrets
// are never in it.
type endpointView struct {
	ID            string            `json:"id"`
	UID           *string           `json:"uid"`
	Tenant        string            `json:"tenant"`
	URL           string            `json:"url"`
	Description   string            `json:"description"`
	Types         []string          `json:"types" nullable:"false"`
	Status        string            `json:"status" enum:"active,paused,disabled"`
	StatusReason  *string           `json:"status_reason" doc:"Why it is not active: manual, gone (it answered 410) or failing (nothing but failures for long)."`
	Policy        json.RawMessage   `json:"policy" doc:"The endpoint's policy level."`
	PolicyHash    string            `json:"policy_hash" doc:"Of the policy that all levels give together."`
	Headers       map[string]string `json:"headers" doc:"Values are write-only and read as ***."`
	Signatures    []signatureView   `json:"signatures" nullable:"false"`
	Body          string            `json:"body" enum:"payload,envelope"`
	SecretLast4   string            `json:"secret_last4"`
	SecretsActive int               `json:"secrets_active"`
	Health        healthView        `json:"health"`
	Metadata      map[string]string `json:"metadata"`
	CreatedAt     stamp             `json:"created_at"`
	UpdatedAt     stamp             `json:"updated_at"`
	Version       int64             `json:"version"`
	Warnings      []string          `json:"warnings,omitempty" doc:"Soft findings about the policy, after a write."`
}

// signatureView is one signature an endpoint gets.
type signatureView struct {
	Scheme string `json:"scheme" enum:"standard,standard_ed25519,stripe"`
	Header string `json:"header,omitempty" maxLength:"128" doc:"With scheme stripe."`
}

// healthView is the short form of a lane.
type healthView struct {
	State string `json:"state" enum:"closed,open"`
}

// maskedValue stands for a value that can be written but not read.
const maskedValue = "***"

// shown is an endpoint with what surrounds it in the store.
type shown struct {
	store.Destination
	headers map[string]string
}

// surround reads what belongs to the endpoints: policy, secrets, lane.
func (a *API) surround(ctx context.Context, endpoints []hook.Endpoint) ([]shown, error) {
	if len(endpoints) == 0 {
		return nil, nil
	}
	ids := make([]hook.ID, len(endpoints))
	for i, e := range endpoints {
		ids[i] = e.ID
	}
	dests, err := a.cfg.Store.Destinations(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read destinations: %w", err)
	}
	byID := make(map[hook.ID]store.Destination, len(dests))
	for _, d := range dests {
		byID[d.Endpoint.ID] = d
	}
	out := make([]shown, len(endpoints))
	for i, e := range endpoints {
		d := byID[e.ID]
		d.Endpoint = e // what was read first: the page must agree with itself
		out[i].Destination = d
		if out[i].headers, err = a.openHeaders(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// surroundOne is surround for one endpoint.
func (a *API) surroundOne(ctx context.Context, e hook.Endpoint) (shown, error) {
	list, err := a.surround(ctx, []hook.Endpoint{e})
	if err != nil {
		return shown{}, err
	}
	return list[0], nil
}

// view shows an endpoint.
func (a *API) view(s shown, now time.Time) endpointView {
	e := s.Endpoint
	v := endpointView{
		ID:           hook.EndpointPrefix.Format(e.ID),
		UID:          nullable(e.UID),
		Tenant:       hook.TenantPrefix.Format(e.TenantID),
		URL:          e.URL,
		Description:  e.Description,
		Types:        e.Types,
		Status:       e.State.String(),
		StatusReason: nullable(e.StateReason),
		Policy:       orEmpty(e.Policy),
		Headers:      maskHeaders(s.headers),
		Signatures:   showSignatures(e.Signatures),
		Body:         e.Body.String(),
		Health:       healthView{State: laneState(s.Destination)},
		Metadata:     orNoTexts(e.Metadata),
		CreatedAt:    stamp(e.CreatedAt),
		UpdatedAt:    stamp(e.UpdatedAt),
		Version:      e.Rev,
	}
	if r, err := a.resolve(s.TenantPolicy, e.Policy); err == nil {
		v.PolicyHash = hashText(r.Hash)
	}
	v.SecretLast4, v.SecretsActive = a.secretSummary(s.Secrets, now)
	return v
}

func hashText(h hook.PolicyHash) string { return hex.EncodeToString(h[:]) }

func showSignatures(list []hook.Signature) []signatureView {
	out := make([]signatureView, len(list))
	for i, s := range list {
		out[i] = signatureView{Scheme: s.Scheme.String(), Header: s.Header}
	}
	return out
}

// secretSummary returns the last characters of the newest active secret and how
// many are active.
func (a *API) secretSummary(secrets []hook.Secret, now time.Time) (last4 string, active int) {
	for _, s := range secrets {
		if !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt) {
			continue
		}
		active++
		if last4 != "" {
			continue
		}
		if opened, err := a.openSecret(s); err == nil {
			last4 = opened.Last4()
		}
	}
	return last4, active
}

// openSecret reads a stored secret.
func (a *API) openSecret(s hook.Secret) (sign.Secret, error) {
	plain, err := a.cfg.Vault.Open(s.TenantID, s.EndpointID, vault.PurposeSecret, s.Sealed)
	if err != nil {
		return sign.Secret{}, err
	}
	return sign.ParseSecret(string(plain))
}

// openHeaders reads the custom headers of an endpoint.
func (a *API) openHeaders(e hook.Endpoint) (map[string]string, error) {
	if len(e.HeadersSealed) == 0 {
		return nil, nil
	}
	plain, err := a.cfg.Vault.Open(e.TenantID, e.ID, vault.PurposeHeaders, e.HeadersSealed)
	if err != nil {
		return nil, err
	}
	var headers map[string]string
	if err := json.Unmarshal(plain, &headers); err != nil {
		return nil, fmt.Errorf("read headers of %s: %w", hook.EndpointPrefix.Format(e.ID), err)
	}
	return headers, nil
}

func maskHeaders(headers map[string]string) map[string]string {
	out := make(map[string]string, len(headers))
	for name := range headers {
		out[name] = maskedValue
	}
	return out
}

// headerDiff tells which headers changed, without their values.
func headerDiff(before, after map[string]string) map[string][]string {
	out := map[string][]string{}
	for name, value := range after {
		if old, ok := before[name]; !ok || old != value {
			out["set"] = append(out["set"], name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			out["removed"] = append(out["removed"], name)
		}
	}
	return out
}

// findHeader returns the stored spelling of a header name.
func findHeader(headers map[string]string, name string) (string, bool) {
	for have := range headers {
		if strings.EqualFold(have, name) {
			return have, true
		}
	}
	return "", false
}

// warningsOf returns the soft findings about a policy.
func warningsOf(r *policy.Resolved) []string {
	if r == nil {
		return nil
	}
	return r.Warnings
}
