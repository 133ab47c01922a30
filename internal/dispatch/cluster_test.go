package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// book keeps leases in memory, in virtual time, for several nodes on one
// embedded store. Owners and epochs are the store's own, so its fence holds.
type book struct {
	mu      sync.Mutex
	nodes   map[hook.ID]signOn
	expires [hook.Shards]time.Time
	owners  [hook.Shards]hook.ID // who took it, or renewed it, last
	// busy shards look owned by somebody else, whatever the store says.
	busy map[int]bool
}

type signOn struct {
	node    hook.Node
	expires time.Time
}

// shared is the store as one node sees it.
type shared struct {
	store.DB
	book *book

	cut       atomic.Bool  // its calls about leases fail
	down      atomic.Bool  // its commits fail
	takeTakes atomic.Int64 // before a take-over
	readTakes atomic.Int64 // before an event is read
	polls     chan hook.ID // what AcceptedSince was asked for, when not nil
}

var errCut = errors.New("network is unreachable")

func (*shared) Shared() bool { return true }

func (s *shared) Commit(ctx context.Context, b *store.Batch) error {
	if s.down.Load() {
		return errCut
	}
	return s.DB.Commit(ctx, b)
}

func (s *shared) Event(ctx context.Context, tenant, id hook.ID) (hook.Event, error) {
	time.Sleep(time.Duration(s.readTakes.Load()))
	return s.DB.Event(context.WithoutCancel(ctx), tenant, id)
}

func (s *shared) AcceptedSince(ctx context.Context, since hook.ID) ([]hook.ID, error) {
	if s.polls != nil {
		s.polls <- since
	}
	return s.DB.AcceptedSince(ctx, since)
}

func (s *shared) Heartbeat(_ context.Context, n hook.Node, ttl time.Duration) ([]hook.Node, error) {
	if s.cut.Load() {
		return nil, errCut
	}
	b := s.book
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nodes[n.ID].node.StartedAt.After(n.StartedAt) {
		return nil, store.ErrSuperseded
	}
	b.nodes[n.ID] = signOn{n, time.Now().Add(ttl)}
	var live []hook.Node
	for _, s := range b.nodes {
		if s.expires.After(time.Now()) {
			live = append(live, s.node)
		}
	}
	slices.SortFunc(live, func(x, y hook.Node) int { return int(x.ID - y.ID) })
	return live, nil
}

func (s *shared) Shards(ctx context.Context, _ time.Duration) ([]store.ShardLease, error) {
	if s.cut.Load() {
		return nil, errCut
	}
	leases, err := s.DB.Shards(ctx, 0)
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	for i := range leases {
		l := &leases[i]
		if s.book.busy[l.Shard] {
			l.Owner, l.Free = 99, false
			continue
		}
		l.Free = l.Owner == 0 || !s.book.expires[l.Shard].After(time.Now())
	}
	return leases, err
}

func (s *shared) TakeShards(ctx context.Context, node hook.ID, shards []int, mine bool, ttl time.Duration) ([]store.Held, error) {
	ctx = context.WithoutCancel(ctx) // once asked, the database does it
	time.Sleep(time.Duration(s.takeTakes.Load()))
	leases, err := s.Shards(ctx, ttl)
	if err != nil {
		return nil, err
	}
	var free []int
	for _, n := range shards {
		if leases[n].Free || mine && leases[n].Owner == node {
			free = append(free, n)
		}
	}
	held, err := s.DB.TakeShards(ctx, node, free, true, ttl)
	s.book.extend(node, held, ttl)
	return held, err
}

func (s *shared) RenewShards(ctx context.Context, node hook.ID, held []store.Held, ttl time.Duration) ([]store.Held, error) {
	if s.cut.Load() {
		return nil, errCut
	}
	still, err := s.DB.RenewShards(ctx, node, held, ttl)
	s.book.extend(node, still, ttl)
	return still, err
}

func (s *shared) ReleaseShards(ctx context.Context, node hook.ID, held []store.Held) error {
	if s.cut.Load() {
		return errCut
	}
	return s.DB.ReleaseShards(ctx, node, held)
}

func (s *shared) Leave(_ context.Context, n hook.Node) error {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	delete(s.book.nodes, n.ID)
	return nil
}

func (b *book) extend(node hook.ID, held []store.Held, ttl time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range held {
		b.expires[h.Shard], b.owners[h.Shard] = time.Now().Add(ttl), node
	}
}

func (b *book) owner(shard int) hook.ID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.owners[shard]
}

func (b *book) end(shard int) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.expires[shard]
}

// peer is one more node beside the rig's own, on the rig's store and sink.
type peer struct {
	db       *shared
	node     hook.Node
	writer   *store.Writer
	d        *dispatch.Dispatcher
	sends    sender
	disabler dispatch.EndpointDisabler
	hints    store.Hints
	config   func(*dispatch.Config)
	halt     [2]func()
	ended    chan error // of the dispatcher
}

// sender tags what a node sends.
type sender struct {
	*sink
	before func(url string)
}

func (s *sender) Send(ctx context.Context, req *egress.Request) egress.Result {
	if s.before != nil && mayStart(req) {
		s.before(req.URL)
	}
	return s.sink.Send(ctx, req)
}

// cluster is a rig without a node of its own.
func newCluster(t *testing.T, answer answer) (*rig, *book) {
	t.Helper()
	r := newRig(t, answer)
	synctest.Wait()
	r.stop() // its own node is alone and would own everything
	return r, &book{nodes: make(map[hook.ID]signOn), busy: make(map[int]bool)}
}

func (r *rig) join(b *book, name string, tune ...func(*peer)) *peer {
	r.t.Helper()
	now := r.now()
	p := &peer{db: &shared{DB: r.db, book: b}, sends: sender{sink: r.sink}, ended: make(chan error, 1)}
	var err error
	p.node, err = r.db.Join(r.ctx(), hook.Node{Name: name, StartedAt: now}, r.ids.Next(now), 15*time.Second)
	r.must(err)
	p.node.StartedAt = now
	for _, fn := range tune {
		fn(p)
	}
	ids, err := hook.NewIDSource(p.node.Slot, 0)
	r.must(err)
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("BREAKWATER_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", name)
	}
	p.writer, err = store.NewWriter(store.WriterConfig{
		DB: p.db, Node: p.node.ID, Log: log, Patience: noHurry, Committed: func(batch *store.Batch) { p.d.Committed(batch) },
	})
	r.must(err)
	cfg := dispatch.Config{
		Store: p.db, Settler: p.writer, Sender: &p.sends, Vault: r.vault, IDs: ids, Node: p.node, Log: log, Loops: 2, Seed: 7,
		Observer: unobserved{}, Disabler: p.disabler, Hints: p.hints,
	}
	if p.config != nil {
		p.config(&cfg)
	}
	p.d, err = dispatch.New(cfg)
	r.must(err)
	p.halt[0] = background(func(ctx context.Context) { p.ended <- p.d.Run(ctx) })
	p.halt[1] = background(func(ctx context.Context) { _ = p.writer.Run(ctx) })
	return p
}

// background runs fn and returns a function that ends it and waits.
func background(fn func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// stop ends the node in order, as a person would.
func (p *peer) stop() {
	p.halt[0]()
	p.halt[1]()
}

// via publishes through a node.
func (r *rig) via(p *peer, e hook.Endpoint, n int) []hook.ID {
	r.t.Helper()
	saved := r.writer
	defer func() { r.writer = saved }()
	r.writer = p.writer
	return r.publish(e, n)
}

// owned counts the shards of a node in the store.
func (r *rig) owned(p *peer) int {
	r.t.Helper()
	leases, err := r.db.Shards(r.ctx(), 0)
	r.must(err)
	n := 0
	for _, l := range leases {
		if l.Owner == p.node.ID {
			n++
		}
	}
	return n
}

// endpointOf makes an endpoint whose shard the node owns.
func (r *rig) endpointOf(p *peer, policy string) hook.Endpoint {
	r.t.Helper()
	for {
		e := r.endpoint(policy)
		leases, err := r.db.Shards(r.ctx(), 0)
		r.must(err)
		if leases[hook.ShardOf(e.ID)].Owner == p.node.ID {
			return e
		}
	}
}
