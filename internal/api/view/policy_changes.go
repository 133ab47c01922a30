package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// PolicyChanges is a policy that an endpoint would have, and what is different then.
type PolicyChanges struct {
	Policy
	Changes []PolicyChange `json:"changes" nullable:"false"`
}

// PolicyChange is one value that would be different.
type PolicyChange struct {
	Path string          `json:"path"`
	From json.RawMessage `json:"from" doc:"Null: there is no such value now."`
	To   json.RawMessage `json:"to" doc:"Null: there would be no such value."`
}

// ChangesOf lists the values in which two resolved policies differ, by path.
func ChangesOf(before, after *Policy) ([]PolicyChange, error) {
	from, err := Leaves(before.Resolved)
	if err != nil {
		return nil, err
	}
	to, err := Leaves(after.Resolved)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(from)
	maps.Copy(all, to)
	out := []PolicyChange{}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if !bytes.Equal(from[path], to[path]) {
			out = append(out, PolicyChange{Path: path, From: orNull(from[path]), To: orNull(to[path])})
		}
	}
	return out, nil
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

// Leaves takes a policy apart: the values by their paths, such as retry.backoff.cap.
// Lists are values.
func Leaves(policy json.RawMessage) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage)
	var walk func(path string, raw json.RawMessage) error
	walk = func(path string, raw json.RawMessage) error {
		raw = bytes.TrimSpace(raw)
		if len(raw) == 0 || raw[0] != '{' {
			out[path] = raw
			return nil
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return fmt.Errorf("read policy: %w", err)
		}
		for name, value := range members {
			if err := walk(strings.TrimPrefix(path+"."+name, "."), value); err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk("", policy); err != nil {
		return nil, err
	}
	return out, nil
}
