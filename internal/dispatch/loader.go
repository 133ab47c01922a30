package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// loader turns stored endpoints into destinations. Lanes whose policies are
// written alike share one resolved policy.
type loader struct {
	store  Store
	vault  *vault.Vault
	server []byte
	log    *slog.Logger

	mu       sync.Mutex
	policies map[levels]*policy.Resolved
}

// levels are what a policy is resolved from. What a named policy says belongs to it:
// the same name may say something else tomorrow.
type levels struct{ tenant, tenantNamed, endpoint, endpointNamed string }

// maxPolicies bounds the cache; past it, it starts anew.
const maxPolicies = 4096

func newLoader(cfg Config) *loader {
	return &loader{
		store: cfg.Store, vault: cfg.Vault, server: cfg.ServerPolicy, log: cfg.Log,
		policies: make(map[levels]*policy.Resolved),
	}
}

// loaded is one endpoint as it was read.
type loaded struct {
	dest  *destination
	lane  *lane.Checkpoint
	epoch int64 // under which the lane was saved
}

// load reads endpoints. Those that do not exist are missing in the result.
func (ld *loader) load(ctx context.Context, endpoints []hook.ID, now time.Time) (map[hook.ID]loaded, error) {
	rows, err := ld.store.Destinations(ctx, endpoints)
	if err != nil {
		return nil, fmt.Errorf("read destinations: %w", err)
	}
	out := make(map[hook.ID]loaded, len(rows))
	for i := range rows {
		p, err := ld.resolve(ctx, &rows[i], now)
		if err != nil {
			return nil, err
		}
		out[rows[i].Endpoint.ID] = loaded{dest: newDestination(ld.vault, &rows[i], p, now), lane: rows[i].Lane, epoch: rows[i].LaneEpoch}
	}
	return out, nil
}

// resolve expands the endpoint's policy and makes sure that its expansion is
// stored, since attempts refer to it.
func (ld *loader) resolve(ctx context.Context, d *store.Destination, now time.Time) (*policy.Resolved, error) {
	own := d.Endpoint.Level()
	key := levels{string(d.TenantLevel.JSON), string(d.TenantLevel.Named), string(own.JSON), string(own.Named)}
	ld.mu.Lock()
	p := ld.policies[key]
	ld.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := policy.Resolve(nil, policy.Levels(ld.server, d.TenantLevel, own)...)
	if err != nil {
		// Checked when it was saved, so only a newer or older version of the
		// rules can get here. Deliveries go on under the default.
		ld.log.Error("stored policy is not valid; the default is used", "endpoint", hook.EndpointPrefix.Format(d.Endpoint.ID), "error", err)
		if p, err = policy.Resolve(nil); err != nil {
			return nil, fmt.Errorf("resolve default policy: %w", err)
		}
	}
	if err := ld.store.SavePolicy(ctx, p.Hash, p.JSON, now); err != nil {
		return nil, fmt.Errorf("save policy: %w", err)
	}
	ld.mu.Lock()
	defer ld.mu.Unlock()
	if len(ld.policies) >= maxPolicies {
		clear(ld.policies)
	}
	ld.policies[key] = p
	return p, nil
}

// loadBatch is how many endpoints are read at once.
const loadBatch = 256

// load asks for the endpoint of a lane to be read, together with others that
// ask in the same turn.
func (l *loop) load(r *runner) {
	if r.loading {
		r.again = true
		return
	}
	r.loading = true
	l.toLoad = append(l.toLoad, r)
}

// startLoads groups the lanes that wait for their endpoints into reads.
func (l *loop) startLoads() {
	for batch := range slices.Chunk(l.toLoad, loadBatch) {
		l.loads.add(func(ctx context.Context) func() {
			ids := make([]hook.ID, len(batch))
			for i, r := range batch {
				ids[i] = r.endpoint
			}
			found, err := l.d.loader.load(ctx, ids, time.Now())
			return func() { l.loadEnded(batch, found, err) }
		})
	}
	l.toLoad = nil
	l.loads.start()
}

func (l *loop) loadEnded(batch []*runner, found map[hook.ID]loaded, err error) {
	if err != nil {
		l.d.cfg.Log.Warn("endpoints could not be read; trying again", "endpoints", len(batch), "error", err)
		l.postAfter(readAgain, func() { l.loadAgain(batch) })
		return
	}
	now := time.Now()
	for _, r := range batch {
		r.loading = false
		if r.dropped {
			continue
		}
		if r.again {
			r.again = false
			l.load(r)
		} else {
			r.outdated = false
		}
		got, ok := found[r.endpoint]
		if !ok {
			l.drop(r) // deleted; its deliveries were cancelled with it
			continue
		}
		l.install(now, r, got)
		l.touch(r)
	}
}

func (l *loop) loadAgain(batch []*runner) {
	for _, r := range batch {
		r.loading = false
		if !r.dropped {
			l.load(r)
		}
	}
}

// install gives a lane its endpoint: the first time with the checkpoint of its
// last owner, later only with what has changed. What does not concern the lane,
// a description for one, changes nothing.
func (l *loop) install(now time.Time, r *runner, got loaded) {
	old := r.dest
	r.dest, r.tenant = got.dest, got.dest.tenant
	l.takeSeat(now, r)
	if old == nil {
		l.firstInstall(now, r, got)
		return
	}
	if got.dest.policy.Breaker.MaxHold != old.policy.Breaker.MaxHold {
		r.expireAt = time.Time{}
	}
	r.lane.Configure(now, got.dest.policy.Lane())
	before := r.lane.Checkpoint()
	r.lane.ForgetFailures(got.dest.updatedAt)
	switch held := r.isHeld(got.dest); {
	case held && !r.lane.Paused():
		r.lane.Pause(now)
		l.evictToDisk(r)
	case !held && r.lane.Paused():
		l.resume(now, r)
	case got.dest.url != old.url && r.lane.State() == lane.Closed:
		r.lane.Reset(now) // another server: what was learnt of the old one is void
	}
	if got.dest.resetWantedAt.After(old.resetWantedAt) {
		r.lane.Reset(now)
		r.forgetHost(now)
		l.d.cfg.Observer.LaneClosed(r.tenant, r.endpoint)
	}
	if got.dest.probeWantedAt.After(old.probeWantedAt) {
		r.probeAsked = true
		r.lane.ProbeNow(now)
	}
	if r.lane.Checkpoint() != before {
		l.d.cfg.Settler.Settle(nil, l.checkpoint(r))
	}
}

// resume ends a pause or a disabling. A lane that discards would end at once
// all that was held for it; so it starts closed and finds out.
func (l *loop) resume(now time.Time, r *runner) {
	r.lane.Resume(now)
	if r.discards() {
		r.lane.Reset(now)
		l.d.cfg.Observer.LaneClosed(r.tenant, r.endpoint)
	}
}

func (l *loop) firstInstall(now time.Time, r *runner, got loaded) {
	waiting := r.lane.Drop()
	if got.lane != nil {
		r.lane = lane.Restore(got.dest.policy.Lane(), *got.lane, now, l.rng.Float64(), got.epoch != r.epoch)
		r.lane.ForgetFailures(got.dest.updatedAt)
		r.saved = *got.lane
		l.applyRequests(now, r, got)
		r.joinHost(now, got.epoch != r.epoch)
	} else {
		r.lane = lane.New(got.dest.policy.Lane(), now)
	}
	if got.dest.state != hook.Active {
		r.lane.Pause(now)
	}
	for _, ref := range waiting {
		if ref.Manual {
			r.lane.Manual(now, ref)
		} else {
			r.lane.Arrive(ref)
		}
	}
	if !r.lane.BlockedSince(now).IsZero() {
		l.evictToDisk(r)
	}
	if r.lane.State() != lane.Closed {
		l.d.cfg.Observer.LaneFound(r.tenant, r.endpoint)
	}
}

// applyRequests acts on what was asked of the lane while nobody owned it. A reset
// that was acted on has closed the lane and left nothing that was learnt, a probe
// has moved its last failure.
func (l *loop) applyRequests(now time.Time, r *runner, got loaded) {
	reset, probe := got.dest.resetWantedAt, got.dest.probeWantedAt
	if (got.lane.Open || got.lane.HasLearnt()) && reset.After(got.lane.LatestNews()) {
		r.lane.Reset(now)
		l.d.cfg.Settler.Settle(nil, l.checkpoint(r))
	}
	if probe.After(got.lane.LastBadAt) {
		r.lane.ProbeNow(now)
	}
}

// reload reads the endpoint of a lane again. Until that has ended the lane starts
// nothing: it would do so with settings that are known to be outdated. Its window
// stays as it is, because settings are no reason to read deliveries again.
func (l *loop) reload(endpoint hook.ID) {
	r, had := l.runners[endpoint]
	if !had {
		l.rowsChanged(endpoint)
		return
	}
	r.outdated = true
	l.load(r)
}

// rowsChanged reads the deliveries of a lane again: some may have been cancelled or
// asked for by hand.
func (l *loop) rowsChanged(endpoint hook.ID) {
	r := l.runner(endpoint, 0)
	if r == nil {
		return
	}
	for _, ref := range r.lane.Drop() {
		l.dropPayload(r.win.Evict(ref.ID))
	}
	r.win.RowsChanged(time.Now())
	l.touch(r)
}

func (l *loop) reloadTenant(tenant hook.ID) {
	for _, r := range l.runners {
		if r.tenant == tenant || r.dest == nil { // whose it is may not be known yet
			l.load(r)
		}
	}
}

// refresh reads the endpoints of all lanes again: the safety net under the
// hints of other nodes.
func (l *loop) refresh() {
	for _, r := range l.runners {
		l.load(r)
	}
}
