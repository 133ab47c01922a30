package app

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// disabler turns endpoints off when the dispatcher has found out that they are
// gone or only fail, and tells everybody who has to know.
type disabler struct {
	store interface {
		EndpointByID(ctx context.Context, tenant, id hook.ID) (hook.Endpoint, error)
		UpdateEndpoint(ctx context.Context, e hook.Endpoint, a hook.Audit) (hook.Endpoint, error)
	}
	ids    *hook.IDSource
	notify interface {
		EndpointChanged(tenant, endpoint hook.ID)
	}
	// record tells the endpoint's owner. It must return at once.
	record func(tenant, endpoint hook.ID, t hook.OperationalType, detail any)
}

// disablerActor is who turns endpoints off by rule, in the audit log.
const disablerActor = "dispatch"

// Disable implements dispatch.EndpointDisabler.
func (k *disabler) Disable(ctx context.Context, d dispatch.Disabling) (int64, error) {
	e, err := k.store.EndpointByID(ctx, d.Tenant, d.Endpoint)
	if err != nil {
		return 0, fmt.Errorf("read endpoint: %w", err)
	}
	switch {
	case isDone(&e, d): // by an earlier call that did not hear of its success
	case e.Rev != d.Rev:
		return 0, fmt.Errorf("endpoint has version %d, not %d: %w", e.Rev, d.Rev, hook.ErrVersionMismatch)
	default:
		if e, err = k.turnOff(ctx, e, d.Reason); err != nil {
			return 0, err
		}
	}
	k.notify.EndpointChanged(e.TenantID, e.ID)
	k.record(e.TenantID, e.ID, hook.EndpointDisabled, map[string]any{"reason": string(d.Reason)})
	return e.Rev, nil
}

// isDone reports whether the endpoint is as its disabling left it.
func isDone(e *hook.Endpoint, d dispatch.Disabling) bool {
	return e.Rev == d.Rev+1 && e.State == hook.Disabled && e.StateReason == string(d.Reason)
}

func (k *disabler) turnOff(ctx context.Context, e hook.Endpoint, why dispatch.DisableReason) (hook.Endpoint, error) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	diff, err := json.Marshal(map[string]any{
		"status":        map[string]string{"from": e.State.String(), "to": hook.Disabled.String()},
		"status_reason": why,
	})
	if err != nil {
		return e, fmt.Errorf("encode audit record: %w", err)
	}
	e.State, e.StateReason, e.UpdatedAt = hook.Disabled, string(why), now
	e, err = k.store.UpdateEndpoint(ctx, e, hook.Audit{
		ID: k.ids.Next(now), TenantID: e.TenantID, Actor: disablerActor, Action: "endpoint.disable",
		Subject: hook.EndpointPrefix.Format(e.ID), Diff: diff, At: now,
	})
	if err != nil {
		return e, fmt.Errorf("disable endpoint: %w", err)
	}
	return e, nil
}

// Failing implements dispatch.EndpointDisabler.
func (k *disabler) Failing(f dispatch.Failing) {
	k.record(f.Tenant, f.Endpoint, hook.EndpointFailing, map[string]any{
		"since": f.Since.UTC(), "percent_of_disable_after": f.Percent,
	})
}
