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
	reads map[hook.ID]*reading // under way
}

// reading is a view on its way from the store. Everybody who needs it waits for
// the same one: when a tenant is cold, its publishers come together.
type reading struct {
	done chan struct{} // closed when view or err is there
	view *view
	err  error
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
	r, mine := c.join(tenant)
	if mine {
		r.view, r.err = c.read(ctx, tenant)
		c.keep(tenant, r)
		close(r.done)
	}
	select {
	case <-r.done:
		return r.view, r.err
	case <-ctx.Done():
		return nil, orUnavailable(context.Cause(ctx))
	}
}

// join returns the read of a tenant that is under way, or begins one, which is
// the caller's to do.
func (c *catalog) join(tenant hook.ID) (r *reading, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r = c.reads[tenant]; r != nil {
		return r, false
	}
	r = &reading{done: make(chan struct{})}
	c.reads[tenant] = r
	return r, true
}

// keep ends a read and caches what it brought.
func (c *catalog) keep(tenant hook.ID, r *reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reads[tenant] == r {
		delete(c.reads, tenant)
	}
	if r.err != nil {
		return
	}
	if len(c.views) >= maxViews {
		clear(c.views)
	}
	// Two reads may end in either order; keep the newer view.
	if have := c.views[tenant]; have == nil || have.rev < r.view.rev {
		c.views[tenant] = r.view
	}
}

func (c *catalog) forget(tenant hook.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.views, tenant)
	delete(c.reads, tenant) // it may have begun before what is to be seen
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
