package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// AttemptWalk is how a list goes through one of the tables that hold attempts.
type AttemptWalk struct {
	Walk      visible.SQL // the table alone
	From      visible.SQL // with what is read beside it
	Condition visible.SQL // that From needs; empty: none
	Document  string      // column of the attempt
	Place     string      // column of the order
	Ended     string      // column with the id of the attempt, or a later one of the delivery
	ByTenant  bool        // an index leads through the rows of a tenant or an endpoint d
}

// storedAttempts are those with rows of their own.
var storedAttempts = AttemptWalk{Walk: "FROM attempts d", From: "FROM attempts d", Place: "d.id", Ended: "d.id"}

const (
	storedColumns = `d.id, d.tenant_id, d.id, d.delivery_id, d.endpoint_id, d.event_id, d.n, d.run, d.kind, d.class, d.reason, d.charged,
  coalesce(d.status, 0), d.latency_us, d.policy_hash, coalesce(d.retry_n, 0), d.ceiling_ms, coalesce(d.u, 0.0), d.delay_ms,
  coalesce(d.delay_source, 0), d.next_due_at, d.node_id, d.started_at, coalesce(d.error, '')`
	firstColumns visible.SQL = `d.id, d.tenant_id, d.endpoint_id, d.event_id, `
)

// ListAttempts implements store.AttemptLog.
func (t *Tables) ListAttempts(ctx context.Context, f store.AttemptFilter, p store.Page) ([]store.AttemptRow, hook.ID, error) {
	stored, err := t.walkAttempts(ctx, &storedAttempts, storedColumns, scanStoredAttempt, &f, p)
	if err != nil {
		return nil, 0, err
	}
	var first store.AttemptPart
	if f.TakesFirst() {
		w := t.dialect.FirstAttempts()
		columns := firstColumns + visible.SQL(w.Place+", "+w.Document)
		if first, err = t.walkAttempts(ctx, &w, columns, scanFirstOf, &f, p); err != nil {
			return nil, 0, err
		}
		first.Rows = slices.DeleteFunc(first.Rows, func(r store.AttemptRow) bool { return r.ID < f.EndedFrom })
	}
	rows, next := store.MergeAttempts(p, stored, first)
	return rows, next, nil
}

// walkAttempts reads a page of one table. A delivery whose row is deferred has no
// attempt, so that no row has to be made visible.
func (t *Tables) walkAttempts(ctx context.Context, w *AttemptWalk, columns visible.SQL, scan func(Row, *store.AttemptRow) error,
	f *store.AttemptFilter, p store.Page,
) (part store.AttemptPart, err error) {
	stop, err := t.attemptStop(ctx, w, f, p)
	if err != nil {
		return part, err
	}
	q := &Query{SQL: visible.NeedsAttempt.Text("SELECT " + columns + ", coalesce(e.type, '') " + w.From +
		" LEFT JOIN events e ON e.id = d.event_id WHERE true")}
	if w.Condition != "" {
		q.And(visible.NeedsAttempt.Text(w.Condition))
	}
	t.whoseAttempts(q, f)
	q.Window(w.Place, f.Since, f.Until)
	if stop != 0 {
		q.And(w.Place+within(p.Asc), stop)
	}
	if f.EndedFrom != 0 {
		q.And(w.Ended+" >= ?", f.EndedFrom)
	}
	if w.Document == "" {
		amongAttempts(q, "d.kind", f.Kinds)
		amongAttempts(q, "d.class", f.Classes)
		amongAttempts(q, "d.reason", f.Reasons)
	}
	if condition := q.TypeIn("e.type", f.Types); condition != "" {
		q.And(condition)
	}
	q.Page(w.Place, p)
	if part.Rows, err = list(ctx, t, "list attempts", scan, q); err != nil {
		return part, err
	}
	part.End = stop
	if n := len(part.Rows); n >= max(p.Limit, 1) {
		part.End = part.Rows[n-1].Place
	}
	return part, nil
}

// attemptStop returns the place of the last attempt that is looked at; 0: there are
// fewer than may be.
func (t *Tables) attemptStop(ctx context.Context, w *AttemptWalk, f *store.AttemptFilter, p store.Page) (hook.ID, error) {
	q := &Query{SQL: visible.NeedsAttempt.Text("SELECT " + visible.SQL(w.Place) + " " + w.Walk + " WHERE true")}
	if w.ByTenant {
		t.whoseAttempts(q, f)
	}
	q.Window(w.Place, f.Since, f.Until)
	limit := cmp.Or(p.ScanLimit, store.ScanLimit)
	p.Limit = 1
	q.Page(w.Place, p)
	q.SQL += " OFFSET " + q.Arg(limit-1)
	found, err := list(ctx, t, "look for attempts", ScanValue[hook.ID], q)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return found[0], nil
}

// whoseAttempts keeps those of a tenant and of endpoints.
func (t *Tables) whoseAttempts(q *Query, f *store.AttemptFilter) {
	if f.Tenant != 0 {
		q.And("d.tenant_id = ?", f.Tenant)
	}
	switch len(f.Endpoints) {
	case 0:
	case 1:
		q.And("d.endpoint_id = ?", f.Endpoints[0])
	default:
		q.And(t.dialect.Among("d.endpoint_id", "?"), f.Endpoints)
	}
}

func amongAttempts[E ~uint8](q *Query, column string, members []E) {
	if len(members) > 0 {
		q.And(column + " IN (" + numbers(members) + ")")
	}
}

// within compares a place with the last one that is looked at.
func within(asc bool) string {
	if asc {
		return " <= ?"
	}
	return " >= ?"
}

func scanStoredAttempt(r Row, a *store.AttemptRow) error {
	return r.Scan(&a.Place, &a.TenantID, &a.ID, &a.DeliveryID, &a.EndpointID, &a.EventID, &a.Number, &a.Run, &a.Kind, &a.Class, &a.Reason,
		&a.Charged, &a.Status, Span(&a.Latency, time.Microsecond), Fixed(a.PolicyHash[:]), &a.RetryN, Span(&a.Ceiling, time.Millisecond),
		&a.U, Span(&a.Delay, time.Millisecond), &a.DelaySource, Time(&a.NextDueAt), &a.NodeID, Time(&a.StartedAt), &a.Error, &a.Type)
}

func scanFirstOf(r Row, a *store.AttemptRow) error {
	var document string
	if err := r.Scan(&a.DeliveryID, &a.TenantID, &a.EndpointID, &a.EventID, &a.Place, &document, &a.Type); err != nil {
		return err
	}
	err := store.ParseAttempt([]byte(document), &a.Attempt)
	a.Detail = hook.AttemptDetail{}
	return err
}
