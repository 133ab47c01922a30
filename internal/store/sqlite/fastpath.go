package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/stats"
)

// fastPath runs the statements of Commit on the writer's connection, below
// database/sql, which would check and copy every argument of every row once
// more. Statements are prepared on first use and kept.
type fastPath struct {
	ctx  context.Context
	conn driver.ConnPrepareContext
	open []driver.Stmt // everything prepared, to be closed

	txBegin, txCommit, txRollback single
	accept                        acceptStatements
	settle                        settleStatements
	saveLane                      single
	addUsage                      single
	logFigures                    single
	addTally                      single
	figures                       stats.Tally // of the batch
}

func newFastPath() fastPath {
	return fastPath{
		txBegin:    single{query: "BEGIN IMMEDIATE"},
		txCommit:   single{query: "COMMIT"},
		txRollback: single{query: "ROLLBACK"},
		accept:     newAcceptStatements(),
		settle:     newSettleStatements(),
		saveLane:   single{query: saveLane},
		addUsage:   single{query: addUsage},
		logFigures: single{query: logFigures},
		addTally:   single{query: addTally},
	}
}

// fastStmt is what a prepared statement of the driver can do.
type fastStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// transaction runs fn in a write transaction on conn. ctx must not end.
func (f *fastPath) transaction(ctx context.Context, conn *sql.Conn, fn func() error) error {
	return conn.Raw(func(raw any) error {
		c, ok := raw.(driver.ConnPrepareContext)
		if !ok {
			return fmt.Errorf("driver connection is a %T", raw)
		}
		f.ctx, f.conn = ctx, c
		f.forget() // an earlier batch may have failed half-way
		if _, err := f.exec(&f.txBegin); err != nil {
			return err
		}
		err := fn()
		if err == nil {
			_, err = f.exec(&f.txCommit)
		}
		if err != nil {
			// As in update: the first error is the one to tell.
			_, _ = f.exec(&f.txRollback)
		}
		return err
	})
}

// forget drops rows that were added and never written.
func (f *fastPath) forget() {
	for _, b := range []*bulk{
		&f.accept.events, &f.accept.deliveries, &f.accept.keys, &f.settle.attempts, &f.settle.firsts,
	} {
		b.forget()
	}
}

func (f *fastPath) close() error {
	var errs []error
	for _, s := range f.open {
		errs = append(errs, s.Close())
	}
	f.open = nil
	return errors.Join(errs...)
}

func (f *fastPath) prepare(query string) (fastStmt, error) {
	s, err := f.conn.PrepareContext(f.ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare statement: %w", err)
	}
	f.open = append(f.open, s)
	stmt, ok := s.(fastStmt)
	if !ok {
		return nil, fmt.Errorf("driver statement is a %T", s)
	}
	return stmt, nil
}

// single is a statement that is run with one set of arguments. Its parameters
// are bare question marks: the driver reads the name of any other kind again
// for every row.
type single struct {
	query string
	stmt  fastStmt
	args  []driver.NamedValue
}

// bind sets the arguments of the next run.
func (s *single) bind(values ...any) *single {
	s.args = s.args[:0]
	for i, v := range values {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return s
}

func (f *fastPath) ready(s *single) (err error) {
	if s.stmt == nil {
		s.stmt, err = f.prepare(s.query)
	}
	return err
}

// exec runs s and returns how many rows it changed.
func (f *fastPath) exec(s *single) (int64, error) {
	if err := f.ready(s); err != nil {
		return 0, err
	}
	res, err := s.stmt.ExecContext(f.ctx, s.args)
	clear(s.args) // let go of payloads
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// first runs s and reads its first row into dest; false without a row. Blobs
// are copied by the driver.
func (f *fastPath) first(s *single, dest []driver.Value) (found bool, err error) {
	if err := f.ready(s); err != nil {
		return false, err
	}
	rows, err := s.stmt.QueryContext(f.ctx, s.args)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if err := rows.Next(dest); err != nil {
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		return false, err
	}
	return true, nil
}

// bulkSizes are the numbers of rows that one prepared statement writes: as many
// as pay, then down to one for the rest of a batch.
var bulkSizes = [...]int{64, 16, 4, 1}

// bulk is an INSERT of many rows. Rows are added one after the other and then
// written together.
type bulk struct {
	head, row, tail string // row stands once for every row, with its question marks
	stmts           [len(bulkSizes)]fastStmt
	args            []driver.NamedValue
}

// add appends the values of one row, or of a part of it.
func (b *bulk) add(values ...any) {
	b.args = slices.Grow(b.args, len(values))
	for _, v := range values {
		b.args = append(b.args, driver.NamedValue{Value: v})
	}
}

// flush writes the rows that were added and returns how many were changed.
func (f *fastPath) flush(b *bulk) (changed int64, err error) {
	defer b.forget()
	rest, columns := b.args, strings.Count(b.row, "?")
	for i, size := range bulkSizes {
		for width := size * columns; len(rest) >= width; rest = rest[width:] {
			if b.stmts[i] == nil {
				if b.stmts[i], err = f.prepare(b.query(size)); err != nil {
					return changed, err
				}
			}
			n, err := f.run(b.stmts[i], rest[:width])
			if err != nil {
				return changed, err
			}
			changed += n
		}
	}
	return changed, nil
}

// forget lets go of the rows and their payloads.
func (b *bulk) forget() {
	clear(b.args)
	b.args = b.args[:0]
}

func (f *fastPath) run(stmt fastStmt, args []driver.NamedValue) (int64, error) {
	for i := range args {
		args[i].Ordinal = i + 1
	}
	res, err := stmt.ExecContext(f.ctx, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (b *bulk) query(rows int) string {
	return b.head + b.row + strings.Repeat(","+b.row, rows-1) + b.tail
}
