package seed

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// Story writes the whole story into a new data folder. A server that is started on it
// with Node as its name goes on with it.
func Story(ctx context.Context, dir, encryptionKey string, now time.Time) (*Places, error) {
	path := filepath.Join(dir, sqlite.FileName)
	w, records, err := tell(ctx, path, encryptionKey, now)
	if err != nil {
		return nil, fmt.Errorf("seed: %w", err)
	}
	if err := countReplay(ctx, path, &w.replayed); err != nil {
		return nil, fmt.Errorf("seed: counts of the replay: %w", err)
	}
	return &w.places, keepFigures(ctx, path, records)
}

// countReplay puts down what became of a replay. The store does it with each result,
// and those of yesterday are not all there.
func countReplay(ctx context.Context, path string, j *hook.ReplayJob) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	c := &j.Counts
	_, err = db.ExecContext(ctx, `UPDATE replays SET fed = ?, delivered = ?, failed = ?, answers = ?, errors = ?, refused = ? WHERE id = ?`,
		c.Fed, c.Delivered, c.Failed, c.Answers, c.Errors, c.Refused, j.ID)
	return err
}

// BulkSQLite is Bulk into a new data folder.
func BulkSQLite(ctx context.Context, dir, encryptionKey string, size Size, now time.Time, progress func(done int)) (*Places, error) {
	path := filepath.Join(dir, sqlite.FileName)
	db, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	places, records, err := Bulk(ctx, db, encryptionKey, size, now, progress)
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("seed: %w", err)
	}
	if err := copySQLite(ctx, path); err != nil {
		return nil, fmt.Errorf("seed: copy: %w", err)
	}
	return places, keepFigures(ctx, path, records)
}

// BulkPostgres is Bulk into an empty database.
func BulkPostgres(ctx context.Context, dsn, encryptionKey string, size Size, now time.Time, progress func(done int)) (*Places, error) {
	db, err := postgres.Open(ctx, dsn, postgres.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	places, records, err := Bulk(ctx, db, encryptionKey, size, now, progress)
	if err != nil {
		return nil, fmt.Errorf("seed: %w", err)
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := copyPostgres(ctx, conn); err != nil {
		return nil, fmt.Errorf("seed: copy: %w", err)
	}
	rows := pgx.CopyFromSlice(len(records), func(i int) ([]any, error) { return []any{records[i].At.Unix(), records[i].Packed}, nil })
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{"stats_log"}, []string{"at", "data"}, rows); err != nil {
		return nil, fmt.Errorf("seed: figures: %w", err)
	}
	if err := fold(ctx, db); err != nil {
		return nil, fmt.Errorf("seed: %w", err)
	}
	_, err = conn.Exec(ctx, "ANALYZE")
	return places, err
}

// keepFigures puts figures into a store that nobody has open.
func keepFigures(ctx context.Context, path string, records []stats.Record) error {
	if err := logFigures(ctx, path, records); err != nil {
		return fmt.Errorf("seed: figures: %w", err)
	}
	db, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	if err := errors.Join(fold(ctx, db), db.Close()); err != nil {
		return fmt.Errorf("seed: figures: %w", err)
	}
	return nil
}

// tell writes everything but the figures, which it returns.
func tell(ctx context.Context, path, encryptionKey string, now time.Time) (*writer, []stats.Record, error) {
	db, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = db.Close() }()
	w, err := newWriter(ctx, db, encryptionKey, now)
	if err != nil {
		return nil, nil, err
	}
	tenants, all := cast()
	if err := w.enter(ctx, tenants, all); err != nil {
		return nil, nil, err
	}
	if err := w.enterKeys(ctx, tenants); err != nil {
		return nil, nil, err
	}
	for _, chapter := range []func(context.Context, []*destination) error{w.writeRows, w.writeLanes, w.writeNews, w.writeAlerts, w.writeReplay} {
		if err := chapter(ctx, all); err != nil {
			return nil, nil, err
		}
	}
	records := w.figures(all)
	err = w.leave(ctx)
	return w, records, err
}

// logFigures puts the logs where commits put theirs. The driver is that of the store.
func logFigures(ctx context.Context, path string, records []stats.Record) (err error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	for _, r := range records {
		if _, err := tx.ExecContext(ctx, `INSERT INTO stats_log (at, data) VALUES (?, ?)`, r.At.Unix(), r.Packed); err != nil {
			return err
		}
	}
	return tx.Commit()
}
