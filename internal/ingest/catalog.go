package ingest

import (
	"context"
	"errors"
	"fmt"
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
	reads map[hook.ID]*reading // under way
}

// reading is a view on its way from the store. Everybody who needs it waits for
// the same one: when a tenant is cold, its publishers come together.
type reading struct {
	done chan struct{} // closed when view or err is there
	view *view
	err  error
	old  bool // what has changed meanwhile may not be in it
}

// maxViews bounds the tenants in memory; past it the cache starts anew.
const maxViews = 10000

// view is one tenant's configuration at one revision. It is never changed.
type view struct {
	tenant hook.Tenant
	rev    int64
	byID   map[hook.ID]*target
	index  index
}

type target struct {
	id     hook.ID
	n      int // its place among the tenant's
	policy *policy.Policy
}

func newCatalog(cfg Config) *catalog {
	return &catalog{store: cfg.Store, server: cfg.ServerPolicy, timeout: cfg.ReadTimeout, views: make(map[hook.ID]*view), reads: make(map[hook.ID]*reading)}
}

// of returns the tenant's view, reading it when it is not in memory.
func (c *catalog) of(ctx context.Context, tenant hook.ID) (*view, error) {
	c.mu.RLock()
	v := c.views[tenant]
	c.mu.RUnlock()
	if v != nil {
		return v, nil
	}
	for {
		v, r, mine := c.join(tenant)
		switch {
		case v != nil:
			return v, nil
		case mine:
			r.view, r.err = c.read(ctx, tenant)
			c.keep(tenant, r)
			return r.view, r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, orUnavailable(context.Cause(ctx))
		}
		if r.view != nil || r.err != nil {
			return r.view, r.err
		}
	}
}

// join returns the view if it has come, else the read of it that is under way,
// or a new one, which is the caller's to do. Of a read that began before what the
// caller may want to see it returns the end only: so a tenant is read once at a
// time, however often it changes.
func (c *catalog) join(tenant hook.ID) (v *view, r *reading, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v = c.views[tenant]; v != nil {
		return v, nil, false
	}
	r = c.reads[tenant]
	switch {
	case r == nil:
		r = &reading{done: make(chan struct{})}
		c.reads[tenant] = r
		return nil, r, true
	case r.old:
		return nil, &reading{done: r.done}, false
	default:
		return nil, r, false
	}
}

// keep ends a read and caches what it brought.
func (c *catalog) keep(tenant hook.ID, r *reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reads, tenant)
	close(r.done)
	if r.err != nil || r.old {
		return
	}
	if len(c.views) >= maxViews {
		clear(c.views)
	}
	c.views[tenant] = r.view
}

// forget drops what is known of a tenant.
func (c *catalog) forget(tenant hook.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.views, tenant)
	if r := c.reads[tenant]; r != nil {
		r.old = true // it may have begun before what is to be seen
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
	v := &view{
		tenant: t, rev: t.ConfigRev, byID: make(map[hook.ID]*target, len(endpoints)),
		index: index{exact: make(map[string][]*target), under: make(map[string][]*target)},
	}
	targets := make([]target, len(endpoints))
	shared := make(map[string]*policy.Policy) // endpoints with the same level share one
	for i := range endpoints {
		e := &endpoints[i]
		p := shared[string(e.Policy)]
		if p == nil {
			p = c.resolve(t, e)
			shared[string(e.Policy)] = p
		}
		targets[i] = target{id: e.ID, n: i, policy: p}
		v.byID[e.ID] = &targets[i]
		v.index.add(&targets[i], e.Types)
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
