package storetest

import (
	"encoding/json"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var eventTypeTests = []test{
	{"an event type comes back as it went in", eventTypeRoundTrip},
	{"a type is taken once in its tenant, and there are bounds", eventTypeBounds},
	{"a change of an event type needs the current version", eventTypeUpdate},
	{"every change of an event type moves the tenant's configuration on", eventTypeConfigRev},
	{"event types go with their tenant", eventTypeTenant},
}

var typeLimits = store.TypeLimits{Types: 100, SchemaBytes: 1 << 20}

func (w *world) eventType(ten hook.Tenant, name, schema string) hook.EventType {
	w.t.Helper()
	t := hook.EventType{
		ID: w.id(), TenantID: ten.ID, Type: name, Description: "of “" + name + "”", Schema: json.RawMessage(schema), Version: 1, CreatedAt: w.now, UpdatedAt: w.now,
	}
	if schema == "" {
		t.Schema, t.Example = nil, json.RawMessage(`{"total":"\u0000"}`)
	}
	w.check(w.db.CreateEventType(w.ctx(), t, typeLimits, w.audit(ten.ID, "event_type.create")), "CreateEventType")
	return t
}

func eventTypeRoundTrip(w *world) {
	a, b := w.tenant(), w.tenant()
	paid, made := w.eventType(a, "order.paid", `{"type":"object"}`), w.eventType(a, "order.made", "")
	other := w.eventType(b, "order.paid", `true`)
	got, err := w.db.EventTypeByName(w.ctx(), a.ID, "order.paid")
	w.check(err, "EventTypeByName")
	w.same(got, paid, "event type")
	_, err = w.db.EventTypeByName(w.ctx(), b.ID, "order.made")
	w.wantErr(err, hook.ErrNotFound, "EventTypeByName of another tenant")
	list, err := w.db.ListEventTypes(w.ctx(), a.ID, store.Page{Limit: 1})
	w.check(err, "ListEventTypes")
	w.same(list, []hook.EventType{made}, "newest event type")
	list, err = w.db.ListEventTypes(w.ctx(), a.ID, store.Page{Limit: 5, After: made.ID})
	w.check(err, "ListEventTypes")
	w.same(list, []hook.EventType{paid}, "second page")
	list, err = w.db.ListEventTypes(w.ctx(), 0, store.Page{Limit: 5, Asc: true})
	w.check(err, "ListEventTypes")
	w.same(list, []hook.EventType{paid, made, other}, "event types of all tenants")
	of, rev, err := w.db.EventTypesOf(w.ctx(), a.ID)
	w.check(err, "EventTypesOf")
	w.same(of, []hook.EventType{paid}, "those with a schema")
	w.same(rev, w.configRev(a.ID), "their revision")
	_, _, err = w.db.EventTypesOf(w.ctx(), w.id())
	w.wantErr(err, hook.ErrNotFound, "EventTypesOf without a tenant")
}

func eventTypeBounds(w *world) {
	ten := w.tenant()
	t := w.eventType(ten, "a", `{"a":1}`) // 7 bytes
	create := func(name string, l store.TypeLimits) error {
		t.ID, t.Type, t.Schema = w.id(), name, json.RawMessage(`{}`)
		return w.db.CreateEventType(w.ctx(), t, l, w.audit(ten.ID, "event_type.create"))
	}
	w.wantErr(create("a", typeLimits), hook.ErrUIDTaken, "CreateEventType of a type that is there")
	w.wantErr(create("b", store.TypeLimits{Types: 1, SchemaBytes: 100}), hook.ErrTooManyTypes, "CreateEventType above the bound")
	w.wantErr(create("b", store.TypeLimits{Types: 2, SchemaBytes: 8}), hook.ErrSchemasTooLarge, "CreateEventType above the bound of bytes")
	w.check(create("b", store.TypeLimits{Types: 2, SchemaBytes: 9}), "CreateEventType within the bounds")
	t.Version, t.Schema = 1, json.RawMessage(`{"b":1}`)
	_, err := w.db.UpdateEventType(w.ctx(), t, store.TypeLimits{Types: 2, SchemaBytes: 13}, w.audit(ten.ID, "event_type.change"))
	w.wantErr(err, hook.ErrSchemasTooLarge, "UpdateEventType above the bound of bytes")
	lost := t
	lost.TenantID = w.id()
	w.wantErr(w.db.CreateEventType(w.ctx(), lost, typeLimits, w.audit(0, "event_type.create")), hook.ErrNotFound, "CreateEventType without a tenant")
}

func eventTypeUpdate(w *world) {
	ten := w.tenant()
	t := w.eventType(ten, "order.paid", `{}`)
	w.pass(time.Minute)
	change := t
	change.Description, change.Schema, change.Example, change.UpdatedAt = "", nil, json.RawMessage(`[1]`), w.now
	got, err := w.db.UpdateEventType(w.ctx(), change, typeLimits, w.audit(ten.ID, "event_type.change"))
	w.check(err, "UpdateEventType")
	want := change
	want.Version = 2
	w.same(got, want, "answer of the update")
	_, err = w.db.UpdateEventType(w.ctx(), change, typeLimits, w.audit(ten.ID, "event_type.change"))
	w.wantErr(err, hook.ErrVersionMismatch, "UpdateEventType with the old version")
	w.check(w.db.DeleteEventType(w.ctx(), ten.ID, "order.paid", w.audit(ten.ID, "event_type.delete")), "DeleteEventType")
	w.wantErr(w.db.DeleteEventType(w.ctx(), ten.ID, "order.paid", w.audit(ten.ID, "event_type.delete")), hook.ErrNotFound, "DeleteEventType again")
	_, err = w.db.UpdateEventType(w.ctx(), change, typeLimits, w.audit(ten.ID, "event_type.change"))
	w.wantErr(err, hook.ErrNotFound, "UpdateEventType of a deleted one")
}

func eventTypeConfigRev(w *world) {
	ten := w.tenant()
	rev := w.configRev(ten.ID)
	moved := func(what string) {
		w.t.Helper()
		now := w.configRev(ten.ID)
		if now <= rev {
			w.t.Errorf("%s: ConfigRev stayed at %d", what, now)
		}
		rev = now
	}
	t := w.eventType(ten, "a", `{}`)
	moved("CreateEventType")
	_, err := w.db.UpdateEventType(w.ctx(), t, typeLimits, w.audit(ten.ID, "event_type.change"))
	w.check(err, "UpdateEventType")
	moved("UpdateEventType")
	w.check(w.db.DeleteEventType(w.ctx(), ten.ID, "a", w.audit(ten.ID, "event_type.delete")), "DeleteEventType")
	moved("DeleteEventType")
}

func eventTypeTenant(w *world) {
	ten := w.tenant()
	w.eventType(ten, "a", `{}`)
	w.check(w.db.DeleteTenant(w.ctx(), ten.ID, w.audit(0, "tenant.delete")), "DeleteTenant")
	list, err := w.db.ListEventTypes(w.ctx(), 0, store.Page{Limit: 5})
	w.check(err, "ListEventTypes")
	w.same(len(list), 0, "event types that are left")
}
