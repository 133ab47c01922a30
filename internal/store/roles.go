package store

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Page bounds a list. Lists are ordered by id, newest first unless Asc.
type Page struct {
	Limit     int     // at least 1
	After     hook.ID // the last id of the previous page, 0 for the first page
	Asc       bool
	ScanLimit int // deliveries to look at for a page of them, 0 for what takes some ten milliseconds
}

// Every writing method below stores its audit record in the same transaction.
// Methods that take a tenant treat another tenant's object as hook.ErrNotFound;
// tenant 0 means any tenant.

// Tenants keeps tenants.
type Tenants interface {
	// CreateTenant fails with hook.ErrUIDTaken.
	CreateTenant(ctx context.Context, t hook.Tenant, a hook.Audit) error
	TenantByID(ctx context.Context, id hook.ID) (hook.Tenant, error)
	TenantByUID(ctx context.Context, uid string) (hook.Tenant, error)
	// ListTenants returns tenants whose uid or name contains q.
	ListTenants(ctx context.Context, q string, p Page) ([]hook.Tenant, error)
	// UpdateTenant stores t if the stored Rev is t.Rev, else it fails with
	// hook.ErrVersionMismatch; it returns the tenant with new Rev and ConfigRev.
	UpdateTenant(ctx context.Context, t hook.Tenant, a hook.Audit) (hook.Tenant, error)
	// DeleteTenant fails with hook.ErrTenantNotEmpty while the tenant has
	// endpoints, pending deliveries or keys.
	DeleteTenant(ctx context.Context, id hook.ID, a hook.Audit) error
	// ConfigRev returns the tenant's ConfigRev, the cheapest check of a cache.
	ConfigRev(ctx context.Context, tenant hook.ID) (int64, error)
	// Usage returns what each tenant has pending and stored. Tenants without are
	// left out.
	Usage(ctx context.Context) (map[hook.ID]Usage, error)
}

// Usage is what a tenant uses, over all nodes.
type Usage struct {
	Pending int64 // deliveries
	Bytes   int64 // payloads of pending deliveries, each counted by itself
	Stored  int64 // see StoredBy; never below zero
}

// Plus returns the sum of two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{Pending: u.Pending + v.Pending, Bytes: u.Bytes + v.Bytes, Stored: u.Stored + v.Stored}
}

// Minus returns the difference of two usages.
func (u Usage) Minus(v Usage) Usage {
	return Usage{Pending: u.Pending - v.Pending, Bytes: u.Bytes - v.Bytes, Stored: u.Stored - v.Stored}
}

// What a row takes besides what publishers and destinations filled in, with its
// entries in indexes, about. Both stores count with these numbers when they write
// and when they remove; the statements and migrations that do so spell them out.
const (
	eventWeight    = 256
	deliveryWeight = 512
	attemptWeight  = 256
)

// StoredBy returns what an event with so many deliveries takes until retention
// removes it. Attempts come on top, with what destinations answered.
func StoredBy(deliveries, payload int) int64 {
	return eventWeight + int64(payload) + StoredByDeliveries(deliveries)
}

// StoredByDeliveries returns what so many deliveries take of an event that is stored
// already.
func StoredByDeliveries(n int) int64 { return deliveryWeight * int64(n) }

// StoredByAttempt returns what an attempt takes whose document, error and answer
// have so many bytes.
func StoredByAttempt(filled int) int64 { return attemptWeight + int64(filled) }

// Endpoints keeps endpoints and their secrets. Every change bumps the
// endpoint's Rev and the tenant's ConfigRev.
type Endpoints interface {
	// CreateEndpoint fails with hook.ErrUIDTaken, and with hook.ErrTooManyEndpoints
	// when the tenant has most endpoints already that are not deleted, also when
	// several are created at the same moment. With 0 it may have any number.
	CreateEndpoint(ctx context.Context, e hook.Endpoint, secrets []hook.Secret, most int64, a hook.Audit) error
	EndpointByID(ctx context.Context, tenant, id hook.ID) (hook.Endpoint, error)
	EndpointByUID(ctx context.Context, tenant hook.ID, uid string) (hook.Endpoint, error)
	ListEndpoints(ctx context.Context, tenant hook.ID, p Page) ([]hook.Endpoint, error)
	// EndpointsOf returns all endpoints of a tenant that are not deleted, with
	// the ConfigRev they belong to, read in one snapshot.
	EndpointsOf(ctx context.Context, tenant hook.ID) ([]hook.Endpoint, int64, error)
	// UpdateEndpoint stores e if the stored Rev is e.Rev, else it fails with
	// hook.ErrVersionMismatch.
	UpdateEndpoint(ctx context.Context, e hook.Endpoint, a hook.Audit) (hook.Endpoint, error)
	// DeleteEndpoint marks the endpoint deleted and cancels its pending
	// deliveries in chunks; it returns how many. Running it again continues.
	DeleteEndpoint(ctx context.Context, tenant, id hook.ID, now time.Time, a hook.Audit) (int64, error)
	// AddFilterErrors counts errors of filters, by endpoint. Those of a filter that the
	// endpoint no longer has are dropped; a new filter begins at zero.
	AddFilterErrors(ctx context.Context, all map[hook.ID]FilterFailure) error
	// SecretsOf returns all secrets of an endpoint, newest first.
	SecretsOf(ctx context.Context, endpoint hook.ID) ([]hook.Secret, error)
	// RotateSecret adds s and ends the older secrets of its scheme at
	// previousExpire. It fails with hook.ErrTooManySecrets when more than
	// hook.MaxActiveSecrets would be active at now.
	RotateSecret(ctx context.Context, s hook.Secret, previousExpire, now time.Time, a hook.Audit) error
}

// FilterFailure is how often a filter could not be evaluated.
type FilterFailure struct {
	Filter string
	hook.FilterErrors
}

// Keys keeps API keys.
type Keys interface {
	CreateKey(ctx context.Context, k hook.APIKey, a hook.Audit) error
	// KeyByHash returns a key, revoked and expired ones included.
	KeyByHash(ctx context.Context, hash [32]byte) (hook.APIKey, error)
	// ListKeys lists those of a tenant, of 0 all: the operator's too.
	ListKeys(ctx context.Context, tenant hook.ID, p Page) ([]hook.APIKey, error)
	// RevokeKey fails with hook.ErrLastAdminKey for the last active admin key.
	RevokeKey(ctx context.Context, id hook.ID, now time.Time, a hook.Audit) error
	// CountAdminKeys counts admin keys that are neither revoked nor expired at
	// now.
	CountAdminKeys(ctx context.Context, now time.Time) (int, error)
	// TouchKeys records when keys were last used.
	TouchKeys(ctx context.Context, used map[hook.ID]time.Time) error
}

// EventFilter selects events. Empty fields do not filter.
type EventFilter struct {
	Tenant hook.ID
	Types  []string // patterns
	Since  time.Time
	Until  time.Time
}

// EventSummary is an event in a list: without its payload.
type EventSummary struct {
	Event hook.Event // Payload is nil
	Size  int
}

// EventCounts are the deliveries of an event by state.
type EventCounts struct {
	Total, Pending, Delivered, Dead, Cancelled int
}

// EventLog reads events. LaneReader.Event reads one with its payload.
type EventLog interface {
	ListEvents(ctx context.Context, f EventFilter, p Page) ([]EventSummary, error)
	CountDeliveries(ctx context.Context, tenant, event hook.ID) (EventCounts, error)
	// EventOfKey returns the event that was accepted under an idempotency key.
	EventOfKey(ctx context.Context, tenant hook.ID, key string, now time.Time) (hook.ID, error)
}

// DeliveryFilter selects deliveries. Empty fields do not filter; values of one
// field are alternatives, fields must all match.
type DeliveryFilter struct {
	Tenant    hook.ID
	Endpoints []hook.ID
	Event     hook.ID
	States    []hook.DeliveryState
	Retrying  bool      // pending with attempts > 0
	DueBy     time.Time // pending, and due at this moment or before
	Reasons   []hook.EndReason
	Types     []string // patterns over the event's type
	Since     time.Time
	Until     time.Time
	IDs       []hook.ID
	SettledBy time.Time // pending, or ended at this moment or before
	// EventsUntil keeps deliveries of events that were accepted before a moment. A
	// replay may create deliveries that are much younger than their events.
	EventsUntil time.Time
}

// DeliveryRow is a delivery with its event's type.
type DeliveryRow struct {
	hook.Delivery
	Type string
}

// DeliveryLog reads deliveries and attempts and takes a person's requests.
type DeliveryLog interface {
	// ListDeliveries looks at p.ScanLimit deliveries at most, so that a filter that
	// matches few of very many does not take long. It returns what it found and
	// the After of the next page, 0 at the end: a page with fewer than p.Limit
	// deliveries, or none, is the last one only if next is 0.
	ListDeliveries(ctx context.Context, f DeliveryFilter, p Page) (rows []DeliveryRow, next hook.ID, err error)
	// CountMatching counts up to p.Limit deliveries among the p.ScanLimit that it
	// looks at.
	CountMatching(ctx context.Context, f DeliveryFilter, p Page) (Counted, error)
	DeliveryByID(ctx context.Context, tenant, id hook.ID) (DeliveryRow, error)
	// AttemptsOf returns the attempts of a delivery, oldest first.
	AttemptsOf(ctx context.Context, tenant, delivery hook.ID) ([]hook.Attempt, error)
	// RetryDelivery makes the delivery due at now for one manual send and keeps
	// in Restore what it was before. Asked twice before it is sent, it is sent
	// once; asked while a request of it is under way, once more if that fails.
	// It fails with hook.ErrStateConflict when its endpoint is deleted.
	RetryDelivery(ctx context.Context, tenant, id hook.ID, now time.Time, a hook.Audit) (DeliveryRow, error)
	// CancelDelivery ends a pending delivery; hook.ErrStateConflict otherwise.
	CancelDelivery(ctx context.Context, tenant, id hook.ID, now time.Time, a hook.Audit) (DeliveryRow, error)
}

// Maintenance keeps the store small and ready.
type Maintenance interface {
	// Prune removes one small step of what is older than before: events with
	// all their deliveries and attempts, when none of those is pending or died
	// after deadAfter, idempotency keys and expired secrets past now, and audit
	// records. It returns what it removed; Done means that nothing was left to do.
	Prune(ctx context.Context, p PruneStep) (Pruned, error)
	// Prepare makes the store ready for the coming days (partitions).
	Prepare(ctx context.Context, now time.Time) error
	// ClaimSetting stores value under name in table settings(name, value) unless
	// there is one already, and returns the one that is stored. Nodes of one
	// database use it to agree on what must be equal everywhere.
	ClaimSetting(ctx context.Context, name, value string) (string, error)
	// WriteAudit stores an audit record by itself.
	WriteAudit(ctx context.Context, a hook.Audit) error
}

// PruneStep bounds one step of retention.
type PruneStep struct {
	Now       time.Time
	Before    time.Time // events accepted before this moment may leave
	DeadAfter time.Time // but not when a delivery died after this one
	// AuditBefore is when audit records may leave; zero: never.
	AuditBefore time.Time
	Limit       int // events (or deliveries) per step
}

// Pruned counts what one step removed.
type Pruned struct {
	Events, Deliveries, Attempts, Keys, Audit int64

	Done bool
}
