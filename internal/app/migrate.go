package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// Migration is one step of the database schema.
type Migration = store.MigrationStatus

// schema is a database whose schema can be looked at or changed.
type schema interface {
	store.Schema
	Close() error
}

func openSchema(ctx context.Context, o *Options) (schema, []store.Migration, error) {
	if o.DatabaseURL != "" {
		known, err := postgres.Migrations()
		if err != nil {
			return nil, nil, err
		}
		s, err := postgres.OpenSchema(ctx, o.DatabaseURL)
		return s, known, err
	}
	known, err := sqlite.Migrations()
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make data dir: %w", err)
	}
	s, err := sqlite.OpenSchema(ctx, filepath.Join(o.DataDir, databaseFile))
	return s, known, err
}

// MigrationStatus lists the migrations of the store and applies none.
func MigrationStatus(ctx context.Context, o Options) (_ []Migration, err error) {
	s, known, err := openSchema(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return store.MigrationList(ctx, s, known)
}

// MigrateUp brings the store's schema up to date and returns what it applied.
func MigrateUp(ctx context.Context, o Options) (_ []Migration, err error) {
	s, known, err := openSchema(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	now := time.Now()
	rows, err := store.MigrateUp(ctx, s, known, now)
	if err != nil {
		return nil, err
	}
	out := make([]Migration, len(rows))
	for i, r := range rows {
		out[i] = Migration{Version: r.Version, Name: r.Name, AppliedAt: now}
	}
	return out, nil
}
