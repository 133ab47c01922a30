package accept_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/accept"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

const (
	eventsPath = "/v1/tenants/-/events"
	batchPath  = eventsPath + "/batch"

	maxPayload   = 64 << 10
	maxBatchBody = 256 << 10
)

var start = time.Date(2026, 3, 2, 10, 30, 15, 123456000, time.UTC)

// server is a server with nothing but the two routes that take events, and one
// key that may use them.
type server struct {
	t         testing.TB
	handler   http.Handler
	key       string
	ingest    *fakeIngest
	log       *bytes.Buffer
	endpoints map[string]hook.ID // by uid
}

// newServer hands events to in instead of a fakeIngest if there is one.
func newServer(t testing.TB, in ...accept.Ingest) *server {
	t.Helper()
	return newTracedServer(t, nil, in...)
}

// newTracedServer is newServer with a tracer.
func newTracedServer(t testing.TB, tracer accept.Tracer, in ...accept.Ingest) *server {
	t.Helper()
	sealing, err := vault.NewKey(rand.Reader)
	ok(t, err)
	v, err := vault.Open([]vault.Key{sealing})
	ok(t, err)
	ids, err := hook.NewIDSource(1, 0)
	ok(t, err)
	text, prefix, hash := rest.NewKey(rand.Reader)
	key := hook.APIKey{ID: 1, TenantID: 2, Prefix: prefix, Hash: hash, Scope: hook.ScopeTenantSend}
	var log bytes.Buffer
	rs, err := rest.New(rest.Config{
		Title: "test", Keys: oneKey{key: key}, Vault: v, IDs: ids, Now: func() time.Time { return start },
		Log:        slog.New(slog.NewTextHandler(&log, nil)),
		FindTenant: func(context.Context, string) (hook.ID, error) { return 0, hook.ErrNotFound },
	})
	ok(t, err)
	s := &server{t: t, handler: rs, key: text, ingest: &fakeIngest{}, log: &log, endpoints: map[string]hook.ID{}}
	accept.AddRoutes(rs, accept.Config{
		Path: "/v1/tenants/{tenant}/events", Ingest: append(in, s.ingest)[0], MaxPayload: maxPayload, MaxBatchBody: maxBatchBody, Tracer: tracer,
		EndpointByUID: func(_ context.Context, _ hook.ID, uid string) (hook.Endpoint, error) {
			if id, known := s.endpoints[uid]; known {
				return hook.Endpoint{ID: id}, nil
			}
			return hook.Endpoint{}, hook.ErrNotFound
		},
	})
	ok(t, rs.Finish(healthy{}, rest.MetricsAccess{}))
	return s
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reply is an answer.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// post sends a body. headers come in pairs.
func (s *server) post(path, body string, headers ...string) reply {
	s.t.Helper()
	return s.postFrom(path, strings.NewReader(body), int64(len(body)), headers...)
}

// postFrom sends what body gives, announced with a length.
func (s *server) postFrom(path string, body io.Reader, length int64, headers ...string) reply {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, path, body)
	r.ContentLength = length
	r.Header.Set("Authorization", "Bearer "+s.key)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	s.handler.ServeHTTP(rec, r)
	return reply{rec.Code, rec.Header(), rec.Body.Bytes()}
}

// accepted sends a body that must be taken, and returns the last event that was
// handed over.
func (s *server) accepted(path, body string, headers ...string) hook.Submission {
	s.t.Helper()
	if r := s.post(path, body, headers...); r.status != http.StatusAccepted {
		s.t.Fatalf("%s = %d %s, want 202", path, r.status, r.body)
	}
	return s.ingest.got[len(s.ingest.got)-1]
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

// problem is what tests compare of an error.
type problem struct {
	Code   string
	Errors []struct{ Path, Code string }
}

func (r reply) problem(t testing.TB) (p problem) {
	t.Helper()
	if err := json.Unmarshal(r.body, &p); err != nil || p.Code == "" {
		t.Fatalf("not a problem document: %v\n%s", err, r.body)
	}
	return p
}

// oneKey is a store that knows one key and nothing else.
type oneKey struct {
	store.Keys
	key hook.APIKey
}

func (s oneKey) KeyByHash(_ context.Context, hash [32]byte) (hook.APIKey, error) {
	if hash != s.key.Hash {
		return hook.APIKey{}, hook.ErrNotFound
	}
	return s.key, nil
}

type healthy struct{}

func (healthy) Live() error                    { return nil }
func (healthy) Ready(context.Context) []string { return nil }
func (healthy) Warnings() []string             { return nil }

// fakeIngest takes every event, unless it is told to fail, and keeps the promise
// of idempotency keys.
type fakeIngest struct {
	fail error
	got  []hook.Submission
	keys map[string]hook.ID // of the events that were taken under a key
}

func (f *fakeIngest) Accept(_ context.Context, _ hook.ID, s *hook.Submission) (hook.Receipt, error) {
	if f.fail != nil {
		return hook.Receipt{}, f.fail
	}
	f.got = append(f.got, *s)
	receipt := hook.Receipt{EventID: hook.ID(len(f.got)), Deliveries: max(1, len(s.Endpoints))}
	if s.Key == "" {
		return receipt, nil
	}
	before, known := f.keys[s.Key]
	switch {
	case known && f.got[before-1].ContentHash != s.ContentHash:
		return hook.Receipt{}, hook.ErrKeyReused
	case known:
		return hook.Receipt{EventID: before, Deliveries: receipt.Deliveries, Replayed: true}, nil
	case f.keys == nil:
		f.keys = map[string]hook.ID{}
	}
	f.keys[s.Key] = receipt.EventID
	return receipt, nil
}

func (f *fakeIngest) AcceptBatch(ctx context.Context, tenant hook.ID, subs []hook.Submission) []hook.Result {
	out := make([]hook.Result, len(subs))
	for i := range subs {
		out[i].Receipt, out[i].Err = f.Accept(ctx, tenant, &subs[i])
	}
	return out
}
