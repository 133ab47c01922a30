package sqlite

import (
	"context"
	"database/sql"
)

// querier is a reading connection, a snapshot, or the pool of them.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// statement returns the prepared form of a query whose text never changes.
func (db *DB) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt, ok := db.prepared.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := db.read.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if first, loaded := db.prepared.LoadOrStore(query, stmt); loaded {
		return first.(*sql.Stmt), stmt.Close()
	}
	return stmt, nil
}

// row runs a query for one row. Its error, also that of a store that failed for
// good, comes from Scan.
func (db *DB) row(ctx context.Context, query string, args ...any) scannable {
	if err := db.usable(); err != nil {
		return failedRow{err}
	}
	stmt, err := db.statement(ctx, query)
	if err != nil {
		return failedRow{err}
	}
	return stmt.QueryRowContext(ctx, args...)
}

// scannable is one row of a result.
type scannable interface{ Scan(dest ...any) error }

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// list runs a constant query and reads its rows.
func list[T any](ctx context.Context, db *DB, scan func(scannable, *T) error, query string, args ...any) ([]T, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	stmt, err := db.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scan)
}

// search runs a query that was put together for its arguments and reads its
// rows.
func search[T any](ctx context.Context, q querier, scan func(scannable, *T) error, query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scan)
}

func collect[T any](rows *sql.Rows, scan func(scannable, *T) error) ([]T, error) {
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	var out []T
	for rows.Next() {
		var v T
		if err := scan(rows, &v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// snapshot runs fn on one connection that sees one state of the store.
func (db *DB) snapshot(ctx context.Context, fn func(querier) error) error {
	if err := db.usable(); err != nil {
		return err
	}
	view, err := db.read.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = view.Rollback() }() // it only read
	return fn(view)
}
