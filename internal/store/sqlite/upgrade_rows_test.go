package sqlite_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// named is a delivery as an earlier version kept it in the row of its event.
func named(event, delivery, endpoint hook.ID, created, due time.Time, size int) (blob []byte) {
	for _, v := range []int64{int64(delivery - event), int64(endpoint), due.UnixMicro() - created.UnixMicro(), int64(size)} {
		blob = binary.AppendVarint(blob, v)
	}
	return blob
}

// TestUpgradeWritesDeliveriesThatOnlyTheirEventsName: an earlier version that was
// killed left deliveries without a row. Each is there once after the upgrade, with
// what it was accepted with, and can be delivered; those that had a row are as
// they were, and events from before the mark bring nothing back.
func TestUpgradeWritesDeliveriesThatOnlyTheirEventsName(t *testing.T) {
	t.Parallel()
	const (
		tenant   = hook.ID(1 << 40)
		endpoint = tenant + 1 // and the ones after it
		event    = hook.ID(1 << 60)
	)
	created := time.Date(2026, 3, 2, 10, 0, 0, 123_456_000, time.UTC)
	due := created.Add(-time.Second) // one that was asked for a moment ago
	var script strings.Builder
	fmt.Fprintf(&script, "INSERT INTO tenants (id, name, created_at, updated_at) VALUES (%d, 'old', 0, 0);", tenant)
	want := map[hook.ID]hook.Delivery{}
	addEvent := func(id hook.ID, blob []byte) {
		fmt.Fprintf(&script, "INSERT INTO events (id, tenant_id, type, created_at, content_type, payload, targets) VALUES (%d, %d, 'a', %d, '', x'00', x'%x');",
			id, tenant, created.UnixMicro(), blob)
	}
	for i := range hook.ID(200) {
		var blob []byte
		for k := range i%4 + 1 { // size and endpoint take one byte or several
			d := hook.Delivery{
				ID: event + i*1000 + k + 1, TenantID: tenant, EventID: event + i*1000, EndpointID: endpoint + k*k*k*1000,
				DueAt: due, Size: int(i * i * i), Progress: hook.Progress{Run: 1, RunDueAt: due},
			}
			blob = append(blob, named(d.EventID, d.ID, d.EndpointID, created, d.DueAt, d.Size)...)
			want[d.ID] = d
		}
		addEvent(event+i*1000, blob)
	}
	there := want[event+7001]
	there.State, there.DueAt, there.Progress.RunDueAt, there.Size = hook.Dead, created, created, 3
	want[there.ID] = there
	fmt.Fprintf(&script, `INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, state, due_at, run_due_at, size) VALUES (%d, %d, %d, %d, 2, %d, %d, 3);`,
		there.ID, tenant, there.EventID, there.EndpointID, created.UnixMicro(), created.UnixMicro())
	addEvent(event-1, named(event-1, event-1, endpoint, created, due, 1))
	fmt.Fprintf(&script, `UPDATE unwritten SET since = %d; INSERT INTO tenant_usage (tenant_id, node_id, pending, bytes) VALUES (%d, 1, %d, 0);`,
		event, tenant, len(want)-1)

	path := before(t, "row_at_accept", script.String())
	db := open(t, path)
	rows, _, err := db.ListDeliveries(t.Context(), store.DeliveryFilter{Tenant: tenant}, store.Page{Limit: len(want) + 10, ScanLimit: 10_000})
	check(t, err)
	if len(rows) != len(want) {
		t.Errorf("%d deliveries after the upgrade, want %d", len(rows), len(want))
	}
	for i := range rows {
		got, w := &rows[i].Delivery, want[rows[i].ID]
		if got.EventID != w.EventID || got.EndpointID != w.EndpointID || got.State != w.State || got.Size != w.Size ||
			!got.DueAt.Equal(w.DueAt) || got.Progress.Run != 1 || !got.Progress.RunDueAt.Equal(w.Progress.RunDueAt) {
			t.Errorf("delivery %d is %+v, want %+v", rows[i].ID, *got, w)
		}
	}

	l := newLoad(t, db, 0)
	l.now = created
	var endpoints []store.PendingEndpoint
	for shard := range hook.Shards {
		some, err := db.PendingEndpoints(t.Context(), []int{shard})
		check(t, err)
		endpoints = append(endpoints, some...)
	}
	b := &store.Batch{Node: l.node.ID, Now: created}
	for _, e := range endpoints {
		pending, err := db.ReadAhead(t.Context(), e.ID, created, len(want)+1)
		check(t, err)
		for _, d := range pending {
			b.Settles = append(b.Settles, l.success(d))
		}
	}
	check(t, db.Commit(t.Context(), b))
	for _, s := range b.Settles {
		if s.Outcome != store.SettleWritten {
			t.Errorf("the result of delivery %d is %v, want written", s.Delivery.ID, s.Outcome)
		}
	}
	usage, err := db.Usage(t.Context())
	if err != nil || len(b.Settles) != len(want)-1 || usage[tenant].Pending != 0 {
		t.Errorf("%d of %d deliveries were due, %d are pending after their results, %v", len(b.Settles), len(want)-1, usage[tenant].Pending, err)
	}
}
