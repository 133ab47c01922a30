package sqlstore

import (
	"cmp"
	"context"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const auditColumns = `a.id, coalesce(a.tenant_id, 0), a.actor, a.action, a.subject, a.diff, coalesce(a.request_id, ''), coalesce(a.remote_ip, ''), a.at`

func scanAudit(r Row, a *hook.Audit) error {
	return r.Scan(&a.ID, &a.TenantID, &a.Actor, &a.Action, &a.Subject, Document(&a.Diff), &a.RequestID, &a.RemoteIP, Time(&a.At))
}

// ListAudit implements store.AuditLog. It goes by the key, or by the index on
// tenant and id, or on one subject and id, and looks at a bounded number of records: a search for what few of
// them have must not read all.
func (t *Tables) ListAudit(ctx context.Context, f store.AuditFilter, p store.Page) (rows []hook.Audit, next hook.ID, err error) {
	const doing = "list audit records"
	p.Limit = max(p.Limit, 1)
	look := cmp.Or(p.ScanLimit, store.ScanLimit)
	stop := t.auditWalk(&f, p, "a.id")
	stop.SQL += " LIMIT 1 OFFSET " + stop.Arg(look-1)
	last, err := list(ctx, t, doing, ScanValue[hook.ID], stop)
	if err != nil {
		return nil, 0, err
	}
	if len(last) > 0 {
		next = last[0]
	}
	q := t.auditWalk(&f, p, "a.*")
	q.SQL = "SELECT " + auditColumns + " FROM (" + q.SQL + " LIMIT " + q.Arg(look) + ") a WHERE true"
	if len(f.Actors) > 0 {
		q.And(t.dialect.Among("a.actor", "?"), f.Actors)
	}
	if len(f.Subjects) > 1 {
		q.And(t.dialect.Among("a.subject", "?"), f.Subjects)
	}
	if condition := q.TypeIn("a.action", f.Actions); condition != "" {
		q.And(condition)
	}
	q.SQL += " ORDER BY a.id" + Direction(p.Asc) + " LIMIT " + q.Arg(p.Limit)
	if rows, err = list(ctx, t, doing, scanAudit, q); err != nil {
		return nil, 0, err
	}
	if len(rows) >= p.Limit {
		next = rows[len(rows)-1].ID
	}
	return rows, next, nil
}

// auditWalk goes through the records of a tenant, of all, or of one subject, in the
// order of the page.
func (t *Tables) auditWalk(f *store.AuditFilter, p store.Page, columns string) *Query {
	window := store.DeliveryFilter{Since: f.Since, Until: f.Until}
	r, down := window.Range(p), Direction(p.Asc)
	q := &Query{SQL: "SELECT " + columns + " FROM audit a"}
	if len(f.Subjects) == 1 {
		q.SQL += t.dialect.Hint("audit_subject") + " WHERE true"
		q.And("a.subject = ? AND a.id >= ? AND a.id < ?", f.Subjects[0], r.From, r.To)
		if f.Tenant != 0 {
			q.And("a.tenant_id = ?", f.Tenant)
		}
		q.SQL += " ORDER BY a.id" + down
		return q
	}
	if f.Tenant == 0 {
		q.SQL += " WHERE true"
		q.And("a.id >= ? AND a.id < ?", r.From, r.To)
		q.SQL += " ORDER BY a.id" + down
		return q
	}
	q.SQL += t.dialect.Hint("audit_tenant") + " WHERE true"
	q.And("(a.tenant_id, a.id) >= (?, ?)", f.Tenant, r.From)
	q.And("(a.tenant_id, a.id) < (?, ?)", f.Tenant, r.To)
	q.SQL += " ORDER BY a.tenant_id" + down + ", a.id" + down
	return q
}
