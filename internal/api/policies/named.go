package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// maxNamed bounds the named policies: people choose among them.
const maxNamed = 500

const (
	listPath = "/v1/policies"
	onePath  = listPath + "/{name}"
)

// PolicyPath is a named policy of a path.
type PolicyPath struct {
	Name string `path:"name" maxLength:"64"`
}

type policyCreate struct {
	Body struct {
		Name        string          `json:"name" minLength:"1" maxLength:"64" doc:"Small letters, digits and -; not the name of a preset. It cannot change."`
		Description string          `json:"description,omitempty" maxLength:"1000"`
		Policy      json.RawMessage `json:"policy" doc:"A policy level: a preset, and what differs from it."`
	}
}

type policyPatch struct {
	PolicyPath
	rest.IfMatch
	Body struct {
		Description rest.Change[string]          `json:"description,omitzero" maxLength:"1000"`
		Policy      rest.Change[json.RawMessage] `json:"policy,omitzero" doc:"Merged into the stored level."`
	}
}

// AddRoutes adds the routes of named policies.
func (b *Book) AddRoutes(server *rest.Server) {
	b.server = server
	g := server.Group("policies")
	rest.Add(g, rest.NeedRead, "GET "+listPath, "list-policies", "List the policies that were saved by name", b.list)
	rest.Add(g, rest.NeedAdmin, "POST "+listPath, "create-policy", "Save a policy by name", b.create,
		rest.Describe("Tenants and endpoints use it as a preset: `policy.preset` takes its name."))
	rest.Add(g, rest.NeedRead, "GET "+onePath, "get-policy", "Get a policy by name", b.get)
	rest.Add(g, rest.NeedAdmin, "PATCH "+onePath, "change-policy", "Change a policy for all that use it", b.patch,
		rest.Describe("Refused with 422 when it would not fit what one of its users says besides."))
	rest.Add(g, rest.NeedAdmin, "DELETE "+onePath, "delete-policy", "Delete a policy that nothing uses", b.delete)
}

func (b *Book) list(ctx context.Context, c *rest.Call, in *rest.PageParams) (*rest.ListOutput[view.NamedPolicy], error) {
	read := func(p store.Page) ([]hook.NamedPolicy, error) { return b.cfg.Store.ListPolicies(ctx, p) }
	return rest.ListOf(b.server, c, *in, read, func(p hook.NamedPolicy) hook.ID { return p.ID }, b.show)
}

// show adds the ladder to a policy. One that is not valid any more has none.
func (b *Book) show(p hook.NamedPolicy) view.NamedPolicy {
	r, err := policy.Resolve(nil, policy.Level{JSON: p.Policy})
	if err != nil {
		return view.OfNamedPolicy(&p, nil)
	}
	return view.OfNamedPolicy(&p, &r.Policy)
}

func (b *Book) read(ctx context.Context, name string) (hook.NamedPolicy, error) {
	if !hook.ValidPolicyName(name) {
		return hook.NamedPolicy{}, hook.ErrNotFound
	}
	return b.cfg.Store.PolicyByName(ctx, name)
}

func (b *Book) get(ctx context.Context, _ *rest.Call, in *PolicyPath) (*rest.Versioned[view.NamedPolicy], error) {
	p, err := b.read(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	return b.versioned(p, nil), nil
}

func (b *Book) versioned(p hook.NamedPolicy, warnings []string) *rest.Versioned[view.NamedPolicy] {
	v := b.show(p)
	v.Warnings = warnings
	return &rest.Versioned[view.NamedPolicy]{ETag: rest.ETag(p.Version), Body: v}
}

func (b *Book) create(ctx context.Context, c *rest.Call, in *policyCreate) (*rest.Created[view.NamedPolicy], error) {
	bad := &rest.Invalid{}
	p := hook.NamedPolicy{
		ID: b.cfg.IDs.Next(c.Now), Name: in.Body.Name, Description: in.Body.Description, Policy: given(bad, in.Body.Policy),
		Version: 1, CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	switch {
	case !hook.ValidPolicyName(p.Name):
		bad.Add("name", "invalid", "must have 1 to 64 small letters, digits or -")
	case isPreset(p.Name):
		bad.Add("name", "not_allowed", "is the name of a preset; see /v1/presets")
	}
	warnings, err := b.check(bad, &p, false)
	if err != nil {
		return nil, err
	}
	v := b.show(p)
	err = b.cfg.Store.CreatePolicy(ctx, p, maxNamed, b.server.Audit(c, 0, "policy.create", p.Name, diff(nil, v)))
	switch {
	case errors.Is(err, hook.ErrTooManyPolicies):
		return nil, rest.FieldError("policies", "out_of_range", fmt.Sprintf("must be at most %d; delete one first", maxNamed))
	case err != nil:
		return nil, fmt.Errorf("create policy: %w", err)
	}
	v.Warnings = warnings
	return &rest.Created[view.NamedPolicy]{Location: listPath + "/" + p.Name, Body: v}, nil
}

// check checks what create and change have in common. The operator's bounds hold: what
// is beyond them nobody could use.
func (b *Book) check(bad *rest.Invalid, p *hook.NamedPolicy, stored bool) (warnings []string, err error) {
	bad.CheckText("description", p.Description, rest.MaxDescription)
	if start := policy.StartOf(p.Policy); start != "" && !isPreset(start) && hook.ValidPolicyName(start) {
		bad.AddAs("invalid_policy", "policy.preset", "must be the name of a preset: a named policy does not start from another one")
	} else {
		limits := b.cfg.Limits
		if stored {
			limits = nil
		}
		r, err := policy.Resolve(limits, policy.Level{Name: policy.LevelEndpoint, JSON: p.Policy})
		if wrong, ok := errors.AsType[*hook.Invalid](err); ok {
			bad.Take(wrong)
		} else if err != nil {
			return nil, fmt.Errorf("resolve policy: %w", err)
		} else {
			warnings = r.Warnings
		}
	}
	return warnings, bad.Err()
}

func isPreset(name string) bool {
	return slices.ContainsFunc(policy.Presets(), func(p policy.PresetInfo) bool { return p.Name == name })
}

func (b *Book) patch(ctx context.Context, c *rest.Call, in *policyPatch) (*rest.Versioned[view.NamedPolicy], error) {
	return rest.Update(in.IfMatch, func() (*rest.Versioned[view.NamedPolicy], error) {
		before, err := b.read(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		if err := in.Check(before.Version); err != nil {
			return nil, err
		}
		return b.store(ctx, c, before, in)
	})
}

// store applies the patch to before, stores the result and tells all who use it.
func (b *Book) store(ctx context.Context, c *rest.Call, before hook.NamedPolicy, in *policyPatch) (*rest.Versioned[view.NamedPolicy], error) {
	bad := &rest.Invalid{}
	p := before
	in.Body.Description.Apply(&p.Description)
	if in.Body.Policy.Set {
		p.Policy = patched(bad, p.Policy, in.Body.Policy)
	}
	p.UpdatedAt = c.Now
	warnings, err := b.check(bad, &p, !in.Body.Policy.Set)
	if err != nil {
		return nil, err
	}
	if in.Body.Policy.Set {
		if err := b.checkUsers(ctx, &p); err != nil {
			return nil, err
		}
	}
	record := b.server.Audit(c, 0, "policy.change", p.Name, diff(b.show(before), b.show(p)))
	stored, tenants, err := b.cfg.Store.UpdatePolicy(ctx, p, record)
	if err != nil {
		return nil, fmt.Errorf("change policy: %w", err)
	}
	for _, t := range tenants {
		b.cfg.Changed(t)
	}
	return b.versioned(stored, warnings), nil
}

// checkUsers refuses a policy under which one of its users could not be resolved: its
// lane would have no policy to go by.
func (b *Book) checkUsers(ctx context.Context, p *hook.NamedPolicy) error {
	tenants, endpoints, err := b.cfg.Store.PolicyUsers(ctx, p.Name)
	if err != nil {
		return fmt.Errorf("read users of policy: %w", err)
	}
	bad := &rest.Invalid{}
	check := func(users []store.PolicyUser, what string, prefix hook.Prefix) error {
		for _, u := range users {
			if bad.Full() {
				return nil
			}
			for _, l := range []*hook.PolicyLevel{&u.Tenant, &u.Endpoint} {
				if l.Name == p.Name {
					l.Named = p.Policy
				}
			}
			_, err := b.Resolve(u.Tenant, u.Endpoint)
			if refused, ok := errors.AsType[*hook.Invalid](err); ok {
				bad.AddAs("invalid_policy", "policy", fmt.Sprintf("does not fit %s %s: %s", what, prefix.Format(u.ID), refused))
			} else if err != nil {
				return fmt.Errorf("resolve policy: %w", err)
			}
		}
		return nil
	}
	if err := check(tenants, "tenant", hook.TenantPrefix); err != nil {
		return err
	}
	if err := check(endpoints, "endpoint", hook.EndpointPrefix); err != nil {
		return err
	}
	return bad.Err()
}

func (b *Book) delete(ctx context.Context, c *rest.Call, in *PolicyPath) (*rest.Nothing, error) {
	before, err := b.read(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	p, err := b.cfg.Store.DeletePolicy(ctx, in.Name, b.server.Audit(c, 0, "policy.delete", in.Name, diff(b.show(before), nil)))
	switch {
	case errors.Is(err, hook.ErrStateConflict):
		return nil, rest.Conflict("used", fmt.Sprintf("the policy is used by %s and %s; give them another one first",
			counted(p.Endpoints, "endpoint"), counted(p.Tenants, "tenant")))
	case err != nil:
		return nil, fmt.Errorf("delete policy: %w", err)
	}
	return &rest.Nothing{}, nil
}

func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// diff compares two policies for the audit log: what people wrote, not what follows
// from it.
func diff(before, after any) map[string]any {
	return rest.Diff(before, after, map[string]bool{"version": true, "updated_at": true, "ladder": true, "used_by": true})
}
