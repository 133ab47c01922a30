package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations returns the schema's steps that this program knows.
func Migrations() ([]store.Migration, error) {
	return store.LoadMigrations(migrationFiles, "migrations")
}

// beginner is a connection or a pool.
type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Schema lets a database be migrated, or asked how far it is, without opening
// it as a store.
type Schema struct {
	db    beginner
	close func() error
}

var _ store.Schema = (*Schema)(nil)

// OpenSchema connects to the database at dsn and changes nothing.
func OpenSchema(ctx context.Context, dsn string) (*Schema, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read database address: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, withSettings(config, patient))
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return &Schema{db: conn, close: func() error { return conn.Close(context.WithoutCancel(ctx)) }}, nil
}

// Close closes the connection.
func (s *Schema) Close() error { return s.close() }

// AppliedMigrations reads the records, none when there is no table yet.
func (s *Schema) AppliedMigrations(ctx context.Context) ([]store.AppliedMigration, error) {
	done, err := readApplied(s.db.Query(ctx, sqlstore.AppliedMigrations))
	if isCode(err, codeUndefinedTable) {
		return nil, nil
	}
	return done, err
}

func readApplied(rows pgx.Rows, err error) (done []store.AppliedMigration, _ error) {
	err = read(sqlstore.Collect(&done, sqlstore.ScanMigration))(rows, err)
	return done, err
}

// BeginMigration starts a transaction under the migration lock.
func (s *Schema) BeginMigration(ctx context.Context) (store.MigrationTx, error) {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, 0)`, lockMigrate); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for the migration lock: %w", err), tx.Rollback(ctx))
	}
	return &migration{tx: tx}, nil
}

// migration is one migration's transaction.
type migration struct{ tx pgx.Tx }

const makeRecords = `
CREATE TABLE IF NOT EXISTS schema_migrations (
  version integer PRIMARY KEY, name text NOT NULL, checksum bytea NOT NULL, applied_at timestamptz NOT NULL)`

// AppliedMigrations reads the records and makes their table when it is missing.
func (m *migration) AppliedMigrations(ctx context.Context) ([]store.AppliedMigration, error) {
	if _, err := m.tx.Exec(ctx, makeRecords); err != nil {
		return nil, fmt.Errorf("make table of migrations: %w", err)
	}
	return readApplied(m.tx.Query(ctx, sqlstore.AppliedMigrations))
}

// ExecScript runs all statements of a migration.
func (m *migration) ExecScript(ctx context.Context, script string) error {
	_, err := m.tx.Exec(ctx, script, pgx.QueryExecModeSimpleProtocol)
	return err
}

const recordMigration = `INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES ($1, $2, $3, $4)`

// RecordMigration stores the record of a migration.
func (m *migration) RecordMigration(ctx context.Context, r store.AppliedMigration) error {
	_, err := m.tx.Exec(ctx, recordMigration, r.Version, r.Name, r.Checksum, at(r.AppliedAt))
	return err
}

// Commit ends the transaction and keeps what it did.
func (m *migration) Commit(ctx context.Context) error { return m.tx.Commit(ctx) }

// Rollback ends the transaction; after Commit it does nothing.
func (m *migration) Rollback() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := m.tx.Rollback(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	return nil
}

// migrate brings the schema up to date, makes room for the coming days and,
// when something changed, lets the planner look at it: without statistics it
// would scan young tables from end to end.
func migrate(ctx context.Context, conn *pgx.Conn, known []store.Migration, now time.Time) error {
	applied, err := store.MigrateUp(ctx, &Schema{db: conn}, known, now)
	if err != nil {
		return err
	}
	if err := createPartitions(ctx, conn, preparedDays(now)); err != nil {
		return err
	}
	if len(applied) == 0 {
		return nil
	}
	if _, err := conn.Exec(ctx, "ANALYZE"); err != nil {
		return fmt.Errorf("analyze after migrating: %w", err)
	}
	return nil
}
