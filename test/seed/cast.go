package seed

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/sign"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// tenant is a customer of the story.
type tenant struct {
	uid, name string
	id        hook.ID
}

// destination is an endpoint of the story and how it does.
type destination struct {
	tenant, uid, url, about string

	types   []string // of its events; the endpoint takes them by pattern
	pattern string
	rate    float64 // events per second at noon
	took    time.Duration
	policy  string // JSON

	plot plot
	id   hook.ID
	of   *tenant
}

// plot is what happens to a destination.
type plot uint8

const (
	calm plot = iota
	outage
	draining
	throttled
	paused
	rejecting // answers 422 to some
	gone      // was disabled
)

// The moments of the story, counted back from its end.
const (
	outageFor    = 6*time.Minute + 12*time.Second
	drainOutage  = 41 * time.Minute // it began
	drainedSince = 9 * time.Minute  // it ended
	throttleFor  = 3*time.Minute + 20*time.Second
	pausedFor    = 19 * time.Hour
	rejectingFor = 3 * time.Hour
	goneFor      = 11 * time.Hour
	earlyOutage  = 5*time.Hour + 12*time.Minute // of the one that has one now, too
	earlyEnded   = 4*time.Hour + 58*time.Minute
)

func cast() ([]*tenant, []*destination) {
	tenants := []*tenant{
		{uid: "acme", name: "Acme Stores"},
		{uid: "globex", name: "Globex Logistics"},
		{uid: "initech", name: "Initech Payroll"},
		{uid: "hooli", name: "Hooli Box"},
	}
	all := []*destination{
		{tenant: "acme", uid: "orders", url: "https://hooks.acme.example/orders", about: "Order service", pattern: "order.*", types: []string{"order.paid", "order.created", "order.shipped"}, rate: 2.4, took: 42 * time.Millisecond},
		{tenant: "acme", uid: "billing", url: "https://billing.acme.example/webhooks", about: "Billing, owned by finance", pattern: "invoice.*", types: []string{"invoice.created", "invoice.paid", "invoice.voided"}, rate: 8, took: 95 * time.Millisecond, plot: outage},
		{tenant: "acme", uid: "search", url: "https://search.acme.example/index", about: "Search index", pattern: "product.*", types: []string{"product.updated", "product.created"}, rate: 3, took: 120 * time.Millisecond, plot: draining, policy: `{"rate_limit":{"per_second":12,"burst":12}}`},
		{tenant: "acme", uid: "crm", url: "https://crm.acme.example/api/hooks", about: "CRM", pattern: "customer.*", types: []string{"customer.updated", "customer.created"}, rate: 0.9, took: 180 * time.Millisecond, plot: rejecting},
		{tenant: "globex", uid: "shipments", url: "https://api.globex.example/v2/shipments", about: "Shipments", pattern: "shipment.*", types: []string{"shipment.created", "shipment.delivered"}, rate: 2, took: 61 * time.Millisecond},
		{tenant: "globex", uid: "tracking", url: "https://tracking.globex.example/hook", about: "Tracking, rate limited by its vendor", pattern: "scan.*", types: []string{"scan.arrived", "scan.departed"}, rate: 2.2, took: 74 * time.Millisecond, plot: throttled},
		{tenant: "globex", uid: "legacy", url: "https://legacy.globex.example/cgi-bin/notify.pl", about: "Old warehouse, being moved", pattern: "stock.*", types: []string{"stock.adjusted"}, rate: 0.12, took: 640 * time.Millisecond, plot: paused},
		{tenant: "globex", uid: "wms", url: "https://wms.globex.example/events", about: "Warehouse", pattern: "pick.*", types: []string{"pick.started", "pick.done"}, rate: 0.8, took: 35 * time.Millisecond},
		{tenant: "initech", uid: "payroll", url: "https://payroll.initech.example/hooks/runs", about: "Payroll runs", pattern: "payroll.*", types: []string{"payroll.run.started", "payroll.run.done"}, rate: 0.2, took: 310 * time.Millisecond},
		{tenant: "initech", uid: "collect", url: "https://collect.initech.example/v1/ingest", about: "Analytics", pattern: "employee.*", types: []string{"employee.joined", "employee.updated"}, rate: 1.5, took: 22 * time.Millisecond},
		{tenant: "hooli", uid: "box", url: "https://hooks.hooli.example/box", about: "Box", pattern: "file.*", types: []string{"file.uploaded", "file.shared"}, rate: 0.7, took: 88 * time.Millisecond},
		{tenant: "hooli", uid: "nucleus", url: "https://nucleus.hooli.example/in", about: "Nucleus, shut down", pattern: "chat.*", types: []string{"chat.message"}, rate: 0.05, took: 50 * time.Millisecond, plot: gone},
	}
	for _, d := range all {
		for _, t := range tenants {
			if t.uid == d.tenant {
				d.of = t
			}
		}
	}
	return tenants, all
}

// enter writes tenants and endpoints, some weeks ago.
func (w *writer) enter(ctx context.Context, tenants []*tenant, all []*destination) error {
	for i, t := range tenants {
		at := w.ago(time.Duration(60-i*9) * 24 * time.Hour)
		t.id = w.id(at)
		row := hook.Tenant{ID: t.id, UID: t.uid, Name: t.name, Policy: json.RawMessage("{}"), Rev: 1, ConfigRev: 1, CreatedAt: at, UpdatedAt: at}
		if err := w.db.CreateTenant(ctx, row, w.audit(t.id, at, "key ops", "tenant.create", t.uid, nil)); err != nil {
			return fmt.Errorf("tenant %s: %w", t.uid, err)
		}
		w.places.Tenants[t.uid] = hook.TenantPrefix.Format(t.id)
	}
	for i, d := range all {
		if err := w.enterEndpoint(ctx, d, w.ago(time.Duration(30-2*i)*24*time.Hour-time.Duration(i)*time.Hour)); err != nil {
			return fmt.Errorf("endpoint %s: %w", d.uid, err)
		}
	}
	return nil
}

// enterKeys writes the keys of people who look at the story.
func (w *writer) enterKeys(ctx context.Context, tenants []*tenant) error {
	for i, k := range []struct {
		name, title string
		scope       hook.Scope
		of          hook.ID
	}{
		{"ops", "ops", hook.ScopeAdmin, 0},
		{"viewer", "viewer", hook.ScopeAdminRead, 0},
		{"acme", "acme support", hook.ScopeTenantWrite, tenants[0].id},
		{"globex", "globex support", hook.ScopeTenantRead, tenants[1].id},
		{"publish", "shop", hook.ScopeTenantSend, tenants[0].id},
	} {
		text, prefix, hash := rest.NewKey(rand.Reader)
		at := w.ago(time.Duration(40-i) * day)
		row := hook.APIKey{ID: w.id(at), TenantID: k.of, Name: k.title, Prefix: prefix, Hash: hash, Scope: k.scope, CreatedAt: at}
		if err := w.db.CreateKey(ctx, row, w.audit(k.of, at, "key ops", "key.create", hook.KeyPrefix.Format(row.ID), map[string]any{"name": k.title})); err != nil {
			return fmt.Errorf("key %s: %w", k.name, err)
		}
		w.places.Keys[k.name] = text
	}
	return nil
}

func (w *writer) enterEndpoint(ctx context.Context, d *destination, at time.Time) error {
	d.id = w.id(at)
	text := d.policy
	if text == "" {
		text = "{}"
	}
	e := hook.Endpoint{
		ID: d.id, TenantID: d.of.id, UID: d.uid, URL: d.url, Description: d.about, Types: []string{d.pattern}, Policy: json.RawMessage(text),
		Signatures: []hook.Signature{{Scheme: hook.SchemeStandard}}, Metadata: map[string]string{"team": d.of.uid + "-" + d.uid},
		Rev: 1, CreatedAt: at, UpdatedAt: at,
	}
	secret, err := sign.NewSecret(rand.Reader)
	if err != nil {
		return err
	}
	keyID, sealed, err := w.vault.Seal(e.TenantID, e.ID, vault.PurposeSecret, []byte(secret.Reveal()))
	if err != nil {
		return err
	}
	secrets := []hook.Secret{{ID: w.id(at), TenantID: e.TenantID, EndpointID: e.ID, Scheme: secret.Scheme(), KeyID: keyID, Sealed: sealed, CreatedAt: at}}
	shown := hook.EndpointPrefix.Format(d.id)
	if err := w.db.CreateEndpoint(ctx, e, secrets, 0, w.audit(e.TenantID, at, "key deploy", "endpoint.create", shown, map[string]any{"url": d.url})); err != nil {
		return err
	}
	w.places.Endpoints[d.uid] = shown
	switch d.plot {
	case paused:
		e.State, e.StateReason, e.UpdatedAt = hook.Paused, "manual", w.ago(pausedFor)
		_, err = w.db.UpdateEndpoint(ctx, e, w.audit(e.TenantID, e.UpdatedAt, "key ops", "endpoint.pause", shown, map[string]any{"note": "moving to the new warehouse"}))
	case gone:
		e.State, e.StateReason, e.UpdatedAt = hook.Disabled, "gone", w.ago(goneFor)
		_, err = w.db.UpdateEndpoint(ctx, e, w.audit(e.TenantID, e.UpdatedAt, "policy", "endpoint.disable", shown, map[string]any{"status": 410}))
	case calm, outage, draining, throttled, rejecting: // what happens to it is no state of its own
	}
	return err
}
