// Package postgres is the PostgreSQL dialect of package store: several nodes
// share one database, each shard has one owner at a time, and hints travel by
// NOTIFY.
//
// It holds statements and connections only. Grouping what is waiting into
// batches is store.Writer's job, deciding what to take over and when is the
// dispatcher's. No statement reads the database's clock, leases excepted.
//
// Six kinds of connections never wait for each other: a pool for reads and
// changes made by people, one for the reads of lanes, the writers of batches,
// one for lease renewals, one for sending hints and one for listening.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/hints"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// Options configure a DB. Zero fields mean the defaults given.
type Options struct {
	// MaxConns bounds the connections of this node; 16. Eight is the least.
	MaxConns int
	// SkipMigrate leaves the schema as it is; Open then fails when it is not
	// current.
	SkipMigrate bool
	// Figures say how figures are kept.
	Figures store.FigureOptions
	// Log gets what nobody waits for: lost listener connections, take-overs
	// that had to end a stuck session. Nil: nothing is logged.
	Log *slog.Logger
}

// DB is a store on PostgreSQL. It implements store.DB and store.Hints.
type DB struct {
	*sqlstore.Tables

	config *pgx.ConnConfig   // of single connections: listener, maintenance
	known  []store.Migration // the schema this program needs
	log    *slog.Logger

	pool     *pgxpool.Pool // reads, changes by people, take-overs
	lanes    *pgxpool.Pool // what lanes read
	writers  *pgxpool.Pool // Commit
	renewals *pgxpool.Pool // lease renewals and heartbeats
	notify   *pgxpool.Pool // hints
	hints    *hints.Channel

	nodesMu sync.Mutex
	nodes   map[hook.ID]*node

	// cleared is the day that Prune is removing and has found free of
	// deliveries that must stay, so that not every step walks over all of it.
	cleared atomic.Int64
}

// noDay is the value of DB.cleared between two days.
const noDay = -1

var (
	_ store.DB               = (*DB)(nil)
	_ store.Hints            = (*DB)(nil)
	_ store.DueReader        = (*DB)(nil)
	_ store.DeferredInserter = (*DB)(nil)
)

// Open connects to the database at dsn, checks that the server keeps what it
// confirms, brings the schema up to date and makes it ready for the coming
// days.
func Open(ctx context.Context, dsn string, o Options) (*DB, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read database address: %w", err)
	}
	known, err := Migrations()
	if err != nil {
		return nil, err
	}
	d := &DB{
		config: withSettings(config.ConnConfig, patient),
		known:  known,
		log:    cmp.Or(o.Log, slog.New(slog.DiscardHandler)),

		nodes: make(map[hook.ID]*node),
	}
	d.Tables = sqlstore.New(dialect{d}, o.Figures)
	d.cleared.Store(noDay)
	if err := d.setUp(ctx, o); err != nil {
		return nil, err
	}
	if err := d.openPools(ctx, config, cmp.Or(o.MaxConns, 16)); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.hints = hints.New(hints.Config{Pool: d.notify, Alone: d.alone, Log: d.log})
	if err := d.Ping(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Hint implements store.Hints.
func (d *DB) Hint(ctx context.Context, h store.Hint) error { return d.hints.Hint(ctx, h) }

// Listen implements store.Hints.
func (d *DB) Listen(ctx context.Context, fn func(store.Hint)) error { return d.hints.Listen(ctx, fn) }

// setUp checks the server and migrates, on a connection of its own: both need
// more time than a statement of the pool gets.
func (d *DB) setUp(ctx context.Context, o Options) error {
	return d.alone(ctx, func(conn *pgx.Conn) error {
		if err := checkServer(ctx, conn); err != nil {
			return err
		}
		if o.SkipMigrate {
			if err := store.CheckSchema(ctx, &Schema{db: conn}, d.known); err != nil {
				return err
			}
			return createPartitions(ctx, conn, preparedDays(time.Now()))
		}
		return migrate(ctx, conn, d.known, time.Now())
	})
}

// alone runs fn on a connection of its own, without statement timeout.
func (d *DB) alone(ctx context.Context, fn func(*pgx.Conn) error) error {
	conn, err := pgx.ConnectConfig(ctx, d.config)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	err = fn(conn)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(closing) // the work is done or has failed; closing changes neither
	return err
}

// Shared reports true: any number of nodes may work on this database.
func (d *DB) Shared() bool { return true }

// Close closes all connections. Listen ends with its context.
func (d *DB) Close() error {
	for _, p := range []*pgxpool.Pool{d.pool, d.lanes, d.writers, d.renewals, d.notify} {
		if p != nil {
			p.Close()
		}
	}
	return nil
}

const partitionsThere = `SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL`

// Ping checks that the store answers, that its schema is the one this program
// knows, and that tomorrow's rows have a place to go.
func (d *DB) Ping(ctx context.Context) error {
	if err := store.CheckSchema(ctx, &Schema{db: d.pool}, d.known); err != nil {
		return err
	}
	tomorrow := dayOf(hook.IDFloor(time.Now().Add(24 * time.Hour)))
	var ready bool
	err := d.pool.QueryRow(ctx, partitionsThere, tomorrow.partition("events"), tomorrow.partition("attempts")).Scan(&ready)
	switch {
	case err != nil:
		return fmt.Errorf("look for partitions: %w", err)
	case !ready:
		return fmt.Errorf("the partitions of %s are missing", tomorrow)
	}
	return nil
}

// idBound is the id of a minute from now, by the database's clock.
const idBound = `(((extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1704067200000 + 60000) << 22)`

// greatestID looks at the three tables that get most ids. An attempt that came
// with its delivery's row is no more than its timeout younger. Ids beyond the
// database's own time are left out: a node with a fast clock drew them, and
// going on from there would spread its error over all nodes.
const greatestID visible.SQL = `
WITH bound AS (SELECT ` + idBound + ` AS id)
SELECT greatest(
  (SELECT max(id) FROM events WHERE id <= (SELECT id FROM bound)),
  (SELECT max(id) FROM deliveries WHERE id <= (SELECT id FROM bound)),
  (SELECT max(id) FROM attempts WHERE id <= (SELECT id FROM bound)), 0)`

// MaxID returns the greatest id stored, so that a node restarted with its
// clock set back draws no id twice.
func (d *DB) MaxID(ctx context.Context) (hook.ID, error) {
	seen, err := d.makeVisible(ctx, deferred.Scope{})
	if err != nil {
		return 0, fmt.Errorf("read the greatest id: %w", err)
	}
	var id hook.ID
	if err := d.pool.QueryRow(ctx, seen.Text(greatestID)).Scan(&id); err != nil {
		return 0, fmt.Errorf("read the greatest id: %w", err)
	}
	return id, nil
}
