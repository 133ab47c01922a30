// Package policies is the part of the API that is about policy levels: it reads and
// checks what people write, finds the named policies that levels refer to, and keeps
// those.
//
// What a policy means is package policy's business; who uses the result is not known
// here.
package policies

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Config is what New needs. All of it is required but the two policies.
type Config struct {
	Store  store.Policies
	IDs    *hook.IDSource
	Server []byte         // the server's policy level, JSON; nil: none
	Limits *policy.Limits // the operator's; nil: none
	// Changed tells the lanes and caches of a tenant that its policy may be another
	// one now.
	Changed func(tenant hook.ID)
}

// Book knows the levels that policies are made of.
type Book struct {
	cfg    Config
	server *rest.Server
}

// New returns the book. The server's level must be valid.
func New(cfg Config) (*Book, error) {
	none := hook.PolicyLevel{}
	if _, err := policy.Resolve(cfg.Limits, policy.Levels(cfg.Server, none, none)...); err != nil {
		return nil, fmt.Errorf("server policy: %w", err)
	}
	return &Book{cfg: cfg}, nil
}

// Level finds the named policy that a level refers to. A preset of the same name, which
// a later version of the program may bring, does not take its place.
func (b *Book) Level(ctx context.Context, doc json.RawMessage) (hook.PolicyLevel, error) {
	l := hook.PolicyLevel{JSON: doc}
	start := policy.StartOf(doc)
	if !hook.ValidPolicyName(start) {
		return l, nil
	}
	p, err := b.cfg.Store.PolicyByName(ctx, start)
	switch {
	case errors.Is(err, hook.ErrNotFound):
		return l, nil
	case err != nil:
		return l, fmt.Errorf("read policy: %w", err)
	}
	l.Name, l.Named = p.Name, p.Policy
	return l, nil
}

// Resolve expands a stored policy over the server's level. The operator's bounds are
// for what is written: one that was stored before them stays.
func (b *Book) Resolve(tenant, endpoint hook.PolicyLevel) (*policy.Resolved, error) {
	return policy.Resolve(nil, policy.Levels(b.cfg.Server, tenant, endpoint)...)
}

// Check adds what is wrong with a policy, and returns it expanded. A stored policy that
// the request leaves alone is not held against the operator's bounds.
func (b *Book) Check(bad *rest.Invalid, tenant, endpoint hook.PolicyLevel, stored bool) (*policy.Resolved, error) {
	limits := b.cfg.Limits
	if stored {
		limits = nil
	}
	r, err := policy.Resolve(limits, policy.Levels(b.cfg.Server, tenant, endpoint)...)
	if wrong, ok := errors.AsType[*hook.Invalid](err); ok {
		bad.Take(wrong)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("resolve policy: %w", err)
	}
	return r, nil
}

// Gone is the answer to a write whose named policy was deleted meanwhile; any other
// error stays as it is.
func Gone(err error) error {
	if errors.Is(err, hook.ErrPolicyUnknown) {
		return rest.FieldError("policy.preset", "unknown", "names a policy that was deleted just now; see /v1/policies")
	}
	return err
}

// Patched applies a merge patch to a stored level; null clears it.
func (b *Book) Patched(ctx context.Context, bad *rest.Invalid, stored hook.PolicyLevel, ch rest.Change[json.RawMessage]) (hook.PolicyLevel, error) {
	if !ch.Set {
		return stored, nil
	}
	return b.Level(ctx, patched(bad, stored.JSON, ch))
}

func patched(bad *rest.Invalid, stored json.RawMessage, ch rest.Change[json.RawMessage]) json.RawMessage {
	switch {
	case ch.Null:
		return view.EmptyObject
	case rest.AsObject(ch.To) == nil:
		bad.AddAs("invalid_policy", "policy", "must be an object")
		return stored
	}
	merged, err := rest.MergePatch(stored, ch.To)
	if err != nil {
		bad.AddAs("invalid_policy", "policy", err.Error())
		return stored
	}
	return merged
}

// Given returns the level of a new object, as given: unlike in a patch, a null in it
// has a meaning of its own, the preset's value.
func (b *Book) Given(ctx context.Context, bad *rest.Invalid, doc json.RawMessage) (hook.PolicyLevel, error) {
	return b.Level(ctx, given(bad, doc))
}

func given(bad *rest.Invalid, doc json.RawMessage) json.RawMessage {
	if len(doc) == 0 || string(doc) == "null" {
		return view.EmptyObject
	}
	var compact bytes.Buffer
	if rest.AsObject(doc) == nil || json.Compact(&compact, doc) != nil {
		bad.AddAs("invalid_policy", "policy", "must be an object")
		return view.EmptyObject
	}
	return compact.Bytes()
}
