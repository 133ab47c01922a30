package api

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// stamp is a time as the API shows it: RFC 3339, UTC, milliseconds, and null
// for "not yet".
type stamp time.Time

const stampFormat = "2006-01-02T15:04:05.000Z"

// MarshalJSON implements json.Marshaler.
func (s stamp) MarshalJSON() ([]byte, error) {
	t := time.Time(s)
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().AppendFormat(nil, `"`+stampFormat+`"`), nil
}

// Schema describes a stamp to huma.
func (stamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Nullable: true}
}

// millis shows a duration in milliseconds.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// nullable shows an empty text as null.
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// change is a field of a merge patch: absent, null, or a value.
type change[T any] struct {
	set  bool
	null bool
	to   T
}

// UnmarshalJSON implements json.Unmarshaler; it runs only for fields that are
// there.
func (c *change[T]) UnmarshalJSON(b []byte) error {
	c.set = true
	if string(b) == "null" {
		c.null = true
		return nil
	}
	return json.Unmarshal(b, &c.to)
}

// Schema describes the field to huma as what it holds.
func (change[T]) Schema(r huma.Registry) *huma.Schema {
	s := r.Schema(reflect.TypeFor[T](), true, "")
	if s.Ref == "" && s.Type != "" {
		s.Nullable = true
	}
	return s
}

// IsZero lets omitzero leave out what was absent.
func (c change[T]) IsZero() bool { return !c.set }

// apply sets *to when the field was given; null sets the zero value.
func (c change[T]) apply(to *T) {
	if c.set {
		*to = c.to
	}
}

// maxPatchDepth is more than any object of ours has levels. Each level is
// decoded again, so depth must not be the client's choice.
const maxPatchDepth = 8

var errTooDeep = errors.New("is nested too deeply")

// mergePatch applies an RFC 7396 merge patch to a stored JSON object.
func mergePatch(target, patch json.RawMessage) (json.RawMessage, error) {
	return mergeLevel(target, patch, maxPatchDepth)
}

func mergeLevel(target, patch json.RawMessage, depth int) (json.RawMessage, error) {
	if depth == 0 {
		return nil, errTooDeep
	}
	p := asObject(patch)
	if p == nil {
		return patch, nil
	}
	t := asObject(target)
	if t == nil {
		t = map[string]json.RawMessage{}
	}
	for name, value := range p {
		if string(value) == "null" {
			delete(t, name)
			continue
		}
		merged, err := mergeLevel(t[name], value, depth-1)
		if err != nil {
			return nil, err
		}
		t[name] = merged
	}
	return json.Marshal(t)
}

// asObject returns the members of a JSON object, nil for any other value.
func asObject(b json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(b, &m) != nil {
		return nil
	}
	return m
}

// mergeTexts applies a merge patch to a map of texts; nil values remove.
func mergeTexts(target map[string]string, patch map[string]*string) map[string]string {
	out := make(map[string]string, len(target)+len(patch))
	maps.Copy(out, target)
	for k, v := range patch {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = *v
		}
	}
	return out
}
