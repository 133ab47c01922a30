package dispatch_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/sign"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// rig is a whole engine in a synctest bubble: the real dispatcher, writer and
// embedded store, around a destination that the test scripts.
type rig struct {
	t      *testing.T
	dir    string
	db     store.DB
	vault  *vault.Vault
	ids    *hook.IDSource
	node   hook.Node
	tenant hook.Tenant
	sink   *sink

	config func(*dispatch.Config)  // changes the dispatcher's settings
	wrap   func(store.DB) store.DB // between writer and store
	writer *store.Writer
	d      *dispatch.Dispatcher
	stops  []func()

	contentType string // of what is published; empty: JSON
	secret      string // of the endpoint that was made last
}

// emptyStore is the file of a store with its schema: copying it saves every rig
// the migrations.
var emptyStore = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "dispatch")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, sqlite.FileName)
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// inMemory returns a folder in memory where there is one with room: nothing here
// is about the disk, and a bubble stands still while it waits for one.
func inMemory(t *testing.T) string {
	t.Helper()
	const shared, room = "/dev/shm", 2 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(shared, &fs); err != nil || float64(fs.Bavail)*float64(fs.Bsize) < room {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(shared, "breakwater-dispatch") //nolint:usetesting // the temporary folder is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// newRig opens a store in a temporary dir and starts an engine on it. Call it
// inside the bubble, and close it there.
func newRig(t *testing.T, answer answer, options ...func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, dir: inMemory(t), sink: &sink{answer: answer}}
	empty, err := emptyStore()
	r.must(err)
	r.must(os.WriteFile(filepath.Join(r.dir, sqlite.FileName), empty, 0o600))
	for _, o := range options {
		o(r)
	}
	key, err := vault.NewKey(rand.Reader)
	r.must(err)
	r.vault, err = vault.Open([]vault.Key{key})
	r.must(err)
	r.open()
	now := r.now()
	r.tenant = hook.Tenant{ID: r.ids.Next(now), UID: "default", Name: "Default", Policy: []byte("{}"), Rev: 1, ConfigRev: 1, CreatedAt: now, UpdatedAt: now}
	r.must(r.db.CreateTenant(r.ctx(), r.tenant, r.audit()))
	r.start()
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) ctx() context.Context { return context.Background() }
func (r *rig) now() time.Time       { return time.Now().Truncate(time.Microsecond) }

func (r *rig) audit() hook.Audit {
	now := r.now()
	return hook.Audit{ID: r.ids.Next(now), Actor: "test", Action: "test", Subject: "test", At: now}
}

func (r *rig) open() {
	r.t.Helper()
	db, err := sqlite.Open(r.ctx(), filepath.Join(r.dir, sqlite.FileName), sqlite.Options{})
	r.must(err)
	r.db = db
	after, err := db.MaxID(r.ctx())
	r.must(err)
	now := r.now()
	r.node, err = db.Join(r.ctx(), hook.Node{Name: "test", StartedAt: now}, hook.IDFloor(now)+1, 15*time.Second)
	r.must(err)
	r.ids, err = hook.NewIDSource(r.node.Slot, after)
	r.must(err)
}

// noHurry is how long a publisher waits for an answer in these tests. The writer
// looks twenty times in that time whether one has waited long enough, also in
// the days of virtual time in which nothing happens.
const noHurry = 20 * time.Hour

// start runs a dispatcher and a writer on the store.
func (r *rig) start() {
	r.t.Helper()
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("BREAKWATER_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	db := r.db
	if r.wrap != nil {
		db = r.wrap(db)
	}
	var err error
	r.writer, err = store.NewWriter(store.WriterConfig{
		DB: db, Node: r.node.ID, Log: log, Patience: noHurry, Committed: func(b *store.Batch) { r.d.Committed(b) },
	})
	r.must(err)
	cfg := dispatch.Config{
		Store: db, Settler: r.writer, Sender: r.sink, Vault: r.vault, IDs: r.ids, Node: r.node, Log: log,
		Observer: unobserved{}, Loops: 2, Seed: 42,
	}
	if r.config != nil {
		r.config(&cfg)
	}
	r.d, err = dispatch.New(cfg)
	r.must(err)
	r.run(r.writer.Run)
	r.run(r.d.Run)
}

func (r *rig) run(fn func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	r.stops = append(r.stops, func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("run: %v", err)
		}
	})
}

// stop ends dispatcher and writer, in this order.
func (r *rig) stop() {
	for _, v := range slices.Backward(r.stops) {
		v()
	}
	r.stops = nil
	r.sink.answering.Wait()
}

// close stops everything.
func (r *rig) close() {
	r.stop()
	r.must(r.db.Close())
}

// restart stops the engine and starts a new one on the same file.
func (r *rig) restart() {
	r.t.Helper()
	r.close()
	r.open()
	r.start()
}

// endpoint makes an endpoint with the given policy level.
func (r *rig) endpoint(policy string) hook.Endpoint {
	r.t.Helper()
	return r.endpointWith(policy, func(*hook.Endpoint) {})
}

// endpointWith is endpoint with a last change before it is stored.
func (r *rig) endpointWith(policy string, change func(*hook.Endpoint)) hook.Endpoint {
	r.t.Helper()
	now := r.now()
	if policy == "" {
		policy = "{}"
	}
	if !json.Valid([]byte(policy)) {
		r.t.Fatalf("policy is not JSON: %s", policy)
	}
	e := hook.Endpoint{
		ID: r.ids.Next(now), TenantID: r.tenant.ID, Types: []string{"*"}, Policy: []byte(policy),
		Signatures: []hook.Signature{{Scheme: hook.SchemeStandard}}, Rev: 1, CreatedAt: now, UpdatedAt: now,
	}
	e.URL = "https://example.test/" + hook.EndpointPrefix.Format(e.ID)
	change(&e)
	secret, err := sign.NewSecret(rand.Reader)
	r.must(err)
	r.secret = secret.Reveal()
	keyID, sealed, err := r.vault.Seal(e.TenantID, e.ID, vault.PurposeSecret, []byte(r.secret))
	r.must(err)
	r.must(r.db.CreateEndpoint(r.ctx(), e, []hook.Secret{{
		ID: r.ids.Next(now), TenantID: e.TenantID, EndpointID: e.ID, Scheme: secret.Scheme(), KeyID: keyID, Sealed: sealed, CreatedAt: now,
	}}, 0, r.audit()))
	return e
}

// publish accepts n events for the endpoint and returns their deliveries.
func (r *rig) publish(e hook.Endpoint, n int) []hook.ID {
	r.t.Helper()
	return r.publishAt(e, n, r.now())
}

func (r *rig) publishAt(e hook.Endpoint, n int, due time.Time) []hook.ID {
	r.t.Helper()
	now := r.now()
	rev, err := r.db.ConfigRev(r.ctx(), r.tenant.ID)
	r.must(err)
	var ids []hook.ID
	for n > 0 {
		batch := min(n, 1000)
		n -= batch
		accepts := make([]*store.Accept, batch)
		for i := range accepts {
			event := hook.Event{ID: r.ids.Next(now), TenantID: r.tenant.ID, Type: "order.paid", CreatedAt: now, ContentType: cmp.Or(r.contentType, "application/json"), Payload: []byte(`{"n":1}`)}
			d := hook.Delivery{
				ID: r.ids.Next(now), TenantID: r.tenant.ID, EventID: event.ID, EndpointID: e.ID, DueAt: due,
				Size: len(event.Payload), Progress: hook.Progress{Run: 1, RunDueAt: due},
			}
			ids = append(ids, d.ID)
			accepts[i] = &store.Accept{Event: event, Deliveries: []hook.Delivery{d}, ConfigRev: rev}
		}
		r.must(r.writer.Accept(r.tenant.ID, store.Load{Rows: 2 * len(accepts)}, func() []*store.Accept { return accepts }))
		for _, a := range accepts {
			if a.Outcome != store.AcceptStored {
				r.t.Fatalf("accept outcome is %d", a.Outcome)
			}
		}
	}
	return ids
}

func (r *rig) delivery(id hook.ID) hook.Delivery {
	r.t.Helper()
	row, err := r.db.DeliveryByID(r.ctx(), 0, id)
	r.must(err)
	return row.Delivery
}

func (r *rig) attempts(id hook.ID) []hook.Attempt {
	r.t.Helper()
	rows, err := r.db.AttemptsOf(r.ctx(), 0, id)
	r.must(err)
	return rows
}

// rows returns all deliveries.
func (r *rig) rows() map[hook.ID]hook.Delivery {
	r.t.Helper()
	out := make(map[hook.ID]hook.Delivery)
	page := store.Page{Limit: 1000}
	for {
		rows, next, err := r.db.ListDeliveries(r.ctx(), store.DeliveryFilter{Tenant: r.tenant.ID}, page)
		r.must(err)
		for _, row := range rows {
			out[row.ID] = row.Delivery
		}
		if page.After = next; next == 0 {
			return out
		}
	}
}

// count returns how many of the deliveries are in each state.
func (r *rig) count(ids []hook.ID) map[hook.DeliveryState]int {
	r.t.Helper()
	rows := r.rows()
	out := make(map[hook.DeliveryState]int)
	for _, id := range ids {
		out[rows[id].State]++
	}
	return out
}

// arrival is a request as the destination saw it.
type arrival struct {
	at       time.Time
	url      string
	delivery hook.ID
	attempt  int
	inFlight int // at this URL, itself included
}

// answer scripts the destination. It may sleep.
type answer func(a arrival) egress.Result

// sink is the scripted destination. It implements dispatch.Sender.
type sink struct {
	answer    answer
	answering sync.WaitGroup

	mu       sync.Mutex
	arrivals []arrival
	last     *egress.Request
	flying   map[string]int
}

func (s *sink) Send(ctx context.Context, req *egress.Request) egress.Result {
	if !mayStart(req) {
		return egress.Result{Reason: hook.Interrupted}
	}
	id, err := hook.DeliveryPrefix.Parse(fieldOf(req, "Breakwater-Delivery"))
	if err != nil {
		return egress.Result{Reason: hook.LocalError, Err: err}
	}
	n, err := strconv.Atoi(fieldOf(req, "Breakwater-Attempt"))
	if err != nil {
		return egress.Result{Reason: hook.LocalError, Err: err}
	}
	began := time.Now()
	s.mu.Lock()
	if s.flying == nil {
		s.flying = make(map[string]int)
	}
	s.flying[req.URL]++
	a := arrival{at: began, url: req.URL, delivery: id, attempt: n, inFlight: s.flying[req.URL]}
	s.arrivals, s.last = append(s.arrivals, a), req
	s.mu.Unlock()

	result := make(chan egress.Result, 1)
	s.answering.Go(func() { result <- s.answer(a) })
	var res egress.Result
	select {
	case res = <-result:
	case <-ctx.Done():
		res = egress.Result{Reason: hook.Interrupted}
	case <-time.After(req.Total):
		res = egress.Result{Reason: hook.Timeout}
	}
	res.Latency = time.Since(began)
	s.mu.Lock()
	s.flying[req.URL]--
	s.mu.Unlock()
	if res.Text == panics {
		panic(panics)
	}
	return res
}

// panics is the text of an answer at which the sender panics.
const panics = "a mistake"

// mayStart asks, as package egress does, whether the request may start.
func mayStart(req *egress.Request) bool { return req.MayStart == nil || req.MayStart() }

// seen returns what has arrived so far.
func (s *sink) seen() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]arrival(nil), s.arrivals...)
}

// latest returns the request that arrived last.
func (s *sink) latest() *egress.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// of returns the arrivals of one delivery.
func (s *sink) of(id hook.ID) []arrival {
	var out []arrival
	for _, a := range s.seen() {
		if a.delivery == id {
			out = append(out, a)
		}
	}
	return out
}

// always answers every request with the same status.
func always(status int) answer {
	return func(arrival) egress.Result { return egress.Result{Status: status} }
}

func fieldOf(req *egress.Request, name string) string {
	for _, f := range req.Header {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// withHeader adds a response header.
func withHeader(res egress.Result, name, value string) egress.Result {
	if res.Header == nil {
		res.Header = make(http.Header)
	}
	res.Header.Set(name, value)
	return res
}

// settings lets a test change the dispatcher's configuration.
func settings(fn func(*dispatch.Config)) func(*rig) { return func(r *rig) { r.config = fn } }

func show(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

// unobserved is an observer that takes no notice.
type unobserved struct{}

func (unobserved) Attempted(dispatch.Attempted) {}
func (unobserved) LaneOpened(dispatch.Opening)  {}
func (unobserved) LaneFound(_, _ hook.ID)       {}
func (unobserved) LaneClosed(_, _ hook.ID)      {}
func (unobserved) LaneLeft(_, _ hook.ID)        {}
func (unobserved) LaneNews(dispatch.LaneNews)   {}
func (unobserved) NodeNews(dispatch.NodeNews)   {}
