package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

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
	for name, value := range asObject(diff) {
		sides := asObject(value)
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
		names[i] = cutText(names[i], 64)
	}
	return marshal(map[string]any{"changed": names[:min(len(names), 64)], "bytes": len(diff)})
}

// cutValue replaces a value that is long by its beginning.
func cutValue(value json.RawMessage) json.RawMessage {
	if len(value) <= maxValue {
		return value
	}
	return marshal(fmt.Sprintf("%s… (%d bytes)", cutText(string(value), maxValue), len(value)))
}

// cutText returns the beginning of a text, whole characters only.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// marshal encodes what cannot fail to be encoded.
func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return b
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
