package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// dialect runs the statements of package sqlstore.
type dialect struct{ *DB }

// Read implements sqlstore.Dialect.
func (d dialect) Read(ctx context.Context, doing string, q *sqlstore.Query, scan func(sqlstore.Row) error) error {
	return d.readErr(doing, d.each(ctx, q, scan))
}

// each runs a query and hands its rows to scan.
func (d *DB) each(ctx context.Context, q *sqlstore.Query, scan func(sqlstore.Row) error) error {
	if err := d.usable(); err != nil {
		return err
	}
	return eachRow(scan, func() (*sql.Rows, error) {
		if q.Built() {
			return d.read.QueryContext(ctx, q.SQL, values(q.Args)...)
		}
		stmt, err := d.statement(ctx, q.SQL) //nolint:sqlclosecheck // it is kept for the next one
		if err != nil {
			return nil, err
		}
		return stmt.QueryContext(ctx, values(q.Args)...)
	})
}

// eachRow runs a query and hands its rows to scan.
func eachRow(scan func(sqlstore.Row) error, run func() (*sql.Rows, error)) error {
	rows, err := run()
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// ReadTogether implements sqlstore.Dialect.
func (d dialect) ReadTogether(ctx context.Context, doing string, parts ...sqlstore.Part) error {
	return d.Snapshot(ctx, doing, func(t sqlstore.Tx) error {
		for _, p := range parts {
			if err := t.Query(p.SQL, p.Args, p.Scan); err != nil {
				return err
			}
		}
		return nil
	})
}

// Snapshot implements sqlstore.Dialect.
func (d dialect) Snapshot(ctx context.Context, doing string, fn func(sqlstore.Tx) error) error {
	return d.readErr(doing, d.snapshot(ctx, func(t tx) error { return fn(t) }))
}

// Change implements sqlstore.Dialect.
func (d dialect) Change(ctx context.Context, doing string, fn func(sqlstore.Tx) error) error {
	return d.update(ctx, doing, func(t tx) error { return fn(t) })
}

// Among implements sqlstore.Dialect. A list is one parameter, a JSON array.
func (dialect) Among(column, list string) string {
	return column + " IN (SELECT value FROM json_each(" + list + "))"
}

// Hint implements sqlstore.Dialect. Without statistics, which the store never
// gathers, the planner would have to guess.
func (dialect) Hint(index string) string { return " INDEXED BY " + index }

// ForUpdate implements sqlstore.Dialect: there is one writer.
func (dialect) ForUpdate(string) string { return "" }

// Some implements sqlstore.Dialect.
func (dialect) Some(table string) string {
	return "rowid IN (SELECT rowid FROM " + table + " LIMIT $1)"
}

// FirstAttempt implements sqlstore.Dialect.
func (dialect) FirstAttempt() visible.SQL {
	return `
SELECT d.id, d.tenant_id, d.endpoint_id, d.event_id, a.document, a.excerpt FROM deliveries d JOIN first_attempts a ON a.id = d.first_attempt_id
WHERE d.id = $1 AND (d.tenant_id = $2 OR $2 = 0)`
}

const firstAttemptsOf visible.SQL = "FROM first_attempts f CROSS JOIN deliveries d ON d.id = json_extract(f.document, '$.delivery')"

// FirstAttempts implements sqlstore.Dialect. Documents name their delivery; those
// that were written before they did are not listed.
func (dialect) FirstAttempts() sqlstore.AttemptWalk {
	return sqlstore.AttemptWalk{
		Walk:     "FROM first_attempts f",
		From:     firstAttemptsOf,
		Document: "f.document", Place: "f.id", Ended: "f.id",
	}
}

// LanesFrom implements sqlstore.Dialect. CROSS JOIN keeps the order of tables.
func (dialect) LanesFrom(q *sqlstore.Query, f store.LaneFilter) {
	switch {
	case f.Stormy():
		q.SQL += `
FROM lane_watch w INDEXED BY lane_watch_active CROSS JOIN endpoints e ON e.id = w.endpoint_id LEFT JOIN lanes l ON l.endpoint_id = e.id
WHERE (w.storm_since IS NOT NULL OR w.growing_since IS NOT NULL)`
	case f.Open != nil && *f.Open:
		q.SQL += `
FROM lanes l INDEXED BY lanes_open CROSS JOIN endpoints e ON e.id = l.endpoint_id LEFT JOIN lane_watch w ON w.endpoint_id = e.id
WHERE l.state = 1`
	case f.Hold != nil && *f.Hold:
		q.SQL += `
FROM lanes l INDEXED BY lanes_hold CROSS JOIN endpoints e ON e.id = l.endpoint_id LEFT JOIN lane_watch w ON w.endpoint_id = e.id
WHERE l.hold_until > ` + q.Arg(f.Now)
	case f.Recovering != nil && *f.Recovering:
		q.SQL += `
FROM lanes l INDEXED BY lanes_recovering CROSS JOIN endpoints e ON e.id = l.endpoint_id LEFT JOIN lane_watch w ON w.endpoint_id = e.id
WHERE l.recovery_rate > 0`
	default:
		q.SQL += `
FROM endpoints e LEFT JOIN lane_watch w ON w.endpoint_id = e.id LEFT JOIN lanes l ON l.endpoint_id = e.id
WHERE true`
	}
}

// tx is a transaction. Its statements see what it wrote.
type tx struct {
	ctx  context.Context
	conn connection
}

// connection is what a transaction runs on.
type connection interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// Exec implements sqlstore.Tx.
func (t tx) Exec(query string, args ...any) (int64, error) {
	res, err := t.conn.ExecContext(t.ctx, query, values(args)...)
	if err != nil {
		return 0, meaning(err)
	}
	return res.RowsAffected()
}

// ExecAll implements sqlstore.Tx. It reads the statement once.
func (t tx) ExecAll(query string, rows [][]any) (err error) {
	if len(rows) == 0 {
		return nil
	}
	stmt, err := t.conn.PrepareContext(t.ctx, query)
	if err != nil {
		return meaning(err)
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	for _, args := range rows {
		if _, err := stmt.ExecContext(t.ctx, values(args)...); err != nil {
			return meaning(err)
		}
	}
	return nil
}

// Query implements sqlstore.Tx.
func (t tx) Query(query string, args []any, scan func(sqlstore.Row) error) error {
	return meaning(eachRow(scan, func() (*sql.Rows, error) { return t.conn.QueryContext(t.ctx, query, values(args)...) }))
}

// row reads the first row of a statement; false without one.
func (t tx) row(query string, args []any, dest ...any) (found bool, err error) {
	err = t.Query(query, args, func(r sqlstore.Row) error {
		found = true
		return r.Scan(dest...)
	})
	return found, err
}

// Lock implements sqlstore.Tx: there is one writer.
func (t tx) Lock(sqlstore.Lock, hook.ID) error { return nil }

// values puts arguments into the form in which they are stored. database/sql
// does the same with numbers of any type.
func values(args []any) []any {
	out := make([]any, len(args))
	for i, v := range args {
		switch v := v.(type) {
		case time.Time:
			out[i] = stamp(v)
		case json.RawMessage:
			out[i] = string(v)
		case []string:
			text, _ := json.Marshal(v) // strings always encode
			out[i] = string(text)
		case []hook.ID:
			out[i] = idList(v)
		case []hook.DeliveryState:
			out[i] = idList(v)
		case []hook.EndReason:
			out[i] = idList(v)
		default:
			out[i] = v
		}
	}
	return out
}
