package seed

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"

	"github.com/breakwaterhq/breakwater/internal/stats"
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
	if err := logFigures(ctx, path, records); err != nil {
		return nil, fmt.Errorf("seed: figures: %w", err)
	}
	if w.db, err = sqlite.Open(ctx, path, sqlite.Options{}); err != nil {
		return nil, err
	}
	if err := w.fold(ctx); err != nil {
		_ = w.db.Close()
		return nil, fmt.Errorf("seed: %w", err)
	}
	return &w.places, w.db.Close()
}

// tell writes everything but the figures, which it returns.
func tell(ctx context.Context, path, encryptionKey string, now time.Time) (*writer, []stats.Record, error) {
	db, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer db.Close()
	w, err := newWriter(ctx, db, encryptionKey, now)
	if err != nil {
		return nil, nil, err
	}
	tenants, all := cast()
	if err := w.enter(ctx, tenants, all); err != nil {
		return nil, nil, err
	}
	for _, chapter := range []func(context.Context, []*destination) error{w.writeRows, w.writeLanes, w.writeNews, w.writeAlerts, w.writeReplay} {
		if err := chapter(ctx, all); err != nil {
			return nil, nil, err
		}
	}
	return w, w.figures(all), w.leave(ctx)
}

// logFigures puts the logs where commits put theirs. The driver is that of the store.
func logFigures(ctx context.Context, path string, records []stats.Record) (err error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
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
