package policy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// Canonical returns the form of the policy that is hashed and stored: every
// value, keys sorted, durations as whole milliseconds, no white space, without
// the preset's name. Equal policies have equal canonical forms.
func (p *Policy) Canonical() ([]byte, error) {
	return encode(flatten(*p).tree(func(d time.Duration) any { return d.Milliseconds() }))
}

// HashOf returns the hash of a policy's canonical form.
func HashOf(canonical []byte) hook.PolicyHash {
	sum := sha256.Sum256(canonical)
	return hook.PolicyHash(sum[:8])
}

// MarshalJSON writes the whole policy as a person would: the shape that levels
// have, durations as text. Resolving it gives the same policy again.
func (p Policy) MarshalJSON() ([]byte, error) {
	tree := flatten(p).tree(func(d time.Duration) any { return quantity.FormatDuration(d) })
	if p.Preset != "" {
		tree["preset"] = p.Preset
	}
	return encode(tree)
}

func encode(tree map[string]any) ([]byte, error) {
	out, err := json.Marshal(tree) // sorts keys
	if err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	return out, nil
}

// tree nests the settings as the document has them. The classify maps are there
// also when they are empty.
func (s settings) tree(duration func(time.Duration) any) map[string]any {
	root := map[string]any{}
	for _, object := range entryObjects {
		nest(root, object)
	}
	for path, value := range s {
		switch v := value.(type) {
		case time.Duration:
			value = duration(v)
		case []time.Duration:
			list := make([]any, len(v))
			for i, d := range v {
				list[i] = duration(d)
			}
			value = list
		}
		nest(root, parent(path))[lastName(path)] = value
	}
	return root
}

// nest returns the object at path, made when it is missing.
func nest(root map[string]any, path string) map[string]any {
	if path == "" {
		return root
	}
	object := root
	for name := range strings.SplitSeq(path, ".") {
		next, ok := object[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[name] = next
		}
		object = next
	}
	return object
}
