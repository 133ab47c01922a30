package sqlite

import (
	"context"
	"database/sql"

	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

// querier is a reading connection, a snapshot, or the pool of them.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// statement returns the prepared form of a query whose text never changes.
func (d *DB) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt, ok := d.prepared.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := d.read.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if first, loaded := d.prepared.LoadOrStore(query, stmt); loaded {
		return first.(*sql.Stmt), stmt.Close()
	}
	return stmt, nil
}

// list runs a constant query and reads its rows.
func list[T any](ctx context.Context, d *DB, scan func(sqlstore.Row, *T) error, query string, args ...any) (out []T, err error) {
	err = d.each(ctx, &sqlstore.Query{SQL: query, Args: args}, sqlstore.Collect(&out, scan))
	return out, err
}

// first is the first row of a list; without one the error is sql.ErrNoRows.
func first[T any](rows []T, err error) (v T, _ error) {
	if err == nil && len(rows) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return v, err
	}
	return rows[0], nil
}

// snapshot runs fn on one connection that sees one state of the store.
func (d *DB) snapshot(ctx context.Context, fn func(tx) error) error {
	if err := d.usable(); err != nil {
		return err
	}
	view, err := d.read.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = view.Rollback() }() // it only read
	return fn(tx{ctx, view})
}
