package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// backups makes copies of the embedded store for the API. A copy stays in the
// data folder until it has been handed over.
type backups struct {
	db      *sqlite.DB
	dir     string
	free    func() (int64, error)
	reserve int64
	running sync.Mutex
}

// unfinishedCopies are those of a process that ended while it made one.
const (
	copyPrefix = "backup-"
	copySuffix = ".tmp"
)

// backups returns who makes copies; nil for a store that has tools of its own.
func (a *App) backups() api.Backups {
	db, ok := a.db.(*sqlite.DB)
	if !ok {
		return nil
	}
	return &backups{db: db, dir: a.opts.DataDir, free: a.diskFree(), reserve: a.opts.DiskReserve}
}

// removeUnfinishedCopies makes room again after a crash.
func (a *App) removeUnfinishedCopies() error {
	left, err := filepath.Glob(filepath.Join(a.opts.DataDir, copyPrefix+"*"+copySuffix))
	if err != nil {
		return fmt.Errorf("find unfinished backups: %w", err)
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove unfinished backup: %w", err)
		}
	}
	return nil
}

// Backup implements api.Backups.
func (b *backups) Backup(ctx context.Context) (io.ReadCloser, int64, error) {
	if !b.running.TryLock() {
		return nil, 0, fmt.Errorf("%w: another backup is being made", hook.ErrStateConflict)
	}
	defer b.running.Unlock()
	if err := b.checkRoom(); err != nil {
		return nil, 0, err
	}
	path := filepath.Join(b.dir, copyPrefix+rand.Text()+copySuffix)
	if err := b.db.Backup(ctx, path); err != nil {
		return nil, 0, err
	}
	file, err := os.Open(path)
	// The copy lives as long as it is read, and not a moment longer.
	if err := errors.Join(err, os.Remove(path)); err != nil {
		return nil, 0, fmt.Errorf("open backup: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open backup: %w", err), file.Close())
	}
	return file, info.Size(), nil
}

// checkRoom refuses a copy that would use up what is kept back for deliveries.
func (b *backups) checkRoom() error {
	info, err := os.Stat(filepath.Join(b.dir, databaseFile))
	if err != nil {
		return fmt.Errorf("measure store: %w", err)
	}
	free, err := b.free()
	if err != nil {
		return err
	}
	if free-info.Size() < b.reserve {
		return fmt.Errorf("%w: a copy of %d bytes does not fit beside the store", hook.ErrStoreFull, info.Size())
	}
	return nil
}

// CheckBackup reads all of a copy and reports the first thing that is wrong.
func CheckBackup(ctx context.Context, path string) error { return sqlite.CheckFile(ctx, path) }

// BackUpFolder copies the store of a server that does not run.
func BackUpFolder(ctx context.Context, dir, to string) (err error) {
	path := filepath.Join(dir, databaseFile)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("find store: %w", err)
	}
	db, err := sqlite.Open(ctx, path, sqlite.Options{SkipMigrate: true})
	if err != nil {
		return err
	}
	return errors.Join(db.Backup(ctx, to), db.Close())
}

// Restored is where a backup went.
type Restored struct {
	File       string
	MissingKey string // the file that should be beside it and is not; empty: it is, or a key is configured
}

// Restore puts a backup in place in the data folder, which must hold no part of
// a store.
func Restore(ctx context.Context, o Options, from string) (Restored, error) {
	if o.DatabaseURL != "" {
		return Restored{}, errors.New("database_url is set: restore PostgreSQL with its own tools, such as pg_restore")
	}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return Restored{}, fmt.Errorf("make data dir: %w", err)
	}
	out := Restored{File: filepath.Join(o.DataDir, databaseFile)}
	if err := sqlite.Restore(ctx, from, out.File); err != nil {
		return Restored{}, err
	}
	key := filepath.Join(o.DataDir, secretFile)
	if _, err := os.Stat(key); err != nil && len(o.EncryptionKeys) == 0 {
		out.MissingKey = key
	}
	return out, nil
}
