package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// catalog caches each tenant's endpoints as far as matching needs them.
type catalog struct {
	store   Store
	server  []byte
	timeout time.Duration

	mu    sync.RWMutex
	views map[hook.ID]*view
}

// maxViews bounds the tenants in memory; past it the cache starts anew.
const maxViews = 10000

// view is one tenant's configuration at one revision. It is never changed.
type view struct {
	tenant  hook.Tenant
	rev     int64
	targets []target
	byID    map[hook.ID]*target
}

type target struct {
	id     hook.ID
	types  []string
	policy *policy.Policy
}

func newCatalog(cfg Config) *catalog {
	return &catalog{store: cfg.Store, server: cfg.ServerPolicy, timeout: cfg.ReadTimeout, views: make(map[hook.ID]*view)}
}

// of returns the tenant's view, reading it when it is not in memory.
func (c *catalog) of(ctx context.Context, tenant hook.ID) (*view, error) {
	c.mu.RLock()
	v := c.views[tenant]
	c.mu.RUnlock()
	if v != nil {
		return v, nil
	}
	v, err := c.read(ctx, tenant)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.views) >= maxViews {
		clear(c.views)
	}
	// Two readers may come here in either order; keep the newer view.
	if have := c.views[tenant]; have == nil || have.rev < v.rev {
		c.views[tenant] = v
	}
	return v, nil
}

func (c *catalog) forget(tenant hook.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.views, tenant)
}

// readTries bounds how often a tenant is read again that changes meanwhile.
const readTries = 5

// read reads tenant and endpoints as they were at one moment: limits and policy
// of an older tenant would otherwise stay under the number of a newer revision.
func (c *catalog) read(ctx context.Context, tenant hook.ID) (*view, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for range readTries {
		t, err := c.store.TenantByID(ctx, tenant)
		if err != nil {
			return nil, fmt.Errorf("read tenant: %w", orUnavailable(err))
		}
		endpoints, rev, err := c.store.EndpointsOf(ctx, tenant)
		if err != nil {
			return nil, fmt.Errorf("read endpoints: %w", orUnavailable(err))
		}
		if t.ConfigRev == rev {
			return c.view(t, endpoints), nil
		}
	}
	return nil, fmt.Errorf("%w: the tenant keeps changing", hook.ErrStoreUnavailable)
}

// orUnavailable says of a read that failed that it may be tried again.
func orUnavailable(err error) error {
	if errors.Is(err, hook.ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w: %w", hook.ErrStoreUnavailable, err)
}

func (c *catalog) view(t hook.Tenant, endpoints []hook.Endpoint) *view {
	v := &view{tenant: t, rev: t.ConfigRev, targets: make([]target, len(endpoints)), byID: make(map[hook.ID]*target, len(endpoints))}
	shared := make(map[string]*policy.Policy) // endpoints with the same level share one
	for i := range endpoints {
		e := &endpoints[i]
		p := shared[string(e.Policy)]
		if p == nil {
			p = c.resolve(t, e)
			shared[string(e.Policy)] = p
		}
		v.targets[i] = target{id: e.ID, types: e.Types, policy: p}
		v.byID[e.ID] = &v.targets[i]
	}
	return v
}

// resolve expands an endpoint's policy. One that is not valid any more counts
// as the default here; the dispatcher reports it.
func (c *catalog) resolve(t hook.Tenant, e *hook.Endpoint) *policy.Policy {
	r, err := policy.Resolve(nil,
		policy.Level{Name: "server", JSON: c.server},
		policy.Level{Name: "tenant", JSON: t.Policy},
		policy.Level{Name: "endpoint", JSON: e.Policy})
	if err != nil {
		p := policy.Default()
		return &p
	}
	return &r.Policy
}

// match returns the endpoints that get the event: those that were named, or
// all whose types select it.
func (v *view) match(s *hook.Submission) ([]*target, error) {
	if len(s.Endpoints) == 0 {
		var out []*target
		for i := range v.targets {
			if v.targets[i].selects(s.Type) {
				out = append(out, &v.targets[i])
			}
		}
		return out, nil
	}
	out := make([]*target, 0, len(s.Endpoints))
	for _, id := range s.Endpoints {
		t := v.byID[id]
		if t == nil {
			return nil, fmt.Errorf("%w %s", hook.ErrUnknownTarget, hook.EndpointPrefix.Format(id))
		}
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out, nil
}

func (t *target) selects(eventType string) bool {
	for _, p := range t.types {
		if hook.MatchType(p, eventType) {
			return true
		}
	}
	return false
}
