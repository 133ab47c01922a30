package ingest_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ingest"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// rig is an ingest on a real store and writer.
type rig struct {
	t      *testing.T
	db     *sqlite.DB
	ids    *hook.IDSource
	tenant hook.Tenant
	in     *ingest.Ingest
	// committed holds what was handed over, in order.
	committed []*store.Accept
}

// newRig opens a store and starts a writer; tune may change the settings. What
// it starts ends with stop, inside a bubble too.
func newRig(t *testing.T, tune func(*ingest.Config)) (r *rig, stop func()) {
	t.Helper()
	r = &rig{t: t}
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "breakwater.db"), sqlite.Options{})
	r.must(err)
	r.db = db
	r.ids, err = hook.NewIDSource(1, 0)
	r.must(err)
	r.tenant = r.addTenant("default", hook.TenantLimits{})
	log := slog.New(slog.DiscardHandler)
	w, err := store.NewWriter(store.WriterConfig{DB: db, Log: log, Committed: func(b *store.Batch) { r.committed = append(r.committed, b.Accepts...) }})
	r.must(err)
	cfg := ingest.Config{Store: db, Writer: w, IDs: r.ids, Log: log}
	if tune != nil {
		tune(&cfg)
	}
	r.in, err = ingest.New(cfg)
	r.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- w.Run(ctx) }()
	go func() { ended <- r.in.Run(ctx) }()
	return r, func() {
		cancel()
		r.must(<-ended)
		r.must(<-ended)
		r.must(db.Close())
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) now() time.Time { return time.Now().Truncate(time.Microsecond) }

func (r *rig) audit() hook.Audit {
	now := r.now()
	return hook.Audit{ID: r.ids.Next(now), Actor: "test", Action: "test", Subject: "test", At: now}
}

func (r *rig) addTenant(uid string, limits hook.TenantLimits) hook.Tenant {
	r.t.Helper()
	now := r.now()
	t := hook.Tenant{
		ID: r.ids.Next(now), UID: uid, Name: uid, Policy: []byte("{}"), Limits: limits,
		Rev: 1, ConfigRev: 1, CreatedAt: now, UpdatedAt: now,
	}
	r.must(r.db.CreateTenant(context.Background(), t, r.audit()))
	return t
}

func (r *rig) endpoint(policy string, types ...string) hook.Endpoint {
	r.t.Helper()
	return r.endpointOf(r.tenant, policy, types...)
}

func (r *rig) endpointOf(tenant hook.Tenant, policy string, types ...string) hook.Endpoint {
	r.t.Helper()
	now := r.now()
	if policy == "" {
		policy = "{}"
	}
	e := hook.Endpoint{
		ID: r.ids.Next(now), TenantID: tenant.ID, URL: "https://example.test/", Types: types, Policy: []byte(policy),
		Signatures: []hook.Signature{{Scheme: hook.SchemeStandard}}, Rev: 1, CreatedAt: now, UpdatedAt: now,
	}
	r.must(r.db.CreateEndpoint(context.Background(), e, nil, 0, r.audit()))
	return e
}

// accept submits one event to the rig's own tenant.
func (r *rig) accept(s hook.Submission) (hook.Receipt, error) {
	if s.Type == "" {
		s.Type = "order.paid"
	}
	if s.Payload == nil {
		s.Payload = []byte(`{}`)
	}
	return r.in.Accept(context.Background(), r.tenant.ID, &s)
}

// stored reads the deliveries of an event from the store, by endpoint.
func (r *rig) stored(event hook.ID) map[hook.ID]hook.Delivery {
	r.t.Helper()
	rows, _, err := r.db.ListDeliveries(context.Background(), store.DeliveryFilter{Event: event}, store.Page{Limit: 1000})
	r.must(err)
	out := make(map[hook.ID]hook.Delivery, len(rows))
	for _, row := range rows {
		out[row.EndpointID] = row.Delivery
	}
	return out
}
