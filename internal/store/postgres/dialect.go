package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// dialect runs the statements of package sqlstore.
type dialect struct{ *DB }

// Read implements sqlstore.Dialect.
func (d dialect) Read(ctx context.Context, doing string, q *sqlstore.Query, scan func(sqlstore.Row) error) error {
	return failed(doing, read(scan)(d.pool.Query(ctx, q.SQL, values(q.Args)...)))
}

// ReadTogether implements sqlstore.Dialect.
func (d dialect) ReadTogether(ctx context.Context, doing string, parts ...sqlstore.Part) error {
	b := &pgx.Batch{}
	for _, p := range parts {
		b.Queue(p.SQL, values(p.Args)...).Query(func(rows pgx.Rows) error { return read(p.Scan)(rows, nil) })
	}
	return failed(doing, d.lanes.SendBatch(ctx, b).Close())
}

// Snapshot implements sqlstore.Dialect.
func (d dialect) Snapshot(ctx context.Context, doing string, fn func(sqlstore.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return failed(doing, pgx.BeginTxFunc(ctx, d.pool, options, func(t pgx.Tx) error {
		return takeTime(ctx, t, func(t pgx.Tx) error { return fn(tx{ctx, t}) })
	}))
}

// Change implements sqlstore.Dialect.
func (d dialect) Change(ctx context.Context, doing string, fn func(sqlstore.Tx) error) error {
	return failed(doing, d.slowly(ctx, func(t pgx.Tx) error { return fn(tx{ctx, t}) }))
}

// MakeVisible implements sqlstore.Dialect.
func (d dialect) MakeVisible(ctx context.Context, f *store.DeliveryFilter) (visible.Rows, error) {
	return d.makeMatchingVisible(ctx, f)
}

// MakeLaneVisible implements sqlstore.Dialect.
func (d dialect) MakeLaneVisible(ctx context.Context, endpoint hook.ID) (visible.Rows, error) {
	return d.makeLanesVisible(ctx, endpoint)
}

// ReadLane implements sqlstore.Dialect, on connections of its own.
func (d dialect) ReadLane(ctx context.Context, doing string, q *sqlstore.Query, scan func(sqlstore.Row) error) error {
	return failed(doing, read(scan)(d.lanes.Query(ctx, q.SQL, values(q.Args)...)))
}

// CancelPending implements sqlstore.Dialect.
func (d dialect) CancelPending(ctx context.Context, tenant, endpoint hook.ID, now time.Time) (int64, error) {
	return d.cancelPending(ctx, tenant, endpoint, now)
}

// Among implements sqlstore.Dialect.
func (dialect) Among(column, list string) string { return column + " = ANY(" + list + ")" }

// Hint implements sqlstore.Dialect: the server takes none.
func (dialect) Hint(string) string { return "" }

// ForUpdate implements sqlstore.Dialect.
func (dialect) ForUpdate(table string) string { return " FOR UPDATE OF " + table }

// Some implements sqlstore.Dialect, by where rows stand.
func (dialect) Some(table string) string {
	return "ctid = ANY(ARRAY(SELECT ctid FROM " + table + " LIMIT $1))"
}

// FirstAttempt implements sqlstore.Dialect.
func (dialect) FirstAttempt() visible.SQL { return firstAttempt }

// firstAttempt is the attempt that the row of a delivery was inserted with.
const firstAttempt visible.SQL = `
SELECT id, tenant_id, endpoint_id, event_id, first_attempt, first_excerpt FROM deliveries
WHERE id = $1 AND (tenant_id = $2 OR $2 = 0) AND first_attempt IS NOT NULL`

const fromDelivered visible.SQL = "FROM deliveries d"

// FirstAttempts implements sqlstore.Dialect. Only a delivery that succeeded within
// moments has its attempt in its row, so that its id tells well enough when that was,
// and an index of the attempts' ids, which every success would have to pay for, is
// not needed.
func (dialect) FirstAttempts() sqlstore.AttemptWalk {
	return sqlstore.AttemptWalk{
		Walk: fromDelivered, From: fromDelivered, Condition: "d.first_attempt IS NOT NULL",
		Document: "d.first_attempt", Place: "d.id", Ended: "d.last_attempt_id", ByTenant: true,
	}
}

// LanesFrom implements sqlstore.Dialect.
func (dialect) LanesFrom(q *sqlstore.Query, f store.LaneFilter) {
	q.SQL += `
FROM endpoints e LEFT JOIN lane_watch w ON w.endpoint_id = e.id LEFT JOIN lanes l ON l.endpoint_id = e.id
WHERE `
	switch {
	case f.Stormy():
		q.SQL += `e.id IN (SELECT endpoint_id FROM lane_watch WHERE storm_since IS NOT NULL OR growing_since IS NOT NULL)`
	case f.Open != nil && *f.Open:
		q.SQL += `e.id IN (SELECT endpoint_id FROM lanes WHERE state = 1)`
	case f.Hold != nil && *f.Hold:
		q.SQL += `e.id IN (SELECT endpoint_id FROM lanes WHERE hold_until > ` + q.Arg(f.Now) + `)`
	case f.Recovering != nil && *f.Recovering:
		q.SQL += `e.id IN (SELECT endpoint_id FROM lanes WHERE recovery_rate > 0)`
	default:
		q.SQL += `true`
	}
}

// slowly runs fn in a transaction of the pool whose statements may take longer
// than a read: they wait for batches, or walk over many rows.
func (d *DB) slowly(ctx context.Context, fn func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, d.pool, func(t pgx.Tx) error { return takeTime(ctx, t, fn) })
}

func takeTime(ctx context.Context, t pgx.Tx, fn func(pgx.Tx) error) error {
	if _, err := t.Exec(ctx, `SET LOCAL statement_timeout = '15s'`); err != nil {
		return err
	}
	return fn(t)
}

// tx is a transaction of the pool.
type tx struct {
	ctx context.Context
	tx  pgx.Tx
}

// Exec implements sqlstore.Tx.
func (t tx) Exec(query string, args ...any) (int64, error) {
	tag, err := t.tx.Exec(t.ctx, query, values(args)...)
	return tag.RowsAffected(), meaning(err)
}

// ExecAll implements sqlstore.Tx, in one round trip.
func (t tx) ExecAll(query string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	for _, args := range rows {
		b.Queue(query, values(args)...)
	}
	return meaning(t.tx.SendBatch(t.ctx, b).Close())
}

// Query implements sqlstore.Tx.
func (t tx) Query(query string, args []any, scan func(sqlstore.Row) error) error {
	return meaning(read(scan)(t.tx.Query(t.ctx, query, values(args)...)))
}

// Lock implements sqlstore.Tx.
func (t tx) Lock(l sqlstore.Lock, id hook.ID) (err error) {
	const exclusive, shared = `SELECT pg_advisory_xact_lock($1, $2)`, `SELECT pg_advisory_xact_lock_shared($1, $2)`
	switch l {
	case sqlstore.LockConfig:
		_, err = t.tx.Exec(t.ctx, exclusive, lockTenant, lockNumber(id))
	case sqlstore.LockConfigShared:
		_, err = t.tx.Exec(t.ctx, shared, lockTenant, lockNumber(id))
	case sqlstore.LockKeys:
		_, err = t.tx.Exec(t.ctx, exclusive, lockKeys, 0)
	case sqlstore.LockReplays:
		_, err = t.tx.Exec(t.ctx, exclusive, lockReplays, 0)
	case sqlstore.LockStats:
		_, err = t.tx.Exec(t.ctx, exclusive, lockStats, 0)
	case sqlstore.LockShard:
		_, err = t.tx.Exec(t.ctx, `SELECT pg_advisory_xact_lock_shared(7001, $1)`, int32(id))
	case sqlstore.LockChannels:
		_, err = t.tx.Exec(t.ctx, exclusive, lockChannels, 0)
	case sqlstore.LockPolicies:
		_, err = t.tx.Exec(t.ctx, exclusive, lockPolicies, 0)
	case sqlstore.LockPoliciesShared:
		_, err = t.tx.Exec(t.ctx, shared, lockPolicies, 0)
	case sqlstore.LockKeptShared:
		_, err = t.tx.Exec(t.ctx, shared, lockKept, 0)
	default:
		err = fmt.Errorf("unknown lock %d", l)
	}
	return err
}

// meaning gives an error inside a transaction the terms of the roles. Ids and
// hashes are drawn, never chosen, so the only unique value a person can give is a
// uid, the name of a policy, or an event type.
func meaning(err error) error {
	switch {
	case violates(err, "tenants_uid_key"), violates(err, "endpoints_uid"), violates(err, "named_policies_name_key"),
		violates(err, "event_types_type"):
		return fmt.Errorf("%w: %w", hook.ErrUIDTaken, err)
	case isCode(err, codeForeignKey):
		return fmt.Errorf("%w: %w", hook.ErrNotFound, err)
	default:
		return err
	}
}

// values puts arguments into the form in which they are stored.
func values(args []any) []any {
	out := make([]any, len(args))
	for i, v := range args {
		switch v := v.(type) {
		case time.Time:
			out[i] = at(v)
		case string:
			out[i] = clean(v)
		case []hook.DeliveryState:
			out[i] = enums(v)
		case []hook.EndReason:
			out[i] = enums(v)
		default:
			out[i] = v
		}
	}
	return out
}
