package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const alertColumns = `a.id, a.rule, a.level, a.severity, a.status, a.tenant_id, a.endpoint_id, a.replay_id, a.node_id, a.summary, a.value,
  a.threshold, a.since, a.last_at, a.resolved_at, a.count, a.flapping, a.memory, a.acked_by, a.acked_at, a.ack_note, a.snoozed_until`

func alertFields(a *hook.Alert) []any {
	s := &a.Subject
	return []any{
		&a.ID, &a.Rule, &a.Level, &a.Severity, &a.Status, &s.Tenant, &s.Endpoint, &s.Replay, &s.Node, &a.Summary, &a.Value, &a.Threshold,
		Time(&a.Since), Time(&a.LastAt), Time(&a.ResolvedAt), &a.Count, &a.Flapping, Document(&a.Memory), &a.AckedBy, Time(&a.AckedAt),
		&a.AckNote, Time(&a.SnoozedUntil),
	}
}

func scanAlert(r Row, a *hook.Alert) error { return r.Scan(alertFields(a)...) }

const ownsShard = `SELECT EXISTS (SELECT 1 FROM shards WHERE shard = $1 AND owner_id = $2 AND epoch = $3)`

// fenced reports whether the owner of a shard is who it claims to be, and keeps it
// so until the transaction ends.
func fenced(tx Tx, f store.Fence) (owner bool, err error) {
	if err := tx.Lock(LockShard, hook.ID(f.Shard)); err != nil {
		return false, err
	}
	return one(tx, ScanValue[bool], ownsShard, f.Shard, f.Node, f.Epoch)
}

const (
	// openAlerts takes each alert by an index of its own.
	openAlerts = `
SELECT ` + alertColumns + ` FROM alerts a WHERE a.id IN (
  SELECT id FROM alerts WHERE status <> 2
  UNION SELECT id FROM alerts WHERE status = 2 AND resolved_at >= $1
  UNION SELECT about_id FROM notices WHERE result = 1 AND kind <> 0)
ORDER BY a.id`

	openNotices = `
SELECT n.about_id, ` + noticeColumns + ` FROM notices n WHERE n.kind <> 0 AND n.about_id IN (
  SELECT id FROM alerts WHERE status <> 2
  UNION SELECT id FROM alerts WHERE status = 2 AND resolved_at >= $1
  UNION SELECT about_id FROM notices WHERE result = 1 AND kind <> 0)
ORDER BY n.about_id, n.at, n.kind, n.channel_id`
)

// OpenAlerts implements store.AlertBoard.
func (t *Tables) OpenAlerts(ctx context.Context, since time.Time) (all []hook.Alert, err error) {
	err = t.dialect.Snapshot(ctx, "read open alerts", func(tx Tx) error {
		all = nil
		if err := tx.Query(openAlerts, []any{since}, Collect(&all, scanAlert)); err != nil {
			return err
		}
		byID := make(map[hook.ID]*hook.Alert, len(all))
		for i := range all {
			byID[all[i].ID] = &all[i]
		}
		return tx.Query(openNotices, []any{since}, func(r Row) error {
			var about hook.ID
			var n hook.Notification
			if err := r.Scan(append([]any{&about}, noticeFields(&n)...)...); err != nil {
				return err
			}
			if a := byID[about]; a != nil {
				a.Notifications = append(a.Notifications, n)
			}
			return nil
		})
	})
	return all, err
}

const ackedAlerts = `SELECT ` + alertColumns + ` FROM alerts a WHERE a.status = 1 AND a.acked_at IS NOT NULL ORDER BY a.id`

// AckedAlerts implements store.AlertBoard.
func (t *Tables) AckedAlerts(ctx context.Context) ([]hook.Alert, error) {
	return list(ctx, t, "read acknowledged alerts", scanAlert, &Query{SQL: ackedAlerts})
}

const (
	// dropAlert leaves an alert that has fired alone.
	dropAlert = `DELETE FROM alerts WHERE id = $1 AND status = 3`

	// saveAlert leaves acknowledgements alone: only unackAlert and ackAlert write them.
	saveAlert = `
INSERT INTO alerts (id, rule, level, severity, status, tenant_id, endpoint_id, replay_id, node_id, summary, value, threshold, since, last_at,
  resolved_at, count, flapping, memory)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
ON CONFLICT (id) DO UPDATE SET severity = excluded.severity, status = excluded.status, summary = excluded.summary, value = excluded.value,
  threshold = excluded.threshold, since = excluded.since, last_at = excluded.last_at, resolved_at = excluded.resolved_at,
  count = excluded.count, flapping = excluded.flapping, memory = excluded.memory`

	unackAlert = `UPDATE alerts SET acked_by = '', acked_at = NULL, ack_note = '', snoozed_until = NULL WHERE id = $1 AND acked_at <= $2`
)

// SaveAlerts implements store.AlertBoard.
func (t *Tables) SaveAlerts(ctx context.Context, f store.Fence, s store.AlertStep) error {
	alerts, err := alertRows(s.Save)
	if err != nil {
		return fmt.Errorf("save alerts: %w", err)
	}
	drop, unack := make([][]any, len(s.Drop)), make([][]any, len(s.Unacked))
	for i, id := range s.Drop {
		drop[i] = []any{id}
	}
	for i, id := range s.Unacked {
		unack[i] = []any{id, s.Now}
	}
	return t.dialect.Change(ctx, "save alerts", func(tx Tx) error {
		owner, err := fenced(tx, f)
		if err == nil && !owner {
			err = store.ErrFenced
		}
		if err == nil {
			err = tx.Lock(LockChannels, 0)
		}
		if err != nil {
			return err
		}
		for _, step := range []struct {
			query string
			rows  [][]any
		}{{dropAlert, drop}, {saveAlert, alerts}, {unackAlert, unack}} {
			if err := tx.ExecAll(step.query, step.rows); err != nil {
				return err
			}
		}
		return addNotices(tx, s.Now, s.Save)
	})
}

func alertRows(alerts []hook.Alert) ([][]any, error) {
	rows := make([][]any, len(alerts))
	for i := range alerts {
		a := &alerts[i]
		memory, err := document(a.Memory, "{}")
		if err != nil {
			return nil, err
		}
		rows[i] = []any{
			a.ID, a.Rule, a.Level, a.Severity, a.Status, a.Subject.Tenant, a.Subject.Endpoint, a.Subject.Replay, a.Subject.Node, a.Summary,
			finite(a.Value), finite(a.Threshold), a.Since, a.LastAt, a.ResolvedAt, a.Count, a.Flapping, memory,
		}
	}
	return rows, nil
}

// finite keeps what is no number out of columns that people sort and draw.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

const (
	alertByID = `SELECT ` + alertColumns + ` FROM alerts a WHERE a.id = $1 AND (a.tenant_id = $2 OR $2 = 0) AND a.status <> 3`

	noticesOf = `SELECT ` + noticeColumns + ` FROM notices n WHERE n.about_id = $1 AND n.kind <> 0 ORDER BY n.at, n.kind, n.channel_id`
)

// AlertByID implements store.AlertLog.
func (t *Tables) AlertByID(ctx context.Context, tenant, id hook.ID) (a hook.Alert, err error) {
	err = t.dialect.Snapshot(ctx, "read alert", func(tx Tx) error {
		if a, err = one(tx, scanAlert, alertByID, id, tenant); err != nil {
			return err
		}
		return tx.Query(noticesOf, []any{id}, Collect(&a.Notifications, scanNotification))
	})
	return a, err
}

// AlertsQuery returns the query of ListAlerts. It walks the index of the endpoint, of
// the tenant, of one status, or the primary key.
func AlertsQuery(d Dialect, f store.AlertFilter, p store.Page) *Query {
	q := &Query{SQL: `SELECT ` + alertColumns + ` FROM alerts a WHERE a.status <> 3`}
	tenant := "a.tenant_id = ?"
	switch len(f.Endpoints) {
	case 0:
	case 1:
		q.And("a.endpoint_id <> 0 AND a.endpoint_id = ?", f.Endpoints[0])
		tenant = "a.tenant_id + 0 = ?" // its index would be the worse one
	default:
		q.And("a.endpoint_id <> 0 AND "+d.Among("a.endpoint_id", "?"), f.Endpoints)
		tenant = "a.tenant_id + 0 = ?"
	}
	if f.Tenant != 0 {
		q.And("a.tenant_id <> 0 AND "+tenant, f.Tenant)
	}
	if len(f.Statuses) > 0 {
		q.And("a.status IN (" + numbers(f.Statuses) + ")")
	}
	if len(f.Levels) > 0 {
		q.And("a.level IN (" + numbers(f.Levels) + ")")
	}
	if len(f.Severities) > 0 {
		q.And("a.severity IN (" + numbers(f.Severities) + ")")
	}
	if len(f.Rules) > 0 {
		q.And(d.Among("a.rule", "?"), f.Rules)
	}
	q.Page("a.id", p)
	return q
}

// ListAlerts implements store.AlertLog.
func (t *Tables) ListAlerts(ctx context.Context, f store.AlertFilter, p store.Page) ([]hook.Alert, error) {
	return list(ctx, t, "list alerts", scanAlert, AlertsQuery(t.dialect, f, p))
}

const (
	ackAlert = `
UPDATE alerts SET acked_by = $3, acked_at = $4, ack_note = $5, snoozed_until = $6
WHERE id = $1 AND (tenant_id = $2 OR $2 = 0) AND status = 1`

	alertExists = `SELECT EXISTS (SELECT 1 FROM alerts WHERE id = $1 AND (tenant_id = $2 OR $2 = 0) AND status <> 3)`
)

// AckAlert implements store.AlertLog.
func (t *Tables) AckAlert(ctx context.Context, tenant hook.ID, a hook.Alert, record hook.Audit) (stored hook.Alert, err error) {
	err = t.change(ctx, "acknowledge alert", record, func(tx Tx) error {
		err := mustChange(tx, ackAlert, a.ID, tenant, a.AckedBy, a.AckedAt, a.AckNote, a.SnoozedUntil)
		if err == nil {
			stored, err = one(tx, scanAlert, alertByID, a.ID, tenant)
			return err
		}
		if !errors.Is(err, hook.ErrNotFound) {
			return err
		}
		there, lookErr := one(tx, ScanValue[bool], alertExists, a.ID, tenant)
		if there {
			err = hook.ErrStateConflict
		}
		return cmp.Or(lookErr, err)
	})
	return stored, err
}

const (
	oldAlerts = `
SELECT id FROM alerts WHERE status = 2 AND resolved_at < $1
  AND NOT EXISTS (SELECT 1 FROM notices n WHERE n.about_id = alerts.id AND n.result = 1) ORDER BY resolved_at, id LIMIT $2`

	deleteNoticesOf = `DELETE FROM notices WHERE about_id = $1 AND EXISTS (SELECT 1 FROM alerts WHERE id = $1 AND status = 2)`
	deleteAlert     = `DELETE FROM alerts WHERE id = $1 AND status = 2`
)

// DropAlerts implements store.AlertRetention. An alert that ended so long ago does
// not come back.
func (t *Tables) DropAlerts(ctx context.Context, before time.Time, limit int) (removed int64, err error) {
	err = t.dialect.Change(ctx, "remove old alerts", func(tx Tx) error {
		removed = 0
		var ids []hook.ID
		if err := tx.Query(oldAlerts, []any{before, limit}, Collect(&ids, ScanValue[hook.ID])); err != nil {
			return err
		}
		for _, id := range ids {
			if _, err := tx.Exec(deleteNoticesOf, id); err != nil {
				return err
			}
			n, err := tx.Exec(deleteAlert, id)
			if err != nil {
				return err
			}
			removed += n
		}
		return nil
	})
	return removed, err
}
