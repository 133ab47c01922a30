package rest

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Change is a field of a merge patch: absent, null, or a value.
type Change[T any] struct {
	Set  bool // it was there
	Null bool
	To   T
}

// UnmarshalJSON implements json.Unmarshaler; it runs only for fields that are
// there.
func (c *Change[T]) UnmarshalJSON(b []byte) error {
	c.Set = true
	if string(b) == "null" {
		c.Null = true
		return nil
	}
	return json.Unmarshal(b, &c.To)
}

// Schema describes the field to huma as what it holds.
func (Change[T]) Schema(r huma.Registry) *huma.Schema {
	s := r.Schema(reflect.TypeFor[T](), true, "")
	if s.Ref == "" && s.Type != "" {
		s.Nullable = true
	}
	return s
}

// IsZero lets omitzero leave out what was absent.
func (c Change[T]) IsZero() bool { return !c.Set }

// Apply sets *to when the field was given; null sets the zero value.
func (c Change[T]) Apply(to *T) {
	if c.Set {
		*to = c.To
	}
}

// maxPatchDepth is more than any object of ours has levels. Each level is
// decoded again, so depth must not be the client's choice.
const maxPatchDepth = 8

var errTooDeep = errors.New("is nested too deeply")

// MergePatch applies an RFC 7396 merge patch to a stored JSON object.
func MergePatch(target, patch json.RawMessage) (json.RawMessage, error) {
	return mergeLevel(target, patch, maxPatchDepth)
}

func mergeLevel(target, patch json.RawMessage, depth int) (json.RawMessage, error) {
	if depth == 0 {
		return nil, errTooDeep
	}
	p := AsObject(patch)
	if p == nil {
		return patch, nil
	}
	t := AsObject(target)
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

// AsObject returns the members of a JSON object, nil for any other value.
func AsObject(b json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(b, &m) != nil {
		return nil
	}
	return m
}

// MergeTexts applies a merge patch to a map of texts; nil values remove.
func MergeTexts(target map[string]string, patch map[string]*string) map[string]string {
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

// PatchTexts applies a field of a merge patch to a map of texts.
func PatchTexts(m map[string]string, ch Change[map[string]*string]) map[string]string {
	switch {
	case !ch.Set:
		return m
	case ch.Null:
		return nil
	default:
		return MergeTexts(m, ch.To)
	}
}
