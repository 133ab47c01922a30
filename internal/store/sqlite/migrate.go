package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations returns the schema's migrations.
func Migrations() ([]store.Migration, error) {
	return store.LoadMigrations(migrationFiles, "migrations")
}

// Schema is a file opened for nothing but its migrations. It does not lock the
// directory: a list can be read while a server runs, and two processes that
// migrate take turns.
type Schema struct{ write *writer }

var _ store.Schema = (*Schema)(nil)

// OpenSchema opens or makes the file at path.
func OpenSchema(ctx context.Context, path string) (*Schema, error) {
	if err := checkUnused(path); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	w, err := openWriter(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	return &Schema{write: w}, nil
}

// Close closes the file.
func (s *Schema) Close() error { return s.write.close() }

func (s *Schema) up(ctx context.Context, now time.Time) error {
	known, err := Migrations()
	if err != nil {
		return err
	}
	_, err = store.MigrateUp(ctx, s, known, now)
	return err
}

// AppliedMigrations implements store.Schema.
func (s *Schema) AppliedMigrations(ctx context.Context) ([]store.AppliedMigration, error) {
	return appliedBy{s.write.conn}.AppliedMigrations(ctx)
}

// BeginMigration implements store.Schema. The lock is SQLite's own: one write
// transaction at a time, for which others wait.
func (s *Schema) BeginMigration(ctx context.Context) (store.MigrationTx, error) {
	if _, err := s.write.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	return &migrationTx{conn: s.write.conn}, nil
}

// appliedBy reads the records through any connection.
type appliedBy struct{ querier }

const hasMigrations = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'`

// AppliedMigrations returns the records, none without their table.
func (a appliedBy) AppliedMigrations(ctx context.Context) ([]store.AppliedMigration, error) {
	var tables int
	if err := a.QueryRowContext(ctx, hasMigrations).Scan(&tables); err != nil || tables == 0 {
		return nil, err
	}
	var out []store.AppliedMigration
	err := eachRow(sqlstore.Collect(&out, sqlstore.ScanMigration), func() (*sql.Rows, error) { return a.QueryContext(ctx, sqlstore.AppliedMigrations) })
	return out, err
}

// BeginMigration makes appliedBy a store.Schema that can only be looked at.
func (appliedBy) BeginMigration(context.Context) (store.MigrationTx, error) {
	return nil, errors.ErrUnsupported
}

type migrationTx struct {
	conn *sql.Conn
	done bool
}

const createMigrations = `
CREATE TABLE IF NOT EXISTS schema_migrations (
  version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum BLOB NOT NULL, applied_at INTEGER NOT NULL) STRICT`

func (t *migrationTx) AppliedMigrations(ctx context.Context) ([]store.AppliedMigration, error) {
	if _, err := t.conn.ExecContext(ctx, createMigrations); err != nil {
		return nil, err
	}
	return appliedBy{t.conn}.AppliedMigrations(ctx)
}

func (t *migrationTx) ExecScript(ctx context.Context, script string) error {
	_, err := t.conn.ExecContext(ctx, script)
	return err
}

const insertMigration = `INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES (?, ?, ?, ?)`

func (t *migrationTx) RecordMigration(ctx context.Context, m store.AppliedMigration) error {
	_, err := t.conn.ExecContext(ctx, insertMigration, m.Version, m.Name, m.Checksum, m.AppliedAt.UnixMicro())
	return err
}

func (t *migrationTx) Commit(ctx context.Context) error {
	if _, err := t.conn.ExecContext(ctx, "COMMIT"); err != nil {
		return err
	}
	t.done = true
	return nil
}

func (t *migrationTx) Rollback() error {
	if t.done {
		return nil
	}
	t.done = true
	_, err := t.conn.ExecContext(context.Background(), "ROLLBACK")
	return err
}
