package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Errors of migrating. The binary must not serve with any of them.
var (
	// ErrSchemaNewer means that a newer version of the program has migrated
	// this database.
	ErrSchemaNewer = errors.New("database schema is newer than this program")
	// ErrSchemaChanged means that a migration was applied with other content
	// than the program carries.
	ErrSchemaChanged = errors.New("an applied migration differs from the one in this program")
	// ErrSchemaGap means that the database lacks a migration before one it has.
	ErrSchemaGap = errors.New("database schema has a gap")
	// ErrSchemaPending means that migrations wait to be applied.
	ErrSchemaPending = errors.New("database schema is not up to date")
)

// Migration is one step of the schema, written once and never changed.
type Migration struct {
	Version  int
	Name     string
	SQL      string
	Checksum [sha256.Size]byte
}

// AppliedMigration is the record of a migration in the database.
type AppliedMigration struct {
	Version   int
	Name      string
	Checksum  []byte
	AppliedAt time.Time
}

// MigrationStatus is one line of the migration list.
type MigrationStatus struct {
	Version   int
	Name      string
	AppliedAt time.Time // zero: pending
}

// Schema is what a dialect provides to be migrated.
type Schema interface {
	// AppliedMigrations reads the records, none when there is no table yet. It
	// changes nothing.
	AppliedMigrations(ctx context.Context) ([]AppliedMigration, error)
	// BeginMigration starts a transaction that no other process can start on
	// this database until it ends. It waits for its turn.
	BeginMigration(ctx context.Context) (MigrationTx, error)
}

// MigrationTx is a transaction that holds the migration lock.
type MigrationTx interface {
	// AppliedMigrations reads the records and makes their table when it is
	// missing.
	AppliedMigrations(ctx context.Context) ([]AppliedMigration, error)
	// ExecScript runs all statements of a migration.
	ExecScript(ctx context.Context, script string) error
	// RecordMigration stores the record of a migration.
	RecordMigration(ctx context.Context, m AppliedMigration) error
	Commit(ctx context.Context) error
	// Rollback ends the transaction; after Commit it does nothing.
	Rollback() error
}

// LoadMigrations reads the files 0001_name.sql, 0002_name.sql … in a folder of
// fsys. Versions count from 1 without a gap.
func LoadMigrations(fsys fs.FS, folder string) ([]Migration, error) {
	files, err := fs.Glob(fsys, path.Join(folder, "*.sql"))
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	if len(files) == 0 {
		return nil, errors.New("list migrations: none found")
	}
	slices.Sort(files)
	out := make([]Migration, len(files))
	for i, file := range files {
		if out[i], err = loadMigration(fsys, file); err != nil {
			return nil, err
		}
		if want := i + 1; out[i].Version != want {
			return nil, fmt.Errorf("migration %s: version must be %04d", file, want)
		}
	}
	return out, nil
}

func loadMigration(fsys fs.FS, file string) (Migration, error) {
	number, name, ok := strings.Cut(strings.TrimSuffix(path.Base(file), ".sql"), "_")
	version, err := strconv.Atoi(number)
	if !ok || err != nil || len(number) != 4 || name == "" {
		return Migration{}, fmt.Errorf("migration %s: name must be 0001_name.sql", file)
	}
	sql, err := fs.ReadFile(fsys, file)
	if err != nil {
		return Migration{}, fmt.Errorf("read migration: %w", err)
	}
	return Migration{Version: version, Name: name, SQL: string(sql), Checksum: sha256.Sum256(sql)}, nil
}

// MigrateUp applies every pending migration, each in a transaction of its own
// under the migration lock, and returns those it applied. Processes that start
// at once take turns: each looks again, under the lock, for what is left to do.
func MigrateUp(ctx context.Context, s Schema, known []Migration, now time.Time) ([]Migration, error) {
	var applied []Migration
	for {
		m, err := migrateNext(ctx, s, known, now)
		if err != nil {
			return applied, err
		}
		if m == nil {
			return applied, nil
		}
		applied = append(applied, *m)
	}
}

// migrateNext applies the first pending migration; nil when there is none.
func migrateNext(ctx context.Context, s Schema, known []Migration, now time.Time) (m *Migration, err error) {
	tx, err := s.BeginMigration(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin migration: %w", err)
	}
	defer func() {
		if rerr := tx.Rollback(); rerr != nil && err == nil {
			m, err = nil, fmt.Errorf("end migration: %w", rerr)
		}
	}()
	done, err := tx.AppliedMigrations(ctx)
	if err != nil {
		return nil, fmt.Errorf("read applied migrations: %w", err)
	}
	pending, err := pendingMigrations(known, done)
	if err != nil || len(pending) == 0 {
		return nil, err
	}
	next := pending[0]
	if err := tx.ExecScript(ctx, next.SQL); err != nil {
		return nil, fmt.Errorf("apply migration %04d_%s: %w", next.Version, next.Name, err)
	}
	record := AppliedMigration{Version: next.Version, Name: next.Name, Checksum: next.Checksum[:], AppliedAt: now}
	if err := tx.RecordMigration(ctx, record); err != nil {
		return nil, fmt.Errorf("record migration %04d_%s: %w", next.Version, next.Name, err)
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, fmt.Errorf("commit migration %04d_%s: %w", next.Version, next.Name, err)
	}
	return &next, nil
}

// MigrationList returns every known migration with the time it was applied. It
// fails like CheckSchema on a database that does not fit, pending ones apart.
func MigrationList(ctx context.Context, s Schema, known []Migration) ([]MigrationStatus, error) {
	done, err := s.AppliedMigrations(ctx)
	if err != nil {
		return nil, fmt.Errorf("read applied migrations: %w", err)
	}
	if _, err := pendingMigrations(known, done); err != nil {
		return nil, err
	}
	out := make([]MigrationStatus, len(known))
	for i, m := range known {
		out[i] = MigrationStatus{Version: m.Version, Name: m.Name}
		if i < len(done) {
			out[i].AppliedAt = done[i].AppliedAt
		}
	}
	return out, nil
}

// CheckSchema fails unless the database has exactly the known migrations.
func CheckSchema(ctx context.Context, s Schema, known []Migration) error {
	done, err := s.AppliedMigrations(ctx)
	if err != nil {
		return fmt.Errorf("read applied migrations: %w", err)
	}
	pending, err := pendingMigrations(known, done)
	if err != nil {
		return err
	}
	if len(pending) > 0 {
		return fmt.Errorf("%w: %d migrations are pending, the first is %04d_%s",
			ErrSchemaPending, len(pending), pending[0].Version, pending[0].Name)
	}
	return nil
}

// pendingMigrations compares what the program knows with what the database has,
// which must be a beginning of it. It sorts done by version.
func pendingMigrations(known []Migration, done []AppliedMigration) ([]Migration, error) {
	slices.SortFunc(done, func(a, b AppliedMigration) int { return a.Version - b.Version })
	for i, d := range done {
		if d.Version != i+1 {
			return nil, fmt.Errorf("%w: migration %04d is missing, %04d_%s is applied", ErrSchemaGap, i+1, d.Version, d.Name)
		}
		if i >= len(known) {
			return nil, fmt.Errorf("%w: it has migration %04d_%s, this program ends at %04d",
				ErrSchemaNewer, d.Version, d.Name, len(known))
		}
		if k := known[i]; !bytes.Equal(d.Checksum, k.Checksum[:]) {
			return nil, fmt.Errorf("%w: %04d_%s was applied as %s with another checksum", ErrSchemaChanged, k.Version, k.Name, d.Name)
		}
	}
	return known[len(done):], nil
}
