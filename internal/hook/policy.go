package hook

import (
	"encoding/json"
	"time"
)

// NamedPolicy is a policy that an operator saved under a name. Tenants and
// endpoints refer to it as to a preset.
type NamedPolicy struct {
	ID          ID
	Name        string // unique; no preset has it
	Description string
	Policy      json.RawMessage // a policy level: a preset, and what differs from it
	Version     int64
	CreatedAt   time.Time
	UpdatedAt   time.Time
	// How many refer to it by themselves, at the moment it was read.
	Tenants   int64
	Endpoints int64
}

// MaxPolicyName bounds the name of a policy.
const MaxPolicyName = 64

// ValidPolicyName reports whether a policy may have this name.
func ValidPolicyName(name string) bool {
	if name == "" || len(name) > MaxPolicyName {
		return false
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return false
		}
	}
	return true
}

// PolicyLevel is what a tenant or an endpoint says about its policy.
type PolicyLevel struct {
	JSON json.RawMessage
	// Name of the named policy that it refers to, and what that says; both empty
	// for a level that starts from a preset or from what lies below.
	Name  string
	Named json.RawMessage
}

// Level returns the tenant's policy level.
func (t *Tenant) Level() PolicyLevel { return PolicyLevel{t.Policy, t.PolicyName, t.NamedPolicy} }

// Level returns the endpoint's policy level.
func (e *Endpoint) Level() PolicyLevel { return PolicyLevel{e.Policy, e.PolicyName, e.NamedPolicy} }

// SetLevel gives the tenant another policy level.
func (t *Tenant) SetLevel(l PolicyLevel) {
	t.Policy, t.PolicyName, t.NamedPolicy = l.JSON, l.Name, l.Named
}

// SetLevel gives the endpoint another policy level.
func (e *Endpoint) SetLevel(l PolicyLevel) {
	e.Policy, e.PolicyName, e.NamedPolicy = l.JSON, l.Name, l.Named
}
