package sqlite

import (
	"context"
	"database/sql"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
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
func (db *DB) row(ctx context.Context, query string, args ...any) sqlstore.Row {
	if err := db.usable(); err != nil {
		return failedRow{err}
	}
	stmt, err := db.statement(ctx, query)
	if err != nil {
		return failedRow{err}
	}
	return stmt.QueryRowContext(ctx, args...)
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// list runs a constant query and reads its rows.
func list[T any](ctx context.Context, db *DB, scan func(sqlstore.Row, *T) error, query string, args ...any) (out []T, err error) {
	err = db.each(ctx, &sqlstore.Query{SQL: query, Args: args}, sqlstore.Collect(&out, scan))
	return out, err
}

func scanID(r sqlstore.Row, id *hook.ID) error { return r.Scan(id) }

// snapshot runs fn on one connection that sees one state of the store.
func (db *DB) snapshot(ctx context.Context, fn func(tx) error) error {
	if err := db.usable(); err != nil {
		return err
	}
	view, err := db.read.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = view.Rollback() }() // it only read
	return fn(tx{ctx, view})
}
