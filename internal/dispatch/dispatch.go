// Package dispatch is the shell around the lanes: it owns shards through
// leases, keeps the due deliveries of their lanes in bounded windows, asks each
// lane when to send, sends, and settles the results.
//
// It decides nothing by itself: when to send is package lane's rule, what an
// answer means is package policy's. Exactly one node owns a lane at a time, so
// there is no claim, no row lock and no lease per delivery.
package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch/lease"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// Store is what the dispatcher reads.
type Store interface {
	store.LaneReader
	store.Leases
	Shared() bool
}

// Settler takes results; store.Writer is one.
type Settler interface {
	Settle(s *store.Settle, save *store.LaneSave)
}

// Sender makes one attempt; egress.Client is one.
type Sender interface {
	Send(ctx context.Context, r *egress.Request) egress.Result
}

// Config configures a Dispatcher. Zero fields mean the defaults given.
type Config struct {
	Store   Store
	Settler Settler
	Sender  Sender
	Vault   *vault.Vault
	IDs     *hook.IDSource
	Node    hook.Node
	Log     *slog.Logger
	// Hints reaches the other nodes; nil when there are none.
	Hints    store.Hints
	Observer Observer
	Tracer   Tracer // nil: nobody traces
	// Disabler turns endpoints off; nil: they stay on whatever they answer.
	Disabler EndpointDisabler
	// ServerPolicy is the server's policy level, JSON; nil means none.
	ServerPolicy []byte

	MaxInFlight   int           // attempts that are not settled, all lanes; 1024
	Window        int           // new deliveries that wait in memory per lane, and three quarters as many that were read; 512
	Crowd         int           // lanes in memory per loop, past which idle ones leave soon; 8192
	PayloadMemory int64         // payload bytes in memory, all lanes; 64 MiB
	DrainTimeout  time.Duration // how long attempts may end by themselves; 35s
	LeaseTTL      time.Duration // 15s
	LeaseRenew    time.Duration // 5s
	Loops         int           // event loops; one per processor, at most 8
	Seed          uint64        // of the jitter; 0: random
}

// Dispatcher runs the lanes of the shards this node owns.
type Dispatcher struct {
	cfg    Config
	loops  []*loop
	slots  slots
	owner  *lease.Owner
	lanes  shardLanes
	loader *loader
	hosts  hosts
	hinter *hinter

	payloadBytes atomic.Int64
	unsaved      atomic.Int64 // checkpoints that are not stored yet
	running      atomic.Bool
	// attempts is the context of every attempt; it ends when the drain timeout
	// has passed.
	attempts       context.Context
	cancelAttempts context.CancelFunc
	work           sync.WaitGroup // attempts, reads and the like
	crew           crew

	loseStore sync.Once
	storeLost chan struct{}
}

// New checks cfg, fills in defaults, and starts nothing.
func New(cfg Config) (*Dispatcher, error) {
	if cfg.Store == nil || cfg.Settler == nil || cfg.Sender == nil || cfg.Vault == nil || cfg.IDs == nil || cfg.Log == nil || cfg.Observer == nil {
		return nil, errors.New("dispatch: Store, Settler, Sender, Vault, IDs, Log and Observer are required")
	}
	cfg.MaxInFlight = cmp.Or(cfg.MaxInFlight, 1024)
	cfg.Window = cmp.Or(cfg.Window, 512)
	cfg.Crowd = cmp.Or(cfg.Crowd, 8192)
	cfg.PayloadMemory = cmp.Or(cfg.PayloadMemory, 64<<20)
	cfg.DrainTimeout = cmp.Or(cfg.DrainTimeout, 35*time.Second)
	cfg.LeaseTTL = cmp.Or(cfg.LeaseTTL, 15*time.Second)
	cfg.LeaseRenew = cmp.Or(cfg.LeaseRenew, 5*time.Second)
	cfg.Loops = cmp.Or(cfg.Loops, min(runtime.GOMAXPROCS(0), 8))
	cfg.Seed = cmp.Or(cfg.Seed, rand.New(rand.NewPCG(uint64(cfg.IDs.Next(time.Now())), uint64(time.Now().UnixNano()))).Uint64())
	d := &Dispatcher{cfg: cfg, storeLost: make(chan struct{})}
	d.lanes.d = d
	d.crew.fly = d.fly
	d.slots.max, d.slots.tenants = cfg.MaxInFlight, make(map[hook.ID]int)
	d.loader = newLoader(cfg)
	d.hosts.all = make(map[string]*host)
	d.hinter = newHinter(cfg)
	d.owner = lease.New(lease.Config{
		Store: cfg.Store, Lanes: &d.lanes, Node: cfg.Node, Log: cfg.Log, TTL: cfg.LeaseTTL, Renew: cfg.LeaseRenew,
	})
	for i := range cfg.Loops {
		d.loops = append(d.loops, newLoop(d, uint64(i)))
	}
	return d, nil
}

// Run owns shards and delivers until ctx ends; then it stops admitting, lets
// attempts end within the drain timeout, waits for their results to be settled
// and gives its shards up. The settler must run longer than the dispatcher.
func (d *Dispatcher) Run(ctx context.Context) error {
	if d.running.Swap(true) {
		return errors.New("dispatch: already running")
	}
	d.attempts, d.cancelAttempts = context.WithCancel(context.WithoutCancel(ctx))
	defer d.cancelAttempts()
	// Everything below outlives ctx until the drain is over.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	for _, l := range d.loops {
		wg.Go(func() { l.run(background) })
	}
	wg.Go(func() { d.hinter.run(background) })
	wg.Go(func() { d.crew.thin(background) })
	if d.cfg.Hints != nil {
		wg.Go(func() { d.listen(background) })
	}
	if db, ok := d.cfg.Store.(store.DeferredInserter); ok {
		wg.Go(func() { d.insertDeferred(background, db) })
	}

	keeping, letGo := context.WithCancel(background)
	defer letGo()
	kept := make(chan error, 1)
	d.lanes.polled, d.lanes.swept = time.Now(), time.Now() // what is older is found at the take-over
	go func() { kept <- d.owner.Run(keeping) }()

	var err error
	select {
	case err = <-kept:
	case <-ctx.Done():
	}
	d.owner.Leave()
	d.drain()
	letGo()
	if err == nil {
		err = <-kept // nothing is taken any more
	}
	if err == nil {
		d.owner.GiveUp(background)
	}
	stop()
	wg.Wait()
	d.crew.close() // no loop is left that sends
	d.cancelAttempts()
	d.owner.Close()
	d.work.Wait()
	return err
}

// Committed takes over what the store has just committed: new deliveries go to
// their lanes, settled attempts give their slots back. It is called by the
// store's writer and never blocks.
func (d *Dispatcher) Committed(b *store.Batch) {
	parts := make([]mail, len(d.loops))
	for _, a := range b.Accepts {
		if a.Outcome != store.AcceptStored {
			continue
		}
		for i := range a.Deliveries {
			dlv := &a.Deliveries[i]
			shard := hook.ShardOf(dlv.EndpointID)
			if !d.owner.Owns(shard) {
				d.hinter.announce(dlv)
				continue
			}
			p := &parts[shard%len(parts)]
			p.arrivals = append(p.arrivals, arrival{delivery: dlv, event: &a.Event})
		}
	}
	for _, s := range b.Settles {
		p := &parts[s.Shard%len(parts)]
		p.settled = append(p.settled, s)
	}
	for _, s := range b.Lanes {
		p := &parts[s.Shard%len(parts)]
		p.saved = append(p.saved, s)
	}
	for i := range parts {
		d.loops[i].deliver(&parts[i])
	}
}

// EndpointChanged makes the owner of the endpoint's lane read it again before it
// sends anything more: its settings or its state have changed, a probe or a reset
// was asked for, or it was deleted.
func (d *Dispatcher) EndpointChanged(endpoint hook.ID) { d.tellAll(store.HintEndpoint, endpoint) }

// DeliveryChanged makes the owner of the endpoint's lane read its deliveries again:
// one was cancelled or asked for by hand.
func (d *Dispatcher) DeliveryChanged(endpoint hook.ID) { d.tellAll(store.HintDelivery, endpoint) }

// TenantChanged makes the owners of the tenant's lanes read their endpoints
// again, because the tenant's policy has changed.
func (d *Dispatcher) TenantChanged(tenant hook.ID) { d.tellAll(store.HintTenant, tenant) }

// DueNow makes the owner of the endpoint's lane look for due deliveries.
func (d *Dispatcher) DueNow(endpoint hook.ID) { d.tellAll(store.HintDue, endpoint) }

func (d *Dispatcher) tellAll(kind store.HintKind, id hook.ID) {
	d.act(kind, id)
	d.hinter.tell(kind, id)
}

// act does on this node what a hint asks for.
func (d *Dispatcher) act(kind store.HintKind, id hook.ID) {
	l := d.loopOf(id)
	switch kind {
	case store.HintDue:
		if d.owner.Owns(hook.ShardOf(id)) {
			l.post(func() { l.lookForWork(id) })
		}
	case store.HintEndpoint:
		l.post(func() { l.reload(id) })
	case store.HintDelivery:
		l.post(func() { l.rowsChanged(id) })
	case store.HintTenant:
		for _, l := range d.loops {
			l.post(func() { l.reloadTenant(id) })
		}
	case store.HintShards:
		d.owner.Nudge()
	case store.HintAnnounced: // announced takes all of them together
	}
}

// Owns reports whether this node owns the shard.
func (d *Dispatcher) Owns(shard int) bool { return d.owner.Owns(shard) }

// Holds returns in which epoch this node owns the shard, if it does.
func (d *Dispatcher) Holds(shard int) (epoch int64, ok bool) { return d.owner.Holds(shard) }

// announced makes lanes of this node read deliveries that another node has
// announced.
func (d *Dispatcher) announced(announced []store.Announced) {
	toLoops(d, announced, func(n store.Announced) hook.ID { return n.Endpoint }, (*loop).announced)
}

// toLoops hands each loop what concerns the lanes that it runs. What concerns
// lanes of other nodes is left out.
func toLoops[T any](d *Dispatcher, all []T, endpoint func(T) hook.ID, take func(*loop, []T)) {
	parts := make([][]T, len(d.loops))
	for _, x := range all {
		if shard := hook.ShardOf(endpoint(x)); d.owner.Owns(shard) {
			i := shard % len(parts)
			parts[i] = append(parts[i], x)
		}
	}
	for i, part := range parts {
		if l := d.loops[i]; len(part) > 0 {
			l.post(func() { take(l, part) })
		}
	}
}

// InFlight returns how many attempts are in flight or not yet settled.
func (d *Dispatcher) InFlight() int { return d.slots.used() }

// Ready returns why the dispatcher cannot work; nothing when it can.
func (d *Dispatcher) Ready() []string { return d.owner.Ready() }

func (d *Dispatcher) loopOf(endpoint hook.ID) *loop {
	return d.loops[hook.ShardOf(endpoint)%len(d.loops)]
}

// listen acts on the hints of other nodes.
func (d *Dispatcher) listen(ctx context.Context) {
	err := d.cfg.Hints.Listen(ctx, func(h store.Hint) {
		d.announced(h.Announced)
		for _, id := range h.IDs {
			d.act(h.Kind, id)
		}
	})
	if err != nil && ctx.Err() == nil {
		d.cfg.Log.Warn("hints of other nodes are not heard; polling goes on", "error", fmt.Errorf("listen: %w", err))
	}
}
