package api

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/sign"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// shown is an endpoint with what surrounds it in the store.
type shown struct {
	store.Destination
	headers map[string]string
}

// destinations reads what surrounds endpoints, by their ids. Those that are gone
// are not among them.
func (a *API) destinations(ctx context.Context, ids []hook.ID) (map[hook.ID]store.Destination, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	list, err := a.cfg.Store.Destinations(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read destinations: %w", err)
	}
	byID := make(map[hook.ID]store.Destination, len(list))
	for _, d := range list {
		byID[d.Endpoint.ID] = d
	}
	return byID, nil
}

func idsOf(endpoints []hook.Endpoint) []hook.ID {
	ids := make([]hook.ID, len(endpoints))
	for i, e := range endpoints {
		ids[i] = e.ID
	}
	return ids
}

// surround reads what belongs to the endpoints: policy, secrets, lane.
func (a *API) surround(ctx context.Context, endpoints []hook.Endpoint) ([]shown, error) {
	byID, err := a.destinations(ctx, idsOf(endpoints))
	if err != nil {
		return nil, err
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
func (a *API) view(s shown, now time.Time) view.Endpoint {
	e := s.Endpoint
	v := view.OfEndpoint(s.Destination, s.headers)
	if r, err := a.policies.Resolve(s.TenantLevel, e.Level()); err == nil {
		v.PolicyHash = view.Hash(r.Hash)
	}
	v.SecretLast4, v.SecretsActive = a.secretSummary(s.Secrets, now)
	return v
}

// secretSummary returns the last characters of the newest active secret and how
// many are active.
func (a *API) secretSummary(secrets []hook.Secret, now time.Time) (last4 string, active int) {
	for _, s := range secrets {
		if !isActive(s, now) {
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

// warningsOf returns the soft findings about a policy.
func warningsOf(r *policy.Resolved) []string {
	if r == nil {
		return nil
	}
	return r.Warnings
}
