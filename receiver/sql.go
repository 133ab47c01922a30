package receiver

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// SQLOptions are the settings of [NewSQL]. Dialect is required.
type SQLOptions struct {
	// Table keeps the ids; the inbox is in a second one of that name with _inbox
	// at its end. A name or schema.name of a-z, 0-9 and _. Empty means
	// webhook_seen.
	Table string
	// Scope tells endpoints apart that share a table: both get the same
	// webhook-id. At most 64 printable ASCII characters without spaces; may be empty.
	Scope string
	// Dialect is the kind of database.
	Dialect Dialect
	// TTL is how long an id is remembered after its work was completed. Zero means
	// 7 days; at least a second. Take 30 days if a dead letter that is replayed much later
	// must not repeat an effect.
	TTL time.Duration
	// OnError is told of every event that failed in Work, and of trouble with the
	// database there (the Event is empty then). Nil means that both are logged with
	// slog.Default.
	OnError func(Event, error)
}

// SQL is a [Deduper] that keeps ids in a table, and an inbox for work that is
// done later. It is safe for concurrent use, by several processes as well.
type SQL struct {
	db         *sql.DB
	o          SQLOptions
	statements map[string]string // the text in this dialect
	flights    flights
	// writer is held by the one that writes, where there is only one writer
	// (SQLite); nil elsewhere. Those who wait in line get their turn; those who
	// poll for a lock do not.
	writer chan struct{}
	// accepted wakes a worker that waits for something to do.
	accepted chan struct{}
}

// maxScope bounds SQLOptions.Scope.
const maxScope = 64

// NewSQL checks o. It neither connects nor makes the tables: put [SQL.Schema] into
// your migrations.
func NewSQL(db *sql.DB, o SQLOptions) (*SQL, error) {
	o.Table = cmp.Or(o.Table, "webhook_seen")
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	if o.OnError == nil {
		o.OnError = logError
	}
	switch {
	case db == nil:
		return nil, errors.New("receiver: a database is required")
	case o.Dialect < Postgres || o.Dialect > MySQL:
		return nil, errors.New("receiver: Dialect must be Postgres, SQLite or MySQL")
	case len(o.Scope) > maxScope || !isPrintable(o.Scope):
		return nil, fmt.Errorf("receiver: Scope must have at most %d printable ASCII characters without spaces", maxScope)
	case o.TTL < time.Second:
		return nil, errors.New("receiver: TTL must be at least a second")
	}
	if err := o.Dialect.checkTable(o.Table); err != nil {
		return nil, err
	}
	s := &SQL{db: db, o: o, statements: make(map[string]string, len(statements)), accepted: make(chan struct{}, 1)}
	words := o.Dialect.words(o.Table)
	for _, text := range statements {
		s.statements[text] = o.Dialect.numbered(words.Replace(text))
	}
	if o.Dialect == SQLite {
		s.writer = make(chan struct{}, 1)
	}
	return s, nil
}

// statements are all that there are.
var statements = []string{
	schema, insertMark, selectMark, renewMark, purgeMarks,
	selectState, insertEvent, renewEvent, purgeEvents, peekDue, lockInbox, claimDue,
	completeEvent, failEvent, selectAside, retryAside,
}

// Schema returns the statements that make both tables where they are missing. They
// can be run again at every start.
func (s *SQL) Schema() string { return s.statements[schema] }

type txKey struct{}

// txValue is the transaction of a context, and whose it is.
type txValue struct {
	db *sql.DB
	tx *sql.Tx
}

func withTx(ctx context.Context, db *sql.DB, tx *sql.Tx) context.Context {
	return context.WithValue(ctx, txKey{}, txValue{db, tx})
}

// TxFrom returns the transaction that [SQL.Once] or [SQL.Work] opened, for the
// function's own statements: they are committed together with the mark, or not at all.
// The function must leave it open.
func TxFrom(ctx context.Context) (*sql.Tx, bool) {
	value, ok := ctx.Value(txKey{}).(txValue)
	return value.tx, ok
}

// Once opens a transaction, inserts the id and runs fn in the same transaction, so
// that work and mark are committed together: there is no moment between a look and
// a mark in which a copy could slip through. fn gets the transaction from [TxFrom].
//
// A second call with the same id waits for the end of the first, in other
// processes too. ran is true whenever fn was called; when err is not nil,
// nothing of its work was committed, unless the connection was lost during
// the commit itself.
func (s *SQL) Once(ctx context.Context, id string, fn func(context.Context) error) (ran bool, err error) {
	if err := checkID(id); err != nil {
		return false, err
	}
	if outer, ok := ctx.Value(txKey{}).(txValue); ok && outer.db == s.db {
		return false, errors.New("receiver: Once was called within the work of another Once or Work on the same database")
	}
	return s.flights.do(ctx, id, func() (bool, error) { return s.once(ctx, id, fn) })
}

func (s *SQL) once(ctx context.Context, id string, fn func(context.Context) error) (ran bool, err error) {
	release, err := s.queue(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	tx, err := s.beginMarked(ctx, id)
	if tx == nil || err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := fn(withTx(ctx, s.db, tx)); err != nil {
		return true, err
	}
	// A transaction hears of the end of its context a moment after fn did.
	if err := ctx.Err(); err != nil {
		return true, fmt.Errorf("receiver: commit: %w", err)
	}
	return true, s.commit(tx)
}

// commit ends a transaction. SQLite without WAL may find readers in its way and
// undo everything: then it is not the work that failed.
func (s *SQL) commit(tx *sql.Tx) error {
	err := tx.Commit()
	switch {
	case err == nil:
		return nil
	case s.o.Dialect.isLocked(err):
		return fmt.Errorf("%w: commit: %w", ErrBusy, err)
	default:
		return fmt.Errorf("receiver: commit: %w", err)
	}
}

// beginMarked returns a transaction that holds the mark, or nil when the id was
// completed before.
func (s *SQL) beginMarked(ctx context.Context, id string) (tx *sql.Tx, err error) {
	err = s.patiently(ctx, func() error {
		if tx, err = s.begin(ctx, s.db); err != nil {
			return fmt.Errorf("receiver: begin: %w", err)
		}
		fresh, err := s.mark(ctx, tx, id)
		if err != nil || !fresh {
			_ = tx.Rollback()
			tx = nil
		}
		return err
	})
	return tx, err
}

// insertMark waits for another transaction that has inserted the same id, until it
// ends. It comes first in its transaction: SQLite refuses to turn a
// transaction that has read into one that writes if someone else wrote meanwhile.
const insertMark = `INSERT {ignore}INTO {seen} (scope, id, seen_at) VALUES (?, ?, ?){or nothing}`

// selectMark takes no lock: most copies find a mark that is still good, and in MySQL
// two of them that both wanted to change it would block each other.
const selectMark = `SELECT seen_at FROM {seen} WHERE scope = ? AND id = ?`

// renewMark decides who of several may run again what is past the TTL.
const renewMark = `UPDATE {seen} SET seen_at = ? WHERE scope = ? AND id = ? AND seen_at <= ?`

// mark reports whether the transaction now holds the mark of an id.
func (s *SQL) mark(ctx context.Context, tx *sql.Tx, id string) (fresh bool, err error) {
	now := time.Now()
	cutoff := now.Add(-s.o.TTL).UnixMilli()
	return settle(func() (fresh, known bool, err error) {
		fresh, err = s.exec(ctx, tx, insertMark, s.o.Scope, id, now.UnixMilli())
		if err != nil || fresh {
			return fresh, true, err
		}
		var seenAt int64
		err = tx.QueryRowContext(ctx, s.statements[selectMark], s.o.Scope, id).Scan(&seenAt)
		switch {
		case errors.Is(err, sql.ErrNoRows): // purged this moment
			return false, false, nil
		case err != nil:
			return false, false, fmt.Errorf("receiver: look for the mark: %w", err)
		case seenAt > cutoff:
			return false, true, nil
		}
		fresh, err = s.exec(ctx, tx, renewMark, now.UnixMilli(), s.o.Scope, id, cutoff)
		return fresh, fresh, err // else renewed or purged this moment
	})
}

// maxLooks ends what cannot happen: each look but the last one means that another
// call has changed the row in between.
const maxLooks = 100

// settle looks again until it is known whether an id is fresh.
func settle(look func() (fresh, known bool, err error)) (fresh bool, err error) {
	for range maxLooks {
		fresh, known, err := look()
		if err != nil || known {
			return fresh, err
		}
	}
	return false, fmt.Errorf("%w: it changes all the time", ErrBusy)
}

// purgeMarks deletes some of what is past the TTL. The inner list is wrapped once more
// because MySQL knows no LIMIT in one; the outer condition is repeated because a
// mark may be renewed in between.
const purgeMarks = `DELETE FROM {seen} WHERE scope = ? AND seen_at <= ? AND id IN (
	SELECT id FROM (SELECT id FROM {seen} WHERE scope = ? AND seen_at <= ? ORDER BY seen_at LIMIT 1000) AS old)`

// purgeEvents deletes some of the events that were done (state 1) before the TTL.
// Those set aside stay: a person has to look at them.
const purgeEvents = `DELETE FROM {inbox} WHERE scope = ? AND state = 1 AND due_at <= ? AND id IN (
	SELECT id FROM (SELECT id FROM {inbox} WHERE scope = ? AND state = 1 AND due_at <= ? ORDER BY due_at LIMIT 1000) AS old)`

// Purge deletes the ids of this scope that are past the TTL, those of the inbox
// too, and returns how many. Call it hourly; it deletes in small steps. Ids
// past the TTL count as forgotten even before.
func (s *SQL) Purge(ctx context.Context) (int64, error) {
	cutoff := time.Now().Add(-s.o.TTL).UnixMilli()
	var all int64
	for _, statement := range []string{purgeMarks, purgeEvents} {
		for {
			n, err := s.purgeSome(ctx, statement, cutoff)
			all += n
			if err != nil {
				return all, fmt.Errorf("receiver: purge: %w", err)
			}
			if n == 0 {
				break
			}
		}
	}
	return all, nil
}

func (s *SQL) purgeSome(ctx context.Context, statement string, cutoff int64) (n int64, err error) {
	release, err := s.queue(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	err = s.patiently(ctx, func() error {
		result, err := s.db.ExecContext(ctx, s.statements[statement], s.o.Scope, cutoff, s.o.Scope, cutoff)
		if err != nil {
			return err
		}
		n, err = result.RowsAffected()
		return err
	})
	return n, err
}

// execer is a database or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// beginner is a database or one of its connections.
type beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// exec reports whether a statement changed a row.
func (s *SQL) exec(ctx context.Context, on execer, statement string, args ...any) (bool, error) {
	result, err := on.ExecContext(ctx, s.statements[statement], args...)
	if err != nil {
		return false, fmt.Errorf("receiver: write: %w", err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("receiver: count what was written: %w", err)
	}
	return n > 0, nil
}

// begin opens a transaction. MySQL's default isolation locks the gaps between
// rows, too, so that strangers would wait for each other.
func (s *SQL) begin(ctx context.Context, on beginner) (*sql.Tx, error) {
	if s.o.Dialect == MySQL {
		return on.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	}
	return on.BeginTx(ctx, nil)
}

// queue waits for the caller's turn to write, where there is one writer.
func (s *SQL) queue(ctx context.Context) (release func(), err error) {
	if s.writer == nil {
		return func() {}, nil
	}
	select {
	case s.writer <- struct{}{}:
		return func() { <-s.writer }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("receiver: wait for the other writers: %w", ctx.Err())
	}
}

// maxPatience is how long SQLite is asked again, beyond its own busy_timeout.
const maxPatience = 10 * time.Second

// patiently calls f again while another process, or another part of this one,
// writes to the SQLite database: whoever set no busy_timeout is told so at once.
func (s *SQL) patiently(ctx context.Context, f func() error) error {
	for begun := time.Now(); ; {
		err := f()
		if !s.o.Dialect.isLocked(err) {
			return err
		}
		if time.Since(begun) > maxPatience || !sleep(ctx, jitter(50*time.Millisecond)) {
			return fmt.Errorf("%w: %w", ErrBusy, err)
		}
	}
}
