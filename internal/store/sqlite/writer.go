package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// writer is the one connection that writes. Whoever has its turn may use it;
// waiting for the turn ends with the caller's context, but a transaction that
// has begun runs to its end: interrupting a commit would only leave its outcome
// unknown.
type writer struct {
	turn chan struct{} // holds one token while nobody writes
	pool *sql.DB
	conn *sql.Conn
	fast fastPath

	logged   int          // pages in the log since the last checkpoint
	frame    int64        // bytes that a page takes in the log
	written  atomic.Int64 // bytes in the log, all in all
	unmarked bool         // the next transaction may begin a log and has to draw a mark
}

func openWriter(ctx context.Context, path string) (*writer, error) {
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	pool, err := openPool(path, 1, writerSettings)
	if err != nil {
		return nil, err
	}
	w := &writer{turn: make(chan struct{}, 1), pool: pool, fast: newFastPath(), unmarked: true}
	if w.conn, err = pool.Conn(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open for writing: %w", err), pool.Close())
	}
	if err := checkDurable(ctx, w.conn); err != nil {
		return nil, errors.Join(err, w.conn.Close(), pool.Close())
	}
	if err := w.conn.QueryRowContext(ctx, "PRAGMA page_size").Scan(&w.frame); err != nil {
		return nil, errors.Join(fmt.Errorf("read page size: %w", err), w.conn.Close(), pool.Close())
	}
	w.frame += logFrameHeader
	w.turn <- struct{}{}
	return w, nil
}

// makePrivate creates the file so that only its owner can read it. SQLite gives
// the files it makes beside it the same rights.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("create file: %w", err)
	}
	return f.Close()
}

// acquire waits for the turn.
func (w *writer) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) release() { w.turn <- struct{}{} }

// close waits for the turn and keeps it.
func (w *writer) close() error {
	<-w.turn
	return errors.Join(w.fast.close(), w.conn.Close(), w.pool.Close())
}

// update runs fn in a write transaction and commits it unless fn fails.
func (d *DB) update(ctx context.Context, doing string, fn func(tx) error) error {
	return d.exclusive(ctx, doing, func(ctx context.Context) error {
		if err := d.write.transaction(ctx, fn); err != nil {
			return err
		}
		return d.checkpointAt(ctx, checkpointPages)
	})
}

// transaction is update for a caller that has the turn.
func (w *writer) transaction(ctx context.Context, fn func(tx) error) error {
	if _, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := fn(tx{ctx, w.conn})
	if err == nil {
		_, err = w.conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		// SQLite has already rolled back after some errors; then there is
		// nothing left to roll back, and the first error is the one to tell.
		_, _ = w.conn.ExecContext(ctx, "ROLLBACK")
	}
	return err
}

// exclusive runs fn with the writer's turn, in a context that does not end.
func (d *DB) exclusive(ctx context.Context, doing string, fn func(context.Context) error) error {
	if err := d.write.acquire(ctx); err != nil {
		return fmt.Errorf("%s: wait for the writer: %w", doing, err)
	}
	defer d.write.release()
	if err := d.usable(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if err := d.write.markLog(ctx); err != nil {
		return d.fail(doing, err)
	}
	return d.fail(doing, fn(ctx))
}
