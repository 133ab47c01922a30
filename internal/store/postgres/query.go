package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// query is a statement with its parameters.
type query struct {
	sql  string
	args []any
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// collect runs a query and scans its rows.
func collect[T any](ctx context.Context, db querier, q *query, doing string, scan func(pgx.Row) (T, error)) ([]T, error) {
	rows, err := db.Query(ctx, q.sql, q.args...)
	if err != nil {
		return nil, failed(doing, err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) { return scan(row) })
	if err != nil {
		return nil, failed(doing, err)
	}
	return all, nil
}
