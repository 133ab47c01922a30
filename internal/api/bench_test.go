package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// instantIngest accepts everything at once, so that only the API is measured.
type instantIngest struct{ fakeIngest }

func (*instantIngest) Accept(context.Context, hook.ID, *hook.Submission) (hook.Receipt, error) {
	return hook.Receipt{EventID: 1, Deliveries: 1}, nil
}

// order1KiB is a payload of 1 KiB with many small members.
var order1KiB = `{"n":"0000000000000042","items":[` +
	strings.TrimSuffix(strings.Repeat(`{"sku":"abcdEFGH0123","count":42,"price":"19.95"},`, 19), ",") + `],"pad":"xxxxxxxxx"}`

// BenchmarkAccept measures everything between net/http and ingest for one
// event of 1 KiB: routing, key, decoding, answer.
func BenchmarkAccept(b *testing.B) {
	h, key := acceptor(b)
	body := []byte(`{"type":"order.paid","payload":` + order1KiB + `}`)
	for name, extra := range map[string][2]string{"plain": {}, "key": {"Idempotency-Key", "order-1"}} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/tenants/-/events", nil)
			r.Header.Set("Authorization", "Bearer "+key)
			r.Header.Set("Content-Type", "application/json")
			if extra[0] != "" {
				r.Header.Set(extra[0], extra[1])
			}
			r.ContentLength = int64(len(body))
			in := bytes.NewReader(body)
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				in.Reset(body)
				r.Body = io.NopCloser(in)
				clear(w.header)
				w.status = 0
				h.ServeHTTP(w, r)
				if w.status != http.StatusAccepted {
					b.Fatalf("status %d", w.status)
				}
			}
		})
	}
}

func acceptor(b *testing.B) (h http.Handler, key string) {
	b.Helper()
	db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), sqlite.FileName), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	ids, err := hook.NewIDSource(1, 0)
	if err != nil {
		b.Fatal(err)
	}
	sealing, err := vault.NewKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	v, err := vault.Open([]vault.Key{sealing})
	if err != nil {
		b.Fatal(err)
	}
	a, err := api.New(api.Config{
		Store: db, Ingest: &instantIngest{}, Notifier: &fakeNotifier{}, URLs: fakeURLs{}, Health: &fakeHealth{}, Vault: v, IDs: ids,
		MaxPayload: 1 << 20, MaxBatchBody: 8 << 20, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	tenant := hook.Tenant{ID: ids.Next(now), CreatedAt: now, UpdatedAt: now}
	if err := db.CreateTenant(b.Context(), tenant, hook.Audit{ID: ids.Next(now), At: now}); err != nil {
		b.Fatal(err)
	}
	text, prefix, hash := rest.NewKey(rand.Reader)
	k := hook.APIKey{ID: ids.Next(now), TenantID: tenant.ID, Prefix: prefix, Hash: hash, Scope: hook.ScopeTenantSend, CreatedAt: now}
	if err := db.CreateKey(b.Context(), k, hook.Audit{ID: ids.Next(now), At: now}); err != nil {
		b.Fatal(err)
	}
	return a.Handler(), text
}

// discard is a ResponseWriter that keeps the status only.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
