package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/backfill"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// world is an API over a real store, with the parts beside it faked.
type world struct {
	look     int // deliveries to look at for a page, 0 for the usual
	t        *testing.T
	db       *sqlite.DB
	path     string
	api      *api.API
	handler  http.Handler // the API's, watched
	ids      *hook.IDSource
	clock    *clock
	ingest   *fakeIngest
	notifier *fakeNotifier
	health   *fakeHealth
	logs     *logBuffer

	backups *fakeBackups

	loopback         bool // the listener, for /metrics
	admin, adminRead string
	def              hook.Tenant // uid default
	a, b             side
	node             hook.Node
	epochs           map[int]int64
}

// side is one tenant with its keys.
type side struct {
	tenant            hook.ID
	id                string
	write, read, send string
}

// clock stands still unless a test moves it.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var worldStart = time.Date(2026, 3, 2, 10, 30, 15, 123456000, time.UTC)

// nearsighted is the store as it is, but for how much it looks at.
type nearsighted struct {
	*sqlite.DB
	look *int
}

func (s nearsighted) ListDeliveries(ctx context.Context, f store.DeliveryFilter, p store.Page) ([]store.DeliveryRow, hook.ID, error) {
	p.ScanLimit = *s.look
	return s.DB.ListDeliveries(ctx, f, p)
}

func (s nearsighted) CountMatching(ctx context.Context, f store.DeliveryFilter, p store.Page) (store.Counted, error) {
	p.ScanLimit = *s.look
	return s.DB.CountMatching(ctx, f, p)
}

func (s nearsighted) GroupDead(ctx context.Context, f store.DeliveryFilter, p store.Page) (store.DeadGroups, error) {
	p.ScanLimit = *s.look
	return s.DB.GroupDead(ctx, f, p)
}

// maxEndpoints is what a tenant may have.
const maxEndpoints = 60

func newWorld(t *testing.T, tune ...func(*api.Config)) *world {
	t.Helper()
	return newWorldWith(t, func(cfg *api.Config) {
		for _, set := range tune {
			set(cfg)
		}
	})
}

// newWorldWith changes the configuration of the API before it is made.
func newWorldWith(t *testing.T, change func(*api.Config)) *world {
	t.Helper()
	w := &world{
		t: t, clock: &clock{t: worldStart}, notifier: &fakeNotifier{}, health: &fakeHealth{}, logs: &logBuffer{}, backups: &fakeBackups{text: "a copy"},
		path: filepath.Join(t.TempDir(), sqlite.FileName), epochs: map[int]int64{},
	}
	db, err := sqlite.Open(t.Context(), w.path, sqlite.Options{})
	w.ok(err)
	t.Cleanup(func() { w.ok(db.Close()) })
	w.db = db
	w.ids, err = hook.NewIDSource(1, 0)
	w.ok(err)
	w.ingest = &fakeIngest{w: w}
	key, err := vault.NewKey(rand.Reader)
	w.ok(err)
	v, err := vault.Open([]vault.Key{key})
	w.ok(err)
	missing, err := backfill.New(backfill.Config{Store: db})
	w.ok(err)
	cfg := api.Config{
		Missing: missing,
		Metrics: rest.MetricsAccess{Handler: fakeMetrics{}, Open: func() bool { return w.loopback }, Token: metricsToken},
		Store:   nearsighted{db, &w.look}, Ingest: w.ingest, Notifier: w.notifier, URLs: fakeURLs{}, Health: w.health, Backups: w.backups, Vault: v, IDs: w.ids,
		MaxPayload: 64 << 10, MaxBatchBody: 256 << 10, MaxEndpoints: maxEndpoints, Version: "1.2.3", Now: w.clock.now,
		ReadTimeout: time.Minute, // no test is about it, and the machine may be busy
		Log:         slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	change(&cfg)
	w.api, err = api.New(cfg)
	w.ok(err)
	w.handler = kept(t, w.api.Handler())
	w.populate()
	return w
}

func (w *world) populate() {
	w.admin = w.key(0, hook.ScopeAdmin)
	w.adminRead = w.key(0, hook.ScopeAdminRead)
	w.def = w.tenant(hook.DefaultTenantUID)
	w.a, w.b = w.side("acme"), w.side("bolt")
	var err error
	w.node, err = w.db.Join(w.ctx(), hook.Node{Name: "n1", Version: "1", StartedAt: w.clock.now()}, w.id(), time.Minute)
	w.ok(err)
	all := make([]int, hook.Shards)
	for i := range all {
		all[i] = i
	}
	held, err := w.db.TakeShards(w.ctx(), w.node.ID, all, true, time.Minute)
	w.ok(err)
	for _, h := range held {
		w.epochs[h.Shard] = h.Epoch
	}
}

func (w *world) side(uid string) side {
	t := w.tenant(uid)
	return side{
		tenant: t.ID, id: hook.TenantPrefix.Format(t.ID),
		write: w.key(t.ID, hook.ScopeTenantWrite), read: w.key(t.ID, hook.ScopeTenantRead), send: w.key(t.ID, hook.ScopeTenantSend),
	}
}

func (w *world) ctx() context.Context { return w.t.Context() }
func (w *world) id() hook.ID          { return w.ids.Next(w.clock.now()) }

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) record() hook.Audit {
	return hook.Audit{ID: w.id(), Actor: "test", Action: "test", Subject: "test", Diff: json.RawMessage("{}"), At: w.clock.now()}
}

func (w *world) tenant(uid string) hook.Tenant {
	w.t.Helper()
	t := hook.Tenant{
		ID: w.id(), UID: uid, Name: uid, Policy: json.RawMessage("{}"), Rev: 1, ConfigRev: 1,
		CreatedAt: w.clock.now(), UpdatedAt: w.clock.now(),
	}
	w.ok(w.db.CreateTenant(w.ctx(), t, w.record()))
	return t
}

func (w *world) key(tenant hook.ID, scope hook.Scope) string {
	w.t.Helper()
	text, prefix, hash := rest.NewKey(rand.Reader)
	w.ok(w.db.CreateKey(w.ctx(), hook.APIKey{
		ID: w.id(), TenantID: tenant, Name: scope.String(), Prefix: prefix, Hash: hash, Scope: scope, CreatedAt: w.clock.now(),
	}, w.record()))
	return text
}

// reply is an answer.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request. body is sent as it is when it is a string, as JSON when
// it is anything else. headers come in pairs.
func (w *world) do(method, path, key string, body any, headers ...string) reply {
	w.t.Helper()
	return send(w.t, w.handler, method, path, key, body, headers...)
}

func send(t testing.TB, h http.Handler, method, path, key string, body any, headers ...string) reply {
	t.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		in = bytes.NewReader(raw)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, in)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return reply{rec.Code, rec.Header(), rec.Body.Bytes()}
}

// must sends a request and fails unless it gets the status.
func (w *world) must(status int, method, path, key string, body any, headers ...string) reply {
	w.t.Helper()
	r := w.do(method, path, key, body, headers...)
	if r.status != status {
		w.t.Fatalf("%s %s = %d %s, want %d", method, path, r.status, r.body, status)
	}
	return r
}

// object decodes a JSON object.
func (r reply) object(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatalf("body is not a JSON object: %v\n%s", err, r.body)
	}
	return m
}

// text returns a member that is a string.
func (r reply) text(t testing.TB, name string) string {
	t.Helper()
	s, ok := r.object(t)[name].(string)
	if !ok {
		t.Fatalf("no text %q in %s", name, r.body)
	}
	return s
}

// problem is what tests compare of an error.
type problem struct {
	Type, Title, Detail, Code, Current string
	Status                             int
	RequestID                          string `json:"request_id"`
	Errors                             []struct{ Path, Code, Message string }
}

func (r reply) problem(t testing.TB) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Fatalf("not a problem document: %v\n%s", err, r.body)
	}
	if ct := r.header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type = %q for %s", ct, r.body)
	}
	if p.Type != "urn:breakwater:problem:"+p.Code || p.Status != r.status || p.Title == "" ||
		p.RequestID == "" || p.RequestID != r.header.Get("X-Request-Id") {
		t.Errorf("malformed problem with status %d: %s", r.status, r.body)
	}
	return p
}

func (p problem) paths() []string {
	var out []string
	for _, e := range p.Errors {
		out = append(out, e.Path)
	}
	return out
}

// endpoint makes an endpoint through the API and returns its id.
func (w *world) endpoint(s side, body map[string]any) string {
	w.t.Helper()
	full := map[string]any{"url": "https://example.com/hook"}
	maps.Copy(full, body)
	return w.must(http.StatusCreated, http.MethodPost, "/v1/tenants/"+s.id+"/endpoints", s.write, full).text(w.t, "id")
}

// event hands over an event and returns its id.
func (w *world) event(s side, typ string) string {
	w.t.Helper()
	return w.must(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+s.id+"/events", s.send,
		map[string]any{"type": typ, "payload": map[string]any{"n": 1}}).text(w.t, "id")
}

// deliveries returns the deliveries of a tenant, oldest first.
func (w *world) deliveries(s side) []store.DeliveryRow {
	w.t.Helper()
	rows, _, err := w.db.ListDeliveries(w.ctx(), store.DeliveryFilter{Tenant: s.tenant}, store.Page{Limit: 250, Asc: true})
	w.ok(err)
	return rows
}

// settle ends one attempt of a delivery.
func (w *world) settle(row store.DeliveryRow, state hook.DeliveryState, reason hook.EndReason) {
	w.t.Helper()
	w.settleBy(w.id(), row, state, reason)
}

// settleBy is settle by the attempt of an id.
func (w *world) settleBy(attempt hook.ID, row store.DeliveryRow, state hook.DeliveryState, reason hook.EndReason) {
	w.t.Helper()
	now := w.clock.now()
	d := row.Delivery
	d.State, d.Reason, d.Attempts = state, reason, d.Attempts+1
	if state != hook.Pending {
		d.SettledAt = now
	}
	att := hook.Attempt{
		ID: attempt, TenantID: d.TenantID, DeliveryID: d.ID, EndpointID: d.EndpointID, EventID: d.EventID, NodeID: w.node.ID,
		Number: d.Attempts, Run: d.Progress.Run, Kind: hook.First, Class: hook.Down, Reason: hook.ServerError, Charged: true,
		Status: 500, Latency: 1500 * time.Microsecond, StartedAt: now, Excerpt: []byte("oops"),
		Detail: hook.AttemptDetail{URL: "https://example.com/hook"},
	}
	if state == hook.Delivered {
		att.Class, att.Reason, att.Status = hook.Success, hook.OK, 200
	}
	d.Last = hook.LastResult{AttemptID: att.ID, Class: att.Class, Reason: att.Reason, Status: att.Status, Latency: att.Latency, At: now}
	shard := hook.ShardOf(d.EndpointID)
	s := &store.Settle{Shard: shard, Epoch: w.epochs[shard], Prev: d.Attempts - 1, Delivery: d, Attempt: &att}
	w.ok(w.db.Commit(w.ctx(), &store.Batch{Node: w.node.ID, Now: now, Settles: []*store.Settle{s}}))
	if s.Outcome != store.SettleWritten {
		w.t.Fatalf("settle outcome = %v", s.Outcome)
	}
}

// lastAudit returns the newest audit record.
func (w *world) lastAudit() hook.Audit {
	w.t.Helper()
	rows, _, err := w.db.ListAudit(w.ctx(), store.AuditFilter{}, store.Page{Limit: 1})
	w.ok(err)
	if len(rows) == 0 {
		w.t.Fatal("no audit records")
	}
	return rows[0]
}

// watch returns a function that tells whether anything was committed since it
// was called last: cheaper than two dumps.
func (w *world) watch() func() bool {
	w.t.Helper()
	db, err := sql.Open("sqlite", "file:"+w.path+"?mode=ro")
	w.ok(err)
	w.t.Cleanup(func() { w.ok(db.Close()) })
	db.SetMaxOpenConns(1) // the version is that of a connection
	last := 0
	changed := func() bool {
		w.t.Helper()
		before := last
		w.ok(db.QueryRowContext(w.ctx(), "PRAGMA data_version").Scan(&last))
		return last != before
	}
	changed()
	return changed
}

// dump writes out every table, so that "nothing changed" can be seen.
func (w *world) dump(tables ...string) string {
	w.t.Helper()
	db, err := sql.Open("sqlite", "file:"+w.path+"?mode=ro")
	w.ok(err)
	defer db.Close()
	if len(tables) == 0 {
		tables = []string{
			"tenants", "endpoints", "secrets", "events", "idempotency_keys", "deliveries", "attempts",
			"policies", "api_keys", "audit", "lanes", "tenant_usage", "replays", "lane_watch", "operational_events",
			"alerts", "notices", "alert_channels", "named_policies", "kept_answers",
		}
	}
	var out strings.Builder
	for _, table := range tables {
		fmt.Fprintln(&out, "#", table)
		w.dumpTable(&out, db, table)
	}
	return out.String()
}

func (w *world) dumpTable(out io.Writer, db *sql.DB, table string) {
	w.t.Helper()
	rows, err := db.QueryContext(w.ctx(), "SELECT * FROM "+table+" ORDER BY 1, 2")
	w.ok(err)
	defer rows.Close()
	cols, err := rows.Columns()
	w.ok(err)
	for rows.Next() {
		values := make([]any, len(cols))
		for i := range values {
			values[i] = new(any)
		}
		w.ok(rows.Scan(values...))
		for i := range values {
			fmt.Fprintf(out, "%s=%q ", cols[i], fmt.Sprint(*values[i].(*any)))
		}
		fmt.Fprintln(out)
	}
	w.ok(rows.Err())
}

// fakeIngest commits what it gets as ingest would, without grouping.
type fakeIngest struct {
	w     *world
	mu    sync.Mutex
	fail  error
	panic bool
	got   []hook.Submission
}

func (f *fakeIngest) Accept(ctx context.Context, tenant hook.ID, s *hook.Submission) (hook.Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.panic {
		panic("ingest is broken")
	}
	if f.fail != nil {
		return hook.Receipt{}, f.fail
	}
	f.got = append(f.got, *s)
	endpoints, rev, err := f.w.db.EndpointsOf(ctx, tenant)
	if err != nil {
		return hook.Receipt{}, err
	}
	now := f.w.clock.now()
	acc := &store.Accept{
		Event:     hook.Event{ID: f.w.id(), TenantID: tenant, Type: s.Type, CreatedAt: now, ContentType: s.ContentType, Payload: s.Payload},
		ConfigRev: rev, Key: s.Key, KeyHash: s.ContentHash, KeyExpires: now.Add(24 * time.Hour),
	}
	targets := 0
	for _, e := range endpoints {
		match := slices.ContainsFunc(e.Types, func(p string) bool { return hook.MatchType(p, s.Type) })
		if len(s.Endpoints) > 0 {
			match = slices.Contains(s.Endpoints, e.ID)
		}
		if match {
			targets++
			acc.Deliveries = append(acc.Deliveries, hook.Delivery{
				ID: f.w.id(), TenantID: tenant, EventID: acc.Event.ID, EndpointID: e.ID, DueAt: now, Size: len(s.Payload),
				Progress: hook.Progress{Run: 1, RunDueAt: now},
			})
		}
	}
	if targets < len(s.Endpoints) {
		return hook.Receipt{}, hook.ErrUnknownTarget
	}
	if err := f.w.db.Commit(ctx, &store.Batch{Node: f.w.node.ID, Now: now, Accepts: []*store.Accept{acc}}); err != nil {
		return hook.Receipt{}, err
	}
	switch acc.Outcome {
	case store.AcceptStored, store.AcceptReplayed:
		return hook.Receipt{EventID: acc.EventID, Deliveries: acc.Count, Replayed: acc.Outcome == store.AcceptReplayed}, nil
	case store.AcceptConflict:
		return hook.Receipt{}, hook.ErrKeyReused
	default:
		return hook.Receipt{}, errors.New("stale")
	}
}

func (f *fakeIngest) AcceptBatch(ctx context.Context, tenant hook.ID, subs []hook.Submission) []hook.Result {
	out := make([]hook.Result, len(subs))
	for i := range subs {
		out[i].Receipt, out[i].Err = f.Accept(ctx, tenant, &subs[i])
	}
	return out
}

func (f *fakeIngest) last(t *testing.T) hook.Submission {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.got) == 0 {
		t.Fatal("nothing was handed over")
	}
	return f.got[len(f.got)-1]
}

// fakeNotifier remembers what it was told.
type fakeNotifier struct {
	mu    sync.Mutex
	rings []string
}

func (b *fakeNotifier) ring(s string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rings = append(b.rings, s)
}

func (b *fakeNotifier) EndpointChanged(_, e hook.ID) {
	b.ring("endpoint " + hook.EndpointPrefix.Format(e))
}
func (b *fakeNotifier) TenantChanged(t hook.ID) { b.ring("tenant " + hook.TenantPrefix.Format(t)) }
func (b *fakeNotifier) DeliveryChanged(_, e hook.ID) {
	b.ring("delivery of " + hook.EndpointPrefix.Format(e))
}

func (b *fakeNotifier) heard(s string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.rings, s)
}

func (b *fakeNotifier) times(s string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.rings {
		if r == s {
			n++
		}
	}
	return n
}

type fakeURLs struct{}

func (fakeURLs) CheckURL(raw string) (string, error) {
	if !strings.HasPrefix(raw, "https://") || strings.Contains(raw, "169.254.") {
		return "", errors.New("address is not allowed")
	}
	return raw, nil
}

type fakeHealth struct {
	live  error
	ready []string
	warns []string
}

func (h *fakeHealth) Live() error                    { return h.live }
func (h *fakeHealth) Ready(context.Context) []string { return h.ready }

func prefix(t *testing.T, s string) netip.Prefix {
	t.Helper()
	p, err := netip.ParsePrefix(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
func (h *fakeHealth) Warnings() []string { return h.warns }
