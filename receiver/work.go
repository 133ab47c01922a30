package receiver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// maxWorkers bounds Work: each worker has a connection while it works.
	maxWorkers = 1000
	// poll is how often an idle Work looks for events that other processes
	// accepted, or that are due again. Those of its own it hears of at once.
	poll = time.Second
	// A failing event waits up to firstBackoff, then twice as long each time, up
	// to maxBackoff.
	firstBackoff = 2 * time.Second
	maxBackoff   = time.Hour
	// maxTrouble is the longest wait when the database fails.
	maxTrouble = 30 * time.Second
	// settleTimeout bounds the attempt to note a failure whose transaction is lost.
	settleTimeout = 5 * time.Second
	// maxReason is how much of an error is kept, in bytes.
	maxReason = 4000
)

// Work takes events from the inbox until ctx ends, and calls fn for each in a
// transaction of its own, which fn's statements share and which is committed
// with the end of the event: an event is done once, or not at all. It returns when
// all of its workers have; with nil, unless it could not begin.
//
// Several processes may work on one inbox. The row of an event is locked
// while it is in hand, so when a worker dies the database frees it, and another one
// takes it at once. SQLite has one writer: there, whatever the number of workers,
// one event is in hand at a time.
//
// When fn fails or panics its statements are undone, and the event waits: a random time
// of up to 2 seconds at first, up to twice as long after each failure, at most
// an hour, without end. [Later] and [TooMany] name the wait. [Permanent] and [Gone]
// set the event aside: see [SQL.SetAside]. The end of ctx, which is also the end of fn's
// context, counts as no failure.
//
// fn must leave the transaction open, and use it for all of its statements.
// Every failure is told to SQLOptions.OnError.
func (s *SQL) Work(ctx context.Context, workers int, fn func(context.Context, *sql.Tx, Event) error) error {
	if workers < 1 || workers > maxWorkers {
		return fmt.Errorf("receiver: workers must be 1 to %d", maxWorkers)
	}
	if fn == nil {
		return errors.New("receiver: Work needs a function")
	}
	// A missing table is better told now than once a second.
	if _, err := s.isDue(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	// One worker at a time looks for an event; the others work, or wait for their turn.
	turn := make(chan struct{}, 1)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				select {
				case turn <- struct{}{}:
				case <-ctx.Done():
					return
				}
				j := s.next(ctx)
				<-turn
				if j == nil {
					return
				}
				s.handle(ctx, j, fn)
			}
		})
	}
	all.Wait()
	return nil
}

// job is an event in hand: its row is locked by the transaction.
type job struct {
	event   Event
	tries   int
	conn    *sql.Conn
	tx      *sql.Tx
	release func()
}

// end lets go of everything. What was not committed is undone.
func (j *job) end() {
	_ = j.tx.Rollback() // after a commit it does nothing
	_ = j.conn.Close()
	j.release()
}

// next waits for an event and takes it in hand. It returns nil when ctx ends.
func (s *SQL) next(ctx context.Context) *job {
	for failures := 0; ctx.Err() == nil; {
		j, err := s.claim(ctx)
		if j != nil {
			return j
		}
		wait := poll/2 + jitter(poll/2)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrBusy): // another process works on SQLite
		case err != nil:
			failures++
			s.tell(Event{}, err)
			wait = jitter(backoff(failures, maxTrouble))
		default:
			failures = 0
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.accepted:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

const peekDue = `SELECT COUNT(*) FROM (SELECT id FROM {inbox} WHERE scope = ? AND state = 0 AND due_at <= ? LIMIT 1) AS due`

// isDue looks without a lock.
func (s *SQL) isDue(ctx context.Context) (bool, error) {
	var n int
	err := s.patiently(ctx, func() error {
		return s.db.QueryRowContext(ctx, s.statements[peekDue], s.o.Scope, time.Now().UnixMilli()).Scan(&n)
	})
	if err != nil {
		return false, fmt.Errorf("receiver: look into the inbox: %w", err)
	}
	return n > 0, nil
}

// claim takes an event in hand, or returns nil when there is none. The transaction
// outlives ctx: work that was finished is also committed.
func (s *SQL) claim(ctx context.Context) (j *job, err error) {
	if s.o.Dialect == SQLite { // an idle worker must not keep others from writing
		if due, err := s.isDue(ctx); err != nil || !due {
			return nil, err
		}
	}
	release, err := s.queue(ctx)
	if err != nil {
		return nil, err
	}
	err = s.patiently(ctx, func() error {
		j, err = s.claimOn(ctx)
		return err
	})
	if j == nil {
		release()
		return nil, err
	}
	j.release = release
	return j, nil
}

// claimOn waits for a connection no longer than ctx, but keeps it beyond.
func (s *SQL) claimOn(ctx context.Context) (*job, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("receiver: connect: %w", err)
	}
	tx, err := s.begin(context.WithoutCancel(ctx), conn)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("receiver: begin: %w", err)
	}
	j, err := s.lockDue(ctx, tx)
	if j == nil {
		_ = tx.Rollback()
		_ = conn.Close()
		return nil, err
	}
	j.conn = conn
	return j, nil
}

// lockInbox makes SQLite's transaction one that writes before it reads: later it
// would be refused when someone else has written meanwhile. It changes nothing.
const lockInbox = `UPDATE {inbox} SET tries = tries WHERE 1 = 0`

// claimDue passes over rows that other workers have in hand.
const claimDue = `SELECT id, type, delivery_id, attempt, sent_at, body, tries FROM {inbox}
	WHERE scope = ? AND state = 0 AND due_at <= ? ORDER BY due_at LIMIT 1{skip locked}`

func (s *SQL) lockDue(ctx context.Context, tx *sql.Tx) (*job, error) {
	if s.o.Dialect == SQLite {
		if _, err := tx.ExecContext(ctx, s.statements[lockInbox]); err != nil {
			return nil, fmt.Errorf("receiver: lock the inbox: %w", err)
		}
	}
	j := &job{tx: tx}
	var sent int64
	err := tx.QueryRowContext(ctx, s.statements[claimDue], s.o.Scope, time.Now().UnixMilli()).
		Scan(&j.event.ID, &j.event.Type, &j.event.DeliveryID, &j.event.Attempt, &sent, &j.event.Body, &j.tries)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("receiver: take an event from the inbox: %w", err)
	}
	j.event.Timestamp = time.UnixMilli(sent)
	// What fn does can be undone without letting go of the row.
	if _, err := tx.ExecContext(ctx, `SAVEPOINT work`); err != nil {
		return nil, fmt.Errorf("receiver: set a savepoint: %w", err)
	}
	return j, nil
}

// handle works on one event and settles it. It survives whatever fn does.
func (s *SQL) handle(ctx context.Context, j *job, fn func(context.Context, *sql.Tx, Event) error) {
	defer j.end()
	err := protect(func() error { return fn(withTx(ctx, s.db, j.tx), j.tx, j.event) })
	settle := context.WithoutCancel(ctx)
	if err == nil {
		err = s.complete(settle, j)
	}
	if err == nil {
		return
	}
	if ctx.Err() != nil && interrupted(err) {
		return // the next Work takes it up
	}
	s.tell(j.event, err)
	if err := s.fail(settle, j, err); err != nil {
		s.tell(j.event, err)
	}
}

// interrupted reports whether an error may be due to the end of the context:
// drivers have words of their own for it, so any error that says nothing else is.
func interrupted(err error) bool {
	code, _ := Status(err)
	return code == http.StatusInternalServerError
}

// completeEvent drops the body; the rest stays as the mark.
const completeEvent = `UPDATE {inbox} SET state = 1, due_at = ?, tries = tries + 1, body = ?, reason = '' WHERE scope = ? AND id = ? AND state = 0`

func (s *SQL) complete(ctx context.Context, j *job) error {
	if _, err := s.exec(ctx, j.tx, completeEvent, time.Now().UnixMilli(), []byte{}, s.o.Scope, j.event.ID); err != nil {
		return err
	}
	return s.commit(j.tx)
}

// failEvent counts one try once, whoever else had the event in hand since.
const failEvent = `UPDATE {inbox} SET state = ?, due_at = ?, tries = tries + 1, reason = ? WHERE scope = ? AND id = ? AND state = 0 AND tries = ?`

// fail undoes the work and notes why, in the same transaction, so that nobody
// takes the event up in between. If that transaction is lost, a second one notes it.
func (s *SQL) fail(ctx context.Context, j *job, cause error) error {
	state, due := s.verdict(j.tries+1, cause)
	args := []any{state, due.UnixMilli(), storable(cause.Error(), maxReason), s.o.Scope, j.event.ID, j.tries}
	if _, err := j.tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT work`); err == nil {
		if _, err := s.exec(ctx, j.tx, failEvent, args...); err == nil && j.tx.Commit() == nil {
			return nil
		}
	}
	_ = j.tx.Rollback()
	_ = j.conn.Close() // it may be the only one that the pool may have
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return s.patiently(ctx, func() error {
		_, err := s.exec(ctx, s.db, failEvent, args...)
		return err
	})
}

// verdict returns what becomes of an event that failed so often, and when.
func (s *SQL) verdict(tries int, cause error) (state int, at time.Time) {
	now := time.Now()
	switch code, after := Status(cause); {
	case code == http.StatusUnprocessableEntity || code == http.StatusGone:
		return stateAside, now
	case after > 0:
		return stateWaiting, now.Add(after)
	default:
		return stateWaiting, now.Add(jitter(backoff(tries, maxBackoff)))
	}
}

// backoff is the longest wait after so many failures in a row.
func backoff(failures int, most time.Duration) time.Duration {
	wait := firstBackoff
	for n := 1; n < failures && wait < most; n++ {
		wait *= 2
	}
	return min(wait, most)
}

// tell keeps Work alive when OnError panics.
func (s *SQL) tell(e Event, err error) {
	_ = protect(func() error {
		s.o.OnError(e, err)
		return nil
	})
}
