package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Audit makes the record of one change. diff must hold no secrets; nil: none.
func (s *Server) Audit(c *Call, tenant hook.ID, action, subject string, diff any) hook.Audit {
	rec := hook.Audit{
		ID:        s.cfg.IDs.Next(c.Now),
		TenantID:  tenant,
		Actor:     KeyText(c.Key),
		Action:    action,
		Subject:   subject,
		RequestID: c.ID,
		RemoteIP:  c.remote().String(),
		At:        c.Now,
		Diff:      json.RawMessage("{}"),
		Claim:     c.claim,
	}
	if b, err := json.Marshal(diff); err == nil && diff != nil {
		rec.Diff = boundedDiff(b)
	}
	return rec
}

// Bounds of what a record keeps of a change, and of each value in one that has
// more: a change may replace a quarter of a megabyte, and every change is
// recorded.
const (
	maxDiff  = 8 << 10
	maxValue = 256
)

// boundedDiff returns the diff, with long values cut if it is too large, and with
// names alone if it still is.
func boundedDiff(diff []byte) json.RawMessage {
	if len(diff) <= maxDiff {
		return diff
	}
	short := map[string]json.RawMessage{}
	for name, value := range AsObject(diff) {
		sides := AsObject(value)
		if sides == nil {
			short[name] = cutValue(value)
			continue
		}
		for side, v := range sides {
			sides[side] = cutValue(v)
		}
		short[name] = marshal(sides)
	}
	if b := marshal(short); len(b) <= maxDiff {
		return b
	}
	names := slices.Sorted(maps.Keys(short))
	for i := range names {
		names[i] = begin(names[i], 64)
	}
	return marshal(map[string]any{"changed": names[:min(len(names), 64)], "bytes": len(diff)})
}

// cutValue replaces a value that is long by its beginning.
func cutValue(value json.RawMessage) json.RawMessage {
	if len(value) <= maxValue {
		return value
	}
	return marshal(fmt.Sprintf("%s… (%d bytes)", begin(string(value), maxValue), len(value)))
}

// marshal encodes what cannot fail to be encoded.
func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return b
}

// KeyText names the key that acted; empty before a key was found.
func KeyText(k *hook.APIKey) string {
	if k == nil {
		return ""
	}
	return hook.KeyPrefix.Format(k.ID)
}

// FieldDiff is the change of one field.
type FieldDiff struct {
	From json.RawMessage `json:"from,omitempty"`
	To   json.RawMessage `json:"to,omitempty"`
}

// Diff compares two shown objects by their fields, but for those to ignore.
// Since both are what the API shows, neither holds a secret.
func Diff(before, after any, ignore map[string]bool) map[string]any {
	old, now := AsObject(marshal(before)), AsObject(marshal(after))
	names := slices.Collect(maps.Keys(old))
	for name := range now {
		if _, ok := old[name]; !ok {
			names = append(names, name)
		}
	}
	out := map[string]any{}
	for _, name := range names {
		if !ignore[name] && !bytes.Equal(old[name], now[name]) {
			out[name] = FieldDiff{From: old[name], To: now[name]}
		}
	}
	return out
}
