package postgres

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwaterhq/breakwater/internal/store"
)

// query is a statement whose conditions depend on what was asked. Values are
// always parameters; only fixed text is ever added to sql.
type query struct {
	sql  string
	args []any
}

// arg adds a parameter and returns its place holder.
func (q *query) arg(v any) string {
	q.args = append(q.args, v)
	return "$" + strconv.Itoa(len(q.args))
}

// and adds a condition in which each ? stands for the next value.
func (q *query) and(condition string, values ...any) {
	for _, v := range values {
		condition = strings.Replace(condition, "?", q.arg(v), 1)
	}
	q.sql += "\n  AND " + condition
}

// page adds the page's bounds, order and limit over the given id column.
func (q *query) page(column string, p store.Page) {
	switch {
	case p.Asc:
		q.and(column+" > ?", p.After) // 0 is below all ids
	case p.After != 0:
		q.and(column+" < ?", p.After)
	}
	q.sql += "\nORDER BY " + column + direction(p) + "\nLIMIT " + q.arg(max(p.Limit, 1))
}

func direction(p store.Page) string {
	if p.Asc {
		return ""
	}
	return " DESC"
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
