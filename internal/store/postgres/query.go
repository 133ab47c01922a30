package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// list runs a query and reads its rows.
func list[T any](ctx context.Context, db querier, doing string, scan func(sqlstore.Row, *T) error, sql string, args ...any) (out []T, err error) {
	err = read(sqlstore.Collect(&out, scan))(db.Query(ctx, sql, values(args)...))
	return out, failed(doing, err)
}

// read returns what reads the rows of a query that has just been run.
func read(scan func(sqlstore.Row) error) func(pgx.Rows, error) error {
	return func(rows pgx.Rows, err error) error {
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}
