package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// resolve expands a stored policy over the server's level. The operator's
// bounds are for what is written: one that was stored before them stays.
func (a *API) resolve(tenant, endpoint []byte) (*policy.Resolved, error) {
	return policy.Resolve(nil, policy.Levels(a.cfg.ServerPolicy, tenant, endpoint)...)
}

// checkPolicy adds what is wrong with a policy, and returns it expanded. A
// stored policy that the request leaves alone is not held against the
// operator's bounds.
func (a *API) checkPolicy(e *rest.Invalid, tenant, endpoint []byte, stored bool) (*policy.Resolved, error) {
	limits := a.cfg.PolicyLimits
	if stored {
		limits = nil
	}
	r, err := policy.Resolve(limits, policy.Levels(a.cfg.ServerPolicy, tenant, endpoint)...)
	if bad, ok := errors.AsType[*hook.Invalid](err); ok {
		e.Take(bad)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("resolve policy: %w", err)
	}
	return r, nil
}

// patchPolicy applies a merge patch to a stored policy level; null clears it.
func patchPolicy(e *rest.Invalid, stored json.RawMessage, ch rest.Change[json.RawMessage]) json.RawMessage {
	switch {
	case !ch.Set:
		return stored
	case ch.Null:
		return view.EmptyObject
	case rest.AsObject(ch.To) == nil:
		e.AddAs("invalid_policy", "policy", "must be an object")
		return stored
	}
	merged, err := rest.MergePatch(stored, ch.To)
	if err != nil {
		e.AddAs("invalid_policy", "policy", err.Error())
		return stored
	}
	return merged
}

// newPolicy returns the level of a new object, as given: unlike in a patch, a
// null in it has a meaning of its own, the preset's value.
func newPolicy(e *rest.Invalid, given json.RawMessage) json.RawMessage {
	if len(given) == 0 || string(given) == "null" {
		return view.EmptyObject
	}
	var compact bytes.Buffer
	if rest.AsObject(given) == nil || json.Compact(&compact, given) != nil {
		e.AddAs("invalid_policy", "policy", "must be an object")
		return view.EmptyObject
	}
	return compact.Bytes()
}
