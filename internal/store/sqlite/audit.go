package sqlite

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const insertAudit = `
INSERT INTO audit (id, tenant_id, actor, action, subject, diff, request_id, remote_ip, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`

// audit stores the record of a change in the change's own transaction.
func (t tx) audit(a hook.Audit) error {
	_, err := t.exec(insertAudit, a.ID, orNull(a.TenantID), a.Actor, a.Action, a.Subject, textOrNull(string(a.Diff)),
		textOrNull(a.RequestID), textOrNull(a.RemoteIP), a.At.UnixMicro())
	return err
}

// WriteAudit implements store.Maintenance.
func (db *DB) WriteAudit(ctx context.Context, a hook.Audit) error {
	return db.update(ctx, "write audit record", func(t tx) error { return t.audit(a) })
}
