package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// catalog caches each tenant's endpoints as far as matching needs them.
type catalog struct {
	store   Store
	server  []byte
	timeout time.Duration

	// reads are under way. Everybody who needs a view waits for the same one:
	// when a tenant is cold, its publishers come together.
	reads singleflight.Group

	programs programs

	mu    sync.RWMutex
	views map[hook.ID]*view
	stale map[hook.ID]bool // of each read that is under way: the tenant has changed meanwhile
}

// maxViews bounds the tenants in memory; past it the cache starts anew.
const maxViews = 10000

// view is one tenant's configuration at one revision. It is never changed.
type view struct {
	tenant hook.Tenant
	rev    int64
	byID   map[hook.ID]*target
	index  index
	// filtered: an endpoint has a filter.
	filtered bool
	schemas  map[string]*typeSchema // by event type; nil: none
}

type target struct {
	id     hook.ID
	n      int // its place among the tenant's
	policy *policy.Policy
	traced bool // it is told whose trace an event belongs to
	filter *program
}

func newCatalog(cfg Config) *catalog {
	return &catalog{store: cfg.Store, server: cfg.ServerPolicy, timeout: cfg.ReadTimeout, views: make(map[hook.ID]*view), stale: make(map[hook.ID]bool)}
}

// of returns the tenant's view, reading it when it is not in memory. Of a read
// that began before what the caller may want to see it awaits the end only: so a
// tenant is read once at a time, however often it changes.
func (c *catalog) of(ctx context.Context, tenant hook.ID) (*view, error) {
	for {
		c.mu.RLock()
		v, stale := c.views[tenant], c.stale[tenant]
		c.mu.RUnlock()
		if v != nil {
			return v, nil
		}
		read := c.reads.DoChan(flight(tenant), func() (any, error) { return c.fill(ctx, tenant) })
		select {
		case r := <-read:
			if stale {
				continue
			}
			v, _ = r.Val.(*view)
			return v, r.Err
		case <-ctx.Done():
			return nil, orUnavailable(context.Cause(ctx))
		}
	}
}

// flight names the read of a tenant.
func flight(tenant hook.ID) string { return hook.TenantPrefix.Format(tenant) }

// fill reads a view and caches it, unless the tenant has changed meanwhile.
func (c *catalog) fill(ctx context.Context, tenant hook.ID) (*view, error) {
	c.mu.Lock()
	if v := c.views[tenant]; v != nil { // it came while the caller was on its way here
		c.reads.Forget(flight(tenant))
		c.mu.Unlock()
		return v, nil
	}
	c.stale[tenant] = false
	c.mu.Unlock()
	v, err := c.read(ctx, tenant)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads.Forget(flight(tenant)) // a caller that comes later must not be handed this one
	stale := c.stale[tenant]
	delete(c.stale, tenant)
	if err != nil || stale {
		return v, err
	}
	if len(c.views) >= maxViews {
		clear(c.views)
	}
	c.views[tenant] = v
	return v, nil
}

// forget drops what is known of a tenant.
func (c *catalog) forget(tenant hook.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.views, tenant)
	if _, reading := c.stale[tenant]; reading {
		c.stale[tenant] = true // it may have begun before what is to be seen
	}
}

// outdated drops a view that the store has refused, unless a newer one is there
// already or on its way: of many publishers that hear of the same change, one
// reads it.
func (c *catalog) outdated(v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.views[v.tenant.ID] == v {
		delete(c.views, v.tenant.ID)
	}
}

// isCurrent reports whether the store has the same configuration as a view. When nobody
// can tell it counts as the same.
func (c *catalog) isCurrent(ctx context.Context, v *view) bool {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	rev, err := c.store.ConfigRev(ctx, v.tenant.ID)
	return err != nil || rev == v.rev
}

// readTries bounds how often a tenant is read again that changes meanwhile.
const readTries = 5

// read reads tenant and endpoints as they were at one moment: limits and policy
// of an older tenant would otherwise stay under the number of a newer revision.
// It goes on when the publisher who began it leaves: others wait for it.
func (c *catalog) read(ctx context.Context, tenant hook.ID) (*view, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
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
		types, typesRev, err := c.store.EventTypesOf(ctx, tenant)
		if err != nil {
			return nil, fmt.Errorf("read event types: %w", orUnavailable(err))
		}
		if rev == t.ConfigRev && typesRev == t.ConfigRev {
			return c.view(t, endpoints, types), nil
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

func (c *catalog) view(t hook.Tenant, endpoints []hook.Endpoint, types []hook.EventType) *view {
	v := &view{
		tenant: t, rev: t.ConfigRev, byID: make(map[hook.ID]*target, len(endpoints)),
		index: index{exact: make(map[string][]*target), under: make(map[string][]*target)},
	}
	targets := make([]target, len(endpoints))
	shared := make(map[[2]string]*policy.Policy) // endpoints with the same level share one
	for i := range endpoints {
		e := &endpoints[i]
		level := [2]string{string(e.Policy), e.PolicyName}
		p := shared[level]
		if p == nil {
			p = c.resolve(t, e)
			shared[level] = p
		}
		targets[i] = target{id: e.ID, n: i, policy: p, traced: e.TraceContext == hook.TraceForward, filter: c.programs.of(e.Filter)}
		v.filtered = v.filtered || targets[i].filter != nil
		v.byID[e.ID] = &targets[i]
		v.index.add(&targets[i], e.Types)
	}
	if len(types) > 0 {
		v.schemas = make(map[string]*typeSchema, len(types))
		for i := range types {
			v.schemas[types[i].Type] = newTypeSchema(&types[i])
		}
	}
	return v
}

// resolve expands an endpoint's policy. One that is not valid any more counts
// as the default here; the dispatcher reports it.
func (c *catalog) resolve(t hook.Tenant, e *hook.Endpoint) *policy.Policy {
	r, err := policy.Resolve(nil, policy.Levels(c.server, t.Level(), e.Level())...)
	if err != nil {
		p := policy.Default()
		return &p
	}
	return &r.Policy
}
