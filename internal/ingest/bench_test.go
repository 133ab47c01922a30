package ingest_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ingest"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// oneTenant is a store that holds one tenant with one endpoint for everything.
type oneTenant struct{ store.Tenants }

func (oneTenant) TenantByID(_ context.Context, id hook.ID) (hook.Tenant, error) {
	return hook.Tenant{ID: id, ConfigRev: 1}, nil
}

func (oneTenant) EventTypesOf(context.Context, hook.ID) ([]hook.EventType, int64, error) {
	return nil, 1, nil
}

func (oneTenant) AddFilterErrors(context.Context, map[hook.ID]store.FilterFailure) error { return nil }

func (oneTenant) EndpointsOf(_ context.Context, tenant hook.ID) ([]hook.Endpoint, int64, error) {
	return []hook.Endpoint{{ID: 1, TenantID: tenant, Types: []string{"*"}}}, 1, nil
}

// instantWriter stores everything at once, so that only ingest is measured.
type instantWriter struct{}

func (instantWriter) Accept(_ hook.ID, _ store.Load, build func() []*store.Accept) error {
	for _, a := range build() {
		a.Outcome = store.AcceptStored
	}
	return nil
}

// BenchmarkAccept measures everything between the API and the writer for one
// event. Like a request of net/http, it has a context that can be cancelled.
func BenchmarkAccept(b *testing.B) {
	ids, err := hook.NewIDSource(1, 0)
	if err != nil {
		b.Fatal(err)
	}
	in, err := ingest.New(ingest.Config{Store: oneTenant{}, Writer: instantWriter{}, IDs: ids, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	sub := &hook.Submission{Type: "order.paid", Payload: make([]byte, 1024)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := in.Accept(ctx, 7, sub); err != nil {
			b.Fatal(err)
		}
	}
}
