package accept_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// instantIngest accepts everything at once and keeps nothing, so that only the
// API is measured.
type instantIngest struct{}

func (instantIngest) Accept(context.Context, hook.ID, *hook.Submission) (hook.Receipt, error) {
	return hook.Receipt{EventID: 1, Deliveries: 1}, nil
}

func (instantIngest) AcceptBatch(_ context.Context, _ hook.ID, subs []hook.Submission) []hook.Result {
	return make([]hook.Result, len(subs))
}

// order1KiB is a payload of 1 KiB with many small members.
var order1KiB = `{"n":"0000000000000042","items":[` +
	strings.TrimSuffix(strings.Repeat(`{"sku":"abcdEFGH0123","count":42,"price":"19.95"},`, 19), ",") + `],"pad":"xxxxxxxxx"}`

// BenchmarkAccept measures everything between net/http and ingest for one
// event of 1 KiB: routing, key, decoding, answer.
func BenchmarkAccept(b *testing.B) {
	s := newServer(b, instantIngest{})
	body := []byte(`{"type":"order.paid","payload":` + order1KiB + `}`)
	for name, extra := range map[string][2]string{"plain": {}, "key": {"Idempotency-Key", "order-1"}} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, eventsPath, nil)
			r.Header.Set("Authorization", "Bearer "+s.key)
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
				s.handler.ServeHTTP(w, r)
				if w.status != http.StatusAccepted {
					b.Fatalf("status %d", w.status)
				}
			}
		})
	}
}

// discard is a ResponseWriter that keeps the status only.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
