// Package upkeep looks after the store of a server from outside of it: it changes
// keys and looks whether everything is as it should be.
//
// It serves nothing. What may only be done to a store that nobody uses, it does under
// the store's own lock.
package upkeep

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/dirlock"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// fewConns is the least that a store on PostgreSQL takes: servers need the others.
const fewConns = 8

// database is where the embedded store is.
func database(o *app.Options) string { return filepath.Join(o.DataDir, sqlite.FileName) }

// open opens the store as it is. The embedded one must exist, and nobody else may
// use it.
func open(ctx context.Context, o *app.Options) (store.DB, error) {
	if o.DatabaseURL != "" {
		db, err := postgres.Open(ctx, o.DatabaseURL, postgres.Options{MaxConns: fewConns, SkipMigrate: true, Log: o.Log})
		if err != nil {
			return nil, fmt.Errorf("open postgres store: %w", err)
		}
		return db, nil
	}
	if _, err := os.Stat(database(o)); err != nil {
		return nil, fmt.Errorf("find store: %w; name its folder with --data-dir", err)
	}
	db, err := sqlite.Open(ctx, database(o), sqlite.Options{SkipMigrate: true})
	if errors.Is(err, dirlock.ErrLocked) {
		return nil, fmt.Errorf("a server uses this store; stop it first: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open embedded store: %w", err)
	}
	return db, nil
}

// nextID draws an id without being a node: at random among those of the millisecond.
func nextID(now time.Time) hook.ID {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hook.IDFloor(now) + hook.ID(binary.BigEndian.Uint32(b[:])&(1<<22-1))
}
