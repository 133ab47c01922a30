package ingest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// quotaEvery is how often usage and the disk are measured. Between two
// measurements this node's own accepts are counted on top.
const quotaEvery = time.Second

// quota refuses events before the disk is full or one tenant fills it.
type quota struct {
	cfg Config

	diskLow     atomic.Bool // below the reserve
	diskVeryLow atomic.Bool // below half of it

	mu    sync.Mutex
	used  map[hook.ID]store.Usage
	since map[hook.ID]store.Usage // accepted here since used was measured
	open  map[hook.ID]store.Usage // of that, on its way to the store
	// during is the part of since that was on its way when the measurement began, or
	// came during it; nil: none runs. Nobody knows which of it used has already: it
	// counts on top, and what is in both counts twice until the next measurement.
	during map[hook.ID]store.Usage
	rates  map[hook.ID]*rate.Limiter
}

func newQuota(cfg Config) *quota {
	return &quota{
		cfg: cfg, used: make(map[hook.ID]store.Usage), since: make(map[hook.ID]store.Usage), open: make(map[hook.ID]store.Usage),
		rates: make(map[hook.ID]*rate.Limiter),
	}
}

func (q *quota) measure(ctx context.Context) {
	if q.cfg.DiskFree != nil {
		free, err := q.cfg.DiskFree()
		if err != nil {
			q.cfg.Log.Warn("free disk space could not be read", "error", err)
		} else if low := free < q.cfg.DiskReserve; low != q.diskLow.Swap(low) {
			q.cfg.Log.Warn("disk reserve", "reached", low, "free_bytes", free, "reserve_bytes", q.cfg.DiskReserve)
		}
		q.diskVeryLow.Store(err == nil && free < q.cfg.DiskReserve/2)
	}
	q.mu.Lock()
	q.during = maps.Clone(q.open)
	q.mu.Unlock()
	used, err := q.cfg.Store.Usage(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil {
		q.used, q.since = used, q.during
	} else if ctx.Err() == nil {
		q.cfg.Log.Warn("usage of tenants could not be read", "error", err)
	}
	q.during = nil
}

// admit counts an event against its tenant's quotas, or refuses it. What it counts
// is given back to ended.
func (q *quota) admit(v *view, deliveries, size int, now time.Time) (store.Usage, error) {
	if q.diskLow.Load() {
		return store.Usage{}, fmt.Errorf("%w: less than the disk reserve is left", hook.ErrStoreFull)
	}
	if q.cfg.StoreFull != nil {
		if err := q.cfg.StoreFull(); err != nil {
			return store.Usage{}, err
		}
	}
	id := v.tenant.ID
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.limiter(v).AllowN(now, 1) {
		return store.Usage{}, hook.ErrRateLimited
	}
	used, since := q.used[id], q.since[id]
	add := store.Usage{Pending: int64(deliveries), Bytes: int64(deliveries) * int64(size), Stored: store.StoredBy(deliveries, size)}
	if limit := cmp.Or(v.tenant.Limits.MaxPending, q.cfg.TenantMaxPending); limit > 0 && used.Pending+since.Pending+add.Pending > limit {
		return store.Usage{}, fmt.Errorf("%w: at most %d deliveries may be pending", hook.ErrBacklogFull, limit)
	}
	if limit := q.cfg.TenantMaxPendingBytes; limit > 0 && used.Bytes+since.Bytes+add.Bytes > limit {
		return store.Usage{}, fmt.Errorf("%w: at most %d bytes may be pending", hook.ErrBacklogFull, limit)
	}
	if limit := cmp.Or(v.tenant.Limits.MaxStoredBytes, q.cfg.TenantMaxStored); limit > 0 && used.Stored+since.Stored+add.Stored > limit {
		return store.Usage{}, fmt.Errorf("%w: at most %d bytes", hook.ErrTenantFull, limit)
	}
	q.since[id], q.open[id] = since.Plus(add), q.open[id].Plus(add)
	if q.during != nil {
		q.during[id] = q.during[id].Plus(add)
	}
	return add, nil
}

// early refuses an event that its tenant's rate would refuse, without counting it.
func (q *quota) early(v *view, now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.limiter(v); l.Limit() != rate.Inf && l.TokensAt(now) < 1 {
		return hook.ErrRateLimited
	}
	return nil
}

// ended tells that what was counted for a batch is not on its way any more: it was
// stored or refused.
func (q *quota) ended(tenant hook.ID, batch []entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	open := q.open[tenant]
	for i := range batch {
		open = open.Minus(batch[i].counted)
	}
	if q.open[tenant] = open; open == (store.Usage{}) {
		delete(q.open, tenant)
	}
}

// tenantRoom refuses what would add to a tenant that has stored as much as it
// may.
func (q *quota) tenantRoom(t *hook.Tenant) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := cmp.Or(t.Limits.MaxStoredBytes, q.cfg.TenantMaxStored)
	if limit > 0 && q.used[t.ID].Stored+q.since[t.ID].Stored >= limit {
		return fmt.Errorf("%w: at most %d bytes", hook.ErrTenantFull, limit)
	}
	return nil
}

// controlRoom refuses changes of configuration when half of the disk reserve is
// gone: what is left is for the results of what was accepted.
func (q *quota) controlRoom() error {
	if q.diskVeryLow.Load() {
		return fmt.Errorf("%w: less than half of the disk reserve is left", hook.ErrStoreFull)
	}
	return nil
}

// limiter returns the tenant's rate limiter, following changes of its limit.
func (q *quota) limiter(v *view) *rate.Limiter {
	limit := rate.Limit(cmp.Or(v.tenant.Limits.EventsPerSecond, q.cfg.TenantRate))
	if limit <= 0 {
		limit = rate.Inf
	}
	l := q.rates[v.tenant.ID]
	if l == nil || l.Limit() != limit {
		l = rate.NewLimiter(limit, max(1, int(min(limit, 1e6))))
		q.rates[v.tenant.ID] = l
	}
	return l
}
