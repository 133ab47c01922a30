package uitest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/backfill"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
	"github.com/breakwaterhq/breakwater/internal/ui"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// Start is what the clock of a new world says.
var Start = time.Date(2026, 3, 2, 10, 30, 15, 0, time.UTC)

// World is a server that only tests know.
type World struct {
	T     testing.TB
	DB    *sqlite.DB
	API   *api.API
	Vault *vault.Vault
	Site  *site.Site
	Clock *Clock
	Log   *Log

	Admin, AdminRead string
	Acme, Bolt       Tenant // two customers

	ids    *hook.IDSource
	node   hook.Node
	epochs map[int]int64
}

// Tenant is a customer with its keys.
type Tenant struct {
	ID                hook.ID
	Text              string // ten_…
	UID               string
	Write, Read, Send string
}

// Clock stands still unless a test moves it.
type Clock struct {
	mu sync.Mutex
	t  time.Time
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

// Pass moves the clock.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// Log keeps what was logged.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Tune changes what a world is made of before it is made.
type Tune struct {
	API  func(*api.Config)
	Site func(*ui.Config)
}

// New makes a world with all pages.
func New(t testing.TB, tune ...Tune) *World {
	t.Helper()
	w := &World{T: t, Clock: &Clock{t: Start}, Log: &Log{}, epochs: map[int]int64{}}
	file := filepath.Join(t.TempDir(), sqlite.FileName)
	fresh, err := empty()
	w.OK(err)
	w.OK(os.WriteFile(file, fresh, 0o600))
	w.DB, err = sqlite.Open(t.Context(), file, sqlite.Options{})
	w.OK(err)
	t.Cleanup(func() { w.OK(w.DB.Close()) })
	w.ids, err = hook.NewIDSource(1, 0)
	w.OK(err)
	key, err := vault.NewKey(rand.Reader)
	w.OK(err)
	w.Vault, err = vault.Open([]vault.Key{key})
	w.OK(err)
	log := slog.New(slog.NewJSONHandler(w.Log, nil))
	missing, err := backfill.New(backfill.Config{Store: w.DB})
	w.OK(err)
	back := api.Config{
		Store: w.DB, Missing: missing, Ingest: &ingest{w: w}, Notifier: nobody{}, URLs: urls{}, Health: health{}, Vault: w.Vault, IDs: w.ids,
		Version: "1.2.3", Now: w.Clock.Now, Log: log,
		Settings:    []view.Setting{{Key: "retention.data", Value: "30d", Origin: "default"}, {Key: "smtp.password", Value: "***", Origin: "env"}},
		Retention:   30 * 24 * time.Hour,
		ReadTimeout: time.Minute, // no test is about it, and the machine may be busy
	}
	front := ui.Config{Vault: w.Vault, Logouts: w.DB, Version: "1.2.3", Node: "n1", Log: log, Now: w.Clock.Now}
	for _, change := range tune {
		if change.API != nil {
			change.API(&back)
		}
		if change.Site != nil {
			change.Site(&front)
		}
	}
	w.API, err = api.New(back)
	w.OK(err)
	front.API = w.API.Handler()
	w.Site, err = ui.New(front)
	w.OK(err)
	t.Cleanup(w.Site.Stop)
	w.populate()
	return w
}

// empty is a store in which there is nothing. To make one takes most of the time of a
// new world, so it is made once and copied.
var empty = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "uitest-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, sqlite.FileName)
	db, err := sqlite.Open(context.Background(), file, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

func (w *World) populate() {
	w.Admin = w.Key(0, hook.ScopeAdmin)
	w.AdminRead = w.Key(0, hook.ScopeAdminRead)
	w.Acme, w.Bolt = w.Tenant("acme"), w.Tenant("bolt")
	var err error
	w.node, err = w.DB.Join(w.T.Context(), hook.Node{Name: "n1", Version: "1.2.3", StartedAt: w.Clock.Now()}, w.ID(), time.Minute)
	w.OK(err)
	all := make([]int, hook.Shards)
	for i := range all {
		all[i] = i
	}
	held, err := w.DB.TakeShards(w.T.Context(), w.node.ID, all, true, time.Minute)
	w.OK(err)
	for _, h := range held {
		w.epochs[h.Shard] = h.Epoch
	}
}

// OK fails the test if err is something.
func (w *World) OK(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// ID draws an id.
func (w *World) ID() hook.ID { return w.ids.Next(w.Clock.Now()) }

// Node is the node that owns all shards.
func (w *World) Node() hook.Node { return w.node }

// Fence names the owner of a shard.
func (w *World) Fence(shard int) store.Fence {
	return store.Fence{Node: w.node.ID, Held: store.Held{Shard: shard, Epoch: w.epochs[shard]}}
}

func (w *World) record() hook.Audit {
	return hook.Audit{ID: w.ID(), Actor: "test", Action: "test", Subject: "test", Diff: json.RawMessage("{}"), At: w.Clock.Now()}
}

// Tenant makes a tenant and its keys.
func (w *World) Tenant(uid string) Tenant {
	w.T.Helper()
	now := w.Clock.Now()
	t := hook.Tenant{ID: w.ID(), UID: uid, Name: uid, Policy: json.RawMessage("{}"), Rev: 1, ConfigRev: 1, CreatedAt: now, UpdatedAt: now}
	w.OK(w.DB.CreateTenant(w.T.Context(), t, w.record()))
	return Tenant{
		ID: t.ID, Text: hook.TenantPrefix.Format(t.ID), UID: uid,
		Write: w.Key(t.ID, hook.ScopeTenantWrite), Read: w.Key(t.ID, hook.ScopeTenantRead), Send: w.Key(t.ID, hook.ScopeTenantSend),
	}
}

// Key makes an API key, named as its scope, and returns its text.
func (w *World) Key(tenant hook.ID, scope hook.Scope) string {
	w.T.Helper()
	text, prefix, hash := rest.NewKey(rand.Reader)
	w.OK(w.DB.CreateKey(w.T.Context(), hook.APIKey{
		ID: w.ID(), TenantID: tenant, Name: scope.String(), Prefix: prefix, Hash: hash, Scope: scope, CreatedAt: w.Clock.Now(),
	}, w.record()))
	return text
}

// Call asks the API with a key and fails unless it answers with the status. body is
// sent as JSON; out, unless nil, gets the answer.
func (w *World) Call(status int, method, path, key string, body, out any) {
	w.T.Helper()
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		w.OK(err)
		in = bytes.NewReader(raw)
	}
	answer := w.ask(status, method, path, key, in)
	if out != nil {
		w.OK(json.Unmarshal(answer, out))
	}
}

// Text reads what the API does not answer as JSON.
func (w *World) Text(path, key string) string {
	w.T.Helper()
	return string(w.ask(http.StatusOK, http.MethodGet, path, key, nil))
}

func (w *World) ask(status int, method, path, key string, body io.Reader) []byte {
	w.T.Helper()
	r := httptest.NewRequestWithContext(w.T.Context(), method, path, body)
	r.Header.Set("Authorization", "Bearer "+key)
	rec := httptest.NewRecorder()
	w.API.Handler().ServeHTTP(rec, r)
	if rec.Code != status {
		w.T.Fatalf("%s %s = %d %s, want %d", method, path, rec.Code, rec.Body, status)
	}
	return rec.Body.Bytes()
}

// Endpoint makes an endpoint of a tenant and returns its id.
func (w *World) Endpoint(t Tenant, body map[string]any) string {
	w.T.Helper()
	if body == nil {
		body = map[string]any{}
	}
	if body["url"] == nil {
		body["url"] = "https://hooks.example.com/in"
	}
	var made struct{ ID string }
	w.Call(http.StatusCreated, http.MethodPost, "/v1/tenants/"+t.Text+"/endpoints", t.Write, body, &made)
	return made.ID
}

// Event publishes an event and returns its id.
func (w *World) Event(t Tenant, kind string, payload any) string {
	w.T.Helper()
	var made struct{ ID string }
	w.Call(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+t.Text+"/events", t.Send, map[string]any{"type": kind, "payload": payload}, &made)
	return made.ID
}

// ingest commits what it gets as package ingest would, without grouping.
type ingest struct{ w *World }

// Accept implements accept.Ingest.
func (f *ingest) Accept(ctx context.Context, tenant hook.ID, s *hook.Submission) (hook.Receipt, error) {
	endpoints, rev, err := f.w.DB.EndpointsOf(ctx, tenant)
	if err != nil {
		return hook.Receipt{}, err
	}
	now := f.w.Clock.Now()
	acc := &store.Accept{
		Event:     hook.Event{ID: f.w.ID(), TenantID: tenant, Type: s.Type, CreatedAt: now, ContentType: s.ContentType, Payload: s.Payload},
		ConfigRev: rev, Key: s.Key, KeyHash: s.ContentHash, KeyExpires: now.Add(24 * time.Hour),
	}
	for _, e := range endpoints {
		for _, pattern := range e.Types {
			if hook.MatchType(pattern, s.Type) {
				acc.Deliveries = append(acc.Deliveries, hook.Delivery{
					ID: f.w.ID(), TenantID: tenant, EventID: acc.Event.ID, EndpointID: e.ID, DueAt: now, Size: len(s.Payload),
					Progress: hook.Progress{Run: 1, RunDueAt: now},
				})
				break
			}
		}
	}
	if err := f.w.DB.Commit(ctx, &store.Batch{Node: f.w.node.ID, Now: now, Accepts: []*store.Accept{acc}}); err != nil {
		return hook.Receipt{}, err
	}
	if acc.Outcome != store.AcceptStored {
		return hook.Receipt{}, fmt.Errorf("not stored: %v", acc.Outcome)
	}
	return hook.Receipt{EventID: acc.EventID, Deliveries: acc.Count}, nil
}

// AcceptBatch implements accept.Ingest.
func (f *ingest) AcceptBatch(ctx context.Context, tenant hook.ID, subs []hook.Submission) []hook.Result {
	out := make([]hook.Result, len(subs))
	for i := range subs {
		out[i].Receipt, out[i].Err = f.Accept(ctx, tenant, &subs[i])
	}
	return out
}

// nobody hears of changes.
type nobody struct{}

func (nobody) EndpointChanged(_, _ hook.ID) {}
func (nobody) TenantChanged(hook.ID)        {}
func (nobody) DeliveryChanged(_, _ hook.ID) {}

// urls takes https, but for the addresses of metadata services.
type urls struct{}

func (urls) CheckURL(raw string) (string, error) {
	if !strings.HasPrefix(raw, "https://") || strings.Contains(raw, "169.254.") {
		return "", errors.New("url address is not allowed")
	}
	return raw, nil
}

type health struct{}

func (health) Live() error                    { return nil }
func (health) Ready(context.Context) []string { return nil }
func (health) Warnings() []string             { return nil }
