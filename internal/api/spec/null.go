package spec

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// always are times that every object has: null stands for "not yet" elsewhere.
var always = map[string]bool{
	"accepted_at": true, "requested_at": true,
	"Delivery.created_at": true, "Endpoint.created_at": true, "Key.created_at": true, "NamedPolicy.created_at": true,
	"Replay.created_at": true, "Tenant.created_at": true, "Secret.created_at": true, "Endpoint.updated_at": true, "NamedPolicy.updated_at": true, "Tenant.updated_at": true,
	"EndpointCreated.created_at": true, "EndpointCreated.updated_at": true, "EventType.created_at": true, "EventType.updated_at": true,
	"KeyCreated.created_at": true, "ChannelCreated.created_at": true, "ChannelCreated.updated_at": true,
	"Attempt.started_at": true, "AttemptEntry.started_at": true,
	"Audit.at": true, "OperationalEvent.at": true, "Last.at": true, "Notification.at": true, "StatsPoint.at": true,
	"Alert.since": true, "Alert.last_at": true, "Replay.as_of": true, "PortalLink.expires_at": true,
	"Stats.from": true, "Stats.to": true, "Overview.from": true, "Overview.to": true, "Strips.from": true, "Strips.to": true,
	"DeadGroup.oldest": true, "DeadGroup.newest": true,
}

// objects are members that hold an object whose members are not ours to list here.
var objects = map[string]bool{
	"policy": true, "resolved": true, "diff": true, "filter": true, "OperationalEvent.detail": true,
}

// tellNulls says which members may be null, as the type of a schema has it: a pointer
// to an object that is always there may be. answer tells that no request has the schema.
func tellNulls(name string, schema map[string]any, t reflect.Type, answer bool) {
	pointers := nullable(t)
	members := object(schema["properties"])
	for member, p := range members {
		prop := object(p)
		if ref := prop["$ref"]; ref != nil && pointers[member] {
			delete(prop, "$ref")
			prop["anyOf"] = []any{map[string]any{"$ref": ref}, map[string]any{"type": "null"}}
		}
		if prop["type"] == nil && (objects[name+"."+member] || objects[member]) && hasRaw(t, member) {
			prop["type"], prop["additionalProperties"] = "object", true
			if !answer { // null is nothing
				prop["type"] = []any{"object", "null"}
			}
		}
		if more := object(prop["additionalProperties"]); answer && more != nil && typeOf(more) == "array" {
			more["type"] = "array"
		}
		types, _ := prop["type"].([]any)
		if !slices.Contains(types, any("null")) {
			continue
		}
		// What clients get is a list, if it is there at all.
		if answer && types[0] == "array" || answer && (always[member] || always[name+"."+member]) && prop["format"] == "date-time" {
			prop["type"] = types[0]
			continue
		}
		if enum, ok := prop["enum"].([]any); ok && !slices.Contains(enum, nil) {
			prop["enum"] = append(enum, nil)
		}
	}
}

// fieldsOf yields the members of a type with their tags, those of embedded ones too.
func fieldsOf(t reflect.Type, yield func(name, options string, f reflect.StructField)) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return
	}
	for _, f := range reflect.VisibleFields(t) {
		if name, options, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			yield(name, options, f)
		}
	}
}

// nullable returns the members that are null when there is nothing: pointers to
// objects, unless they are left out then; and changes, which null clears.
func nullable(t reflect.Type) map[string]bool {
	out := map[string]bool{}
	fieldsOf(t, func(name, options string, f reflect.StructField) {
		pointer := f.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omit")
		if pointer || strings.HasPrefix(f.Type.Name(), "Change[") {
			out[name] = true
		}
	})
	return out
}

// hasRaw reports whether a member holds JSON that passes through.
func hasRaw(t reflect.Type, member string) (found bool) {
	fieldsOf(t, func(name, _ string, f reflect.StructField) {
		raw := f.Type == reflect.TypeFor[json.RawMessage]() || strings.HasPrefix(f.Type.Name(), "Change[") && strings.Contains(f.Type.Name(), "RawMessage")
		found = found || name == member && raw
	})
	return found
}
