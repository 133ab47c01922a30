package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// minServerVersion is PostgreSQL 13: DETACH … CONCURRENTLY came with 14 and is
// used where it exists.
const minServerVersion = 130000

// session is what every connection sets. A node that stops in the middle of a
// transaction must not keep its locks, hence the idle limit; JIT costs more
// than it saves on statements this short.
var session = map[string]string{
	"TimeZone":                            "UTC",
	"jit":                                 "off",
	"idle_in_transaction_session_timeout": "5s",
}

// The settings of each kind of connection, beside those of session.
var (
	// readers answer people: what takes longer than this is better
	// refused than queued. Every read has an index that delivers its order;
	// the planner is kept from scanning and sorting while the statistics of a
	// young table make that look cheap.
	readers = map[string]string{
		"statement_timeout": "2s",
		"enable_seqscan":    "off",
		"enable_bitmapscan": "off",
	}

	// laneReaders run the same few statements all the time. Each has one good
	// plan, and making it anew would cost more than most of the reads.
	laneReaders = map[string]string{
		"statement_timeout": "2s",
		"plan_cache_mode":   "force_generic_plan",
		"enable_seqscan":    "off",
		"enable_bitmapscan": "off",
	}

	// committers run a handful of statements, each of which has one good plan:
	// nested loops over primary keys, driven by the arrays of the batch. The
	// planner is told so, because it would otherwise pick scans and hash joins
	// while the tables are small and keep them when they no longer are. With pages
	// that cost nearly nothing it counts rows: reading all of a table that has one
	// page would look as cheap as looking one row up.
	committers = map[string]string{
		"statement_timeout": "10s",
		"plan_cache_mode":   "force_generic_plan",
		"enable_seqscan":    "off",
		"enable_hashjoin":   "off",
		"enable_mergejoin":  "off",
		"random_page_cost":  "0.02",
		"seq_page_cost":     "0.02",
		"work_mem":          "32MB", // arrays with large payloads stay in memory
	}

	// renewers must be quick or fail: a lease is worth less every second.
	renewers = map[string]string{"statement_timeout": "4s", "lock_timeout": "3s"}

	// patient connections migrate, prune and listen.
	patient = map[string]string{"statement_timeout": "0"}
)

// withSettings returns a copy of c whose connections set the given parameters.
func withSettings(c *pgx.ConnConfig, settings map[string]string) *pgx.ConnConfig {
	c = c.Copy()
	maps.Copy(c.RuntimeParams, session)
	maps.Copy(c.RuntimeParams, settings)
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "breakwater"
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 5 * time.Second
	}
	return c
}

// openPools opens the five pools. One connection is left for the listener.
func (d *DB) openPools(ctx context.Context, config *pgxpool.Config, maxConns int) error {
	const writers, renewals, notify, listener = 2, 1, 1, 1
	rest := maxConns - writers - renewals - notify - listener
	lanes := max(rest/2, 1)
	reads := max(rest-lanes, 2)
	for _, p := range []struct {
		pool     **pgxpool.Pool
		size     int
		settings map[string]string
	}{
		{&d.pool, reads, readers},
		{&d.lanes, lanes, laneReaders},
		{&d.writers, writers, committers},
		{&d.renewals, renewals, renewers},
		{&d.notify, notify, renewers},
	} {
		c := config.Copy()
		c.ConnConfig = withSettings(config.ConnConfig, p.settings)
		c.MinConns, c.MaxConns = min(c.MinConns, int32(p.size)), int32(p.size)
		// A setting of the role or the database can change while we run.
		c.AfterConnect = checkDurable
		pool, err := pgxpool.NewWithConfig(ctx, c)
		if err != nil {
			return fmt.Errorf("open connection pool: %w", err)
		}
		*p.pool = pool
	}
	return nil
}

// checkServer refuses servers that are too old or that confirm what they have
// not written.
func checkServer(ctx context.Context, conn *pgx.Conn) error {
	var version int
	var name, fsync string
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('fsync')`).
		Scan(&version, &name, &fsync)
	switch {
	case err != nil:
		return fmt.Errorf("read server settings: %w", err)
	case version < minServerVersion:
		return fmt.Errorf("PostgreSQL %s is too old: 13 or newer is needed", name)
	case fsync != "on":
		return errors.New("the server runs with fsync = off: it would lose accepted events in a crash; switch fsync on")
	}
	return checkDurable(ctx, conn)
}

// checkDurable refuses a connection whose commits return before they are on
// disk. on, local, remote_write and remote_apply all wait for the local disk;
// they differ in what they ask of a synchronous standby, which is the
// operator's choice: with local a failover may lose what the old primary had
// confirmed.
func checkDurable(ctx context.Context, conn *pgx.Conn) error {
	var setting string
	if err := conn.QueryRow(ctx, `SELECT current_setting('synchronous_commit')`).Scan(&setting); err != nil {
		return fmt.Errorf("read synchronous_commit: %w", err)
	}
	if setting == "off" {
		return errors.New("synchronous_commit is off for this connection: accepted events could be lost in a crash; " +
			"set it to on for the role or the database")
	}
	return nil
}
