// Package sqlite is the store on one SQLite file: the default, for one node.
//
// One connection writes, a pool of read-only connections reads, and the
// directory is locked, so nobody else does either. Every commit is on disk when
// it returns (WAL, synchronous=FULL); Open refuses to run on less.
//
// It does not group writes (store.Writer does), does not know what a write
// means, and gives up for good after an I/O error instead of guessing what
// reached the disk.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/dirlock"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

// FileName is the usual name of the database file in a data directory.
const FileName = "breakwater.db"

// Options configure a DB. Zero fields mean the defaults given.
type Options struct {
	// Readers bounds the connections that read; 4.
	Readers int
	// SkipMigrate leaves the schema as it is; Open then fails when it is not
	// current.
	SkipMigrate bool
	// Figures say how figures are kept.
	Figures store.FigureOptions
	// Trouble is told of every read that failed because of the store, damage
	// (store.ErrDamaged) among them; it must not block. nil: nobody is.
	Trouble func(doing string, err error)
}

// DB is a store on SQLite. It implements store.DB.
type DB struct {
	*sqlstore.Tables

	path  string
	lock  *dirlock.Lock
	write *writer
	read  *sql.DB

	failed  atomic.Pointer[error] // set once the file can no longer be trusted
	lost    chan struct{}         // closed then
	trouble func(doing string, err error)

	shards   shardTable
	prepared sync.Map // query text → *sql.Stmt on the read pool
}

var (
	_ store.DB     = (*DB)(nil)
	_ store.Tidier = (*DB)(nil)
	_ store.Mortal = (*DB)(nil)
	_ store.Logged = (*DB)(nil)
)

// Open locks the directory of the file at path, opens or makes the file, brings
// its schema up to date and checks that commits are durable.
func Open(ctx context.Context, path string, o Options) (*DB, error) {
	lock, err := dirlock.Acquire(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	d := &DB{path: path, lock: lock, lost: make(chan struct{}), trouble: o.Trouble}
	d.Tables = sqlstore.New(dialect{d}, o.Figures)
	if err := d.open(ctx, path, o); err != nil {
		return nil, errors.Join(openError(path, err), d.Close())
	}
	return d, nil
}

func (d *DB) open(ctx context.Context, path string, o Options) error {
	if err := checkFiles(path); err != nil {
		return err
	}
	var err error
	if d.write, err = openWriter(ctx, path); err != nil {
		return err
	}
	if err := d.write.markLog(ctx); err != nil {
		return err
	}
	schema := &Schema{write: d.write}
	if !o.SkipMigrate {
		if err := schema.up(ctx, time.Now()); err != nil {
			return err
		}
	}
	if d.read, err = openReaders(ctx, path, cmp.Or(o.Readers, 4)); err != nil {
		return err
	}
	if err := d.Ping(ctx); err != nil {
		return err
	}
	return d.loadShards(ctx)
}

// Close waits for the write that is running, closes all connections and gives
// the directory up. The store must not be used afterwards.
func (d *DB) Close() error {
	var errs []error
	d.prepared.Range(func(_, stmt any) bool {
		errs = append(errs, stmt.(*sql.Stmt).Close())
		return true
	})
	if d.read != nil {
		errs = append(errs, d.read.Close())
	}
	if d.write != nil {
		errs = append(errs, d.write.close())
	}
	errs = append(errs, d.lock.Release())
	return errors.Join(errs...)
}

// Shared reports false: the one node owns everything.
func (d *DB) Shared() bool { return false }

// Ping checks that the store answers and that its schema is current.
func (d *DB) Ping(ctx context.Context) error {
	if err := d.usable(); err != nil {
		return err
	}
	known, err := Migrations()
	if err != nil {
		return err
	}
	return d.vitalErr("check schema", store.CheckSchema(ctx, appliedBy{d.read}, known))
}

// maxID looks at every table whose ids are drawn from the node's source, so
// that none is drawn twice after the clock was set back.
const maxID = `
SELECT max(
  coalesce((SELECT max(id) FROM events), 0), coalesce((SELECT max(id) FROM deliveries), 0),
  coalesce((SELECT max(id) FROM attempts), 0), coalesce((SELECT max(id) FROM first_attempts), 0), coalesce((SELECT max(id) FROM audit), 0),
  coalesce((SELECT max(id) FROM tenants), 0), coalesce((SELECT max(id) FROM endpoints), 0),
  coalesce((SELECT max(id) FROM secrets), 0), coalesce((SELECT max(id) FROM api_keys), 0),
  coalesce((SELECT max(id) FROM replays), 0), coalesce((SELECT max(id) FROM operational_events), 0),
  coalesce((SELECT max(id) FROM alerts), 0), coalesce((SELECT max(id) FROM alert_channels), 0),
  coalesce((SELECT max(id) FROM named_policies), 0), coalesce((SELECT max(id) FROM event_types), 0))`

// MaxID returns the greatest id stored, 0 in an empty store.
func (d *DB) MaxID(ctx context.Context) (hook.ID, error) {
	id, err := first(list(ctx, d, sqlstore.ScanValue[hook.ID], maxID))
	return id, d.vitalErr("read greatest id", err)
}

// Prepare has nothing to do: SQLite has no partitions.
func (d *DB) Prepare(context.Context, time.Time) error { return d.usable() }
