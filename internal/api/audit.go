package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// audit makes the record of one change. diff must hold no secrets; nil: none.
func (a *API) audit(c *call, tenant hook.ID, action, subject string, diff any) hook.Audit {
	rec := hook.Audit{
		ID:        a.cfg.IDs.Next(c.now),
		TenantID:  tenant,
		Actor:     keyText(c.key),
		Action:    action,
		Subject:   subject,
		RequestID: c.id,
		RemoteIP:  c.remote().String(),
		At:        c.now,
		Diff:      json.RawMessage("{}"),
	}
	if b, err := json.Marshal(diff); err == nil && diff != nil {
		rec.Diff = b
	}
	return rec
}

// keyText names the key that acted; empty before a key was found.
func keyText(k *hook.APIKey) string {
	if k == nil {
		return ""
	}
	return hook.KeyPrefix.Format(k.ID)
}

// fieldDiff is the change of one field.
type fieldDiff struct {
	From json.RawMessage `json:"from,omitempty"`
	To   json.RawMessage `json:"to,omitempty"`
}

// diffOf compares two shown objects by their fields. Since both are what the
// API shows, neither holds a secret.
func diffOf(before, after any) map[string]fieldDiff {
	old, now := members(before), members(after)
	names := slices.Collect(maps.Keys(old))
	for name := range now {
		if _, ok := old[name]; !ok {
			names = append(names, name)
		}
	}
	out := map[string]fieldDiff{}
	for _, name := range names {
		if !unaudited[name] && !bytes.Equal(old[name], now[name]) {
			out[name] = fieldDiff{From: old[name], To: now[name]}
		}
	}
	return out
}

// unaudited fields change with every write or describe something else.
var unaudited = map[string]bool{"version": true, "updated_at": true, "policy_hash": true, "health": true}

func members(v any) map[string]json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return asObject(b)
}
