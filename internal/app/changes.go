package app

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// changes is the store of those who change something on a person's word, or by the
// rule of a replay: each change that is stored becomes an operational event. What
// happened is what the audit record says, so that the two cannot differ.
type changes struct {
	store.DB
	// record must return at once.
	record func(tenant, endpoint hook.ID, t hook.OperationalType, detail any)
}

func (a *App) changes() changes { return changes{a.db, a.watch.Record} }

// changeTypes are the actions of audit records that are told. Those by which the
// dispatcher turns endpoints off do not come here.
var changeTypes = map[string]hook.OperationalType{
	"tenant.create":          hook.TenantCreated,
	"tenant.delete":          hook.TenantDeleted,
	"endpoint.create":        hook.EndpointCreated,
	"endpoint.change":        hook.EndpointUpdated,
	"endpoint.delete":        hook.EndpointDeleted,
	"endpoint.pause":         hook.EndpointPaused,
	"endpoint.resume":        hook.EndpointResumed,
	"endpoint.disable":       hook.EndpointDisabled,
	"endpoint.reset":         hook.BreakerReset,
	"endpoint.rotate_secret": hook.EndpointSecretRotated,
	"key.create":             hook.KeyCreated,
	"key.revoke":             hook.KeyRevoked,
	"replay.start":           hook.ReplayStarted,
	"replay.pause":           hook.ReplayPausing,
	"replay.resume":          hook.ReplayResumed,
	"replay.finish":          hook.ReplayFinished,
	"replay.cancel":          hook.ReplayWithdrawn,
}

// tell records a change if it is one that is told.
func (c changes) tell(err error, a *hook.Audit, tenant, endpoint hook.ID, detail any) {
	if t, ok := changeTypes[a.Action]; ok && err == nil {
		c.record(tenant, endpoint, t, detail)
	}
}

// CreateTenant implements store.Tenants.
func (c changes) CreateTenant(ctx context.Context, t hook.Tenant, a hook.Audit) error {
	err := c.DB.CreateTenant(ctx, t, a)
	c.tell(err, &a, t.ID, 0, nil)
	return err
}

// DeleteTenant implements store.Tenants.
func (c changes) DeleteTenant(ctx context.Context, id hook.ID, a hook.Audit) error {
	err := c.DB.DeleteTenant(ctx, id, a)
	c.tell(err, &a, id, 0, nil)
	return err
}

// CreateEndpoint implements store.Endpoints.
func (c changes) CreateEndpoint(ctx context.Context, e hook.Endpoint, secrets []hook.Secret, most int64, a hook.Audit) error {
	err := c.DB.CreateEndpoint(ctx, e, secrets, most, a)
	c.tell(err, &a, e.TenantID, e.ID, nil)
	return err
}

// UpdateEndpoint implements store.Endpoints.
func (c changes) UpdateEndpoint(ctx context.Context, e hook.Endpoint, a hook.Audit) (hook.Endpoint, error) {
	stored, err := c.DB.UpdateEndpoint(ctx, e, a)
	c.tell(err, &a, e.TenantID, e.ID, endpointDetail(&a, e.StateReason))
	return stored, err
}

// DeleteEndpoint implements store.Endpoints.
func (c changes) DeleteEndpoint(ctx context.Context, tenant, id hook.ID, now time.Time, a hook.Audit) (int64, error) {
	cancelled, err := c.DB.DeleteEndpoint(ctx, tenant, id, now, a)
	c.tell(err, &a, tenant, id, map[string]int64{"cancelled": cancelled})
	return cancelled, err
}

// RotateSecret implements store.Endpoints. The record names the scheme and until when
// the secret before is good, and no secret.
func (c changes) RotateSecret(ctx context.Context, s hook.Secret, previousExpire, now time.Time, a hook.Audit) error {
	err := c.DB.RotateSecret(ctx, s, previousExpire, now, a)
	c.tell(err, &a, a.TenantID, s.EndpointID, a.Diff)
	return err
}

// CreateKey implements store.Keys.
func (c changes) CreateKey(ctx context.Context, k hook.APIKey, a hook.Audit) error {
	err := c.DB.CreateKey(ctx, k, a)
	c.tell(err, &a, k.TenantID, 0, map[string]string{"key": a.Subject, "scope": k.Scope.String()})
	return err
}

// RevokeKey implements store.Keys. Whoever revokes a key need not know whose it is, and
// one that is revoked already stays as it is.
func (c changes) RevokeKey(ctx context.Context, id hook.ID, now time.Time, a hook.Audit) error {
	if err := c.DB.RevokeKey(ctx, id, now, a); err != nil {
		return err
	}
	keys, err := c.ListKeys(ctx, 0, store.Page{Limit: 1, After: id - 1, Asc: true})
	if err == nil && len(keys) == 1 && keys[0].ID == id && keys[0].RevokedAt.Equal(now) {
		c.tell(nil, &a, keys[0].TenantID, 0, map[string]string{"key": a.Subject, "scope": keys[0].Scope.String()})
	}
	return nil
}

// UpdateReplay implements store.Replays and store.ReplayFeeder.
func (c changes) UpdateReplay(ctx context.Context, j hook.ReplayJob, a *hook.Audit) (hook.ReplayJob, error) {
	stored, err := c.DB.UpdateReplay(ctx, j, a)
	if err == nil && a != nil {
		c.tell(nil, a, stored.TenantID, stored.EndpointID, replayDetail(&stored))
	}
	return stored, err
}

// StartReplay implements store.ReplayFeeder. One that goes on after a pause was told
// of when it was resumed.
func (c changes) StartReplay(ctx context.Context, id hook.ID, now time.Time, a hook.Audit) (bool, error) {
	started, err := c.DB.StartReplay(ctx, id, now, a)
	if !started || err != nil {
		return started, err
	}
	if j, err := c.ReplayByID(ctx, a.TenantID, id); err == nil && j.StartedAt.Equal(now) {
		c.tell(nil, &a, j.TenantID, j.EndpointID, replayDetail(&j))
	}
	return true, nil
}

// maxNamedFields bounds what an event says of a change.
const maxNamedFields = 20

// endpointDetail says what of an endpoint was changed: the state before, or the names
// of its fields. Values stay in the audit log: not everybody who may hear of a change
// may read them.
func endpointDetail(a *hook.Audit, reason string) any {
	diff := map[string]json.RawMessage{}
	if err := json.Unmarshal(a.Diff, &diff); err != nil {
		return nil
	}
	switch changeTypes[a.Action] {
	case hook.EndpointPaused, hook.EndpointResumed:
		var status struct{ From string }
		if err := json.Unmarshal(diff["status"], &status); err != nil {
			return nil
		}
		return map[string]string{"from": status.From}
	case hook.EndpointDisabled:
		return map[string]string{"reason": reason}
	case hook.EndpointUpdated:
		names := slices.Sorted(maps.Keys(diff))
		if list := diff["changed"]; list != nil && diff["bytes"] != nil { // too much for a record: it has the names
			if err := json.Unmarshal(list, &names); err != nil {
				return nil
			}
		}
		return map[string][]string{"changed": names[:min(len(names), maxNamedFields)]}
	default:
		return nil
	}
}

// replayDetail says how far a replay is, and why it waits.
func replayDetail(j *hook.ReplayJob) any {
	return struct {
		Replay    string `json:"replay"`
		Reason    string `json:"reason,omitempty"`
		Total     *int64 `json:"total,omitempty"` // absent: not counted
		Delivered int64  `json:"delivered"`
		Failed    int64  `json:"failed"`
		Skipped   int64  `json:"skipped"`
	}{
		hook.ReplayPrefix.Format(j.ID), string(j.PauseReason), counted(j.Total), j.Counts.Delivered, j.Counts.Failed, j.Counts.Skipped,
	}
}

func counted(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// lettersTypes are the alerts about dead letters that are told as operational events,
// for those who collect these and not alerts. Others have events of their own.
var lettersTypes = map[string]hook.OperationalType{
	alert.LettersGrow:   hook.DeadLettersGrowing,
	alert.LettersExpire: hook.DeadLettersExpiring,
}

// fired tells of an alert that has begun to fire.
func (c changes) fired(al *hook.Alert) {
	if t, ok := lettersTypes[al.Rule]; ok {
		c.record(al.Subject.Tenant, al.Subject.Endpoint, t, map[string]any{
			"alert": hook.AlertPrefix.Format(al.ID), "value": al.Value, "threshold": al.Threshold,
		})
	}
}
