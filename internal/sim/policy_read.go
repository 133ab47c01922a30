package sim

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// ReadPolicy reads a policy file: the policy object of the API, as YAML or
// JSON, over the preset default. The error is a *hook.Invalid that names every
// field and the rule it breaks; warnings are what is allowed but perhaps not
// meant.
func ReadPolicy(data []byte) (p policy.Policy, warnings []string, err error) {
	doc, err := PolicyJSON(data)
	if err != nil {
		return policy.Policy{}, nil, err
	}
	resolved, err := policy.Resolve(nil, policy.Level{Name: policy.LevelServer, JSON: doc})
	if err != nil {
		return policy.Policy{}, nil, err
	}
	return resolved.Policy, resolved.Warnings, nil
}

// PolicyJSON returns a policy file as the API takes it, without a look at what it
// says.
func PolicyJSON(data []byte) (json.RawMessage, error) {
	invalid := func(message string) error {
		return &hook.Invalid{Code: "invalid_policy", Fields: []hook.FieldError{{Path: "policy", Message: message}}}
	}
	if len(data) > maxDocument {
		return nil, invalid("must be at most 64 KiB")
	}
	var doc any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, invalid("is not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: "))
	}
	raw, err := json.Marshal(withTextKeys(doc))
	if err != nil { // .nan and .inf are YAML but no JSON
		return nil, invalid("has a value that JSON cannot hold")
	}
	return raw, nil
}

// withTextKeys makes texts of the keys that YAML reads as numbers, such as the
// statuses of classify.
func withTextKeys(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			v[key] = withTextKeys(member)
		}
		return v
	case map[any]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			out[fmt.Sprint(key)] = withTextKeys(member)
		}
		return out
	case []any:
		for i := range v {
			v[i] = withTextKeys(v[i])
		}
		return v
	default:
		return v
	}
}
