package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

// forgetNodes drops the rows of nodes that have been gone for a day. Their
// slots may be given away then: ids drawn a day apart cannot be equal.
const forgetNodes = `DELETE FROM nodes WHERE name <> $1 AND expires_at < clock_timestamp() - interval '1 day'`

// rejoin takes over the row of an earlier process. The start only moves
// forward, even when the clock of this machine was set back: the later process
// must look newer to the earlier one.
const rejoin = `
UPDATE nodes SET addr = $2, version = $3, draining = $4,
  started_at = greatest($5, started_at + interval '1 microsecond'), expires_at = clock_timestamp() + $6::interval
WHERE name = $1 RETURNING id, slot, started_at`

// joinNew takes the lowest free slot; no row comes back when all are in use.
const joinNew = `
INSERT INTO nodes (id, slot, name, addr, version, draining, started_at, expires_at)
SELECT $7, slot, $1, $2, $3, $4, $5, clock_timestamp() + $6::interval
FROM generate_series(0, 1023) AS slot WHERE NOT EXISTS (SELECT FROM nodes n WHERE n.slot = slot.slot)
ORDER BY slot LIMIT 1
RETURNING id, slot, started_at`

// Join registers the node under its name. The result carries id, slot and
// start to use from now on.
func (d *DB) Join(ctx context.Context, n hook.Node, newID hook.ID, ttl time.Duration) (hook.Node, error) {
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, 0)`, lockNodes); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, forgetNodes, n.Name); err != nil {
			return err
		}
		args := []any{n.Name, n.Addr, n.Version, n.Draining, at(n.StartedAt), ttl}
		err := tx.QueryRow(ctx, rejoin, args...).Scan(&n.ID, &n.Slot, sqlstore.Time(&n.StartedAt))
		if errors.Is(err, pgx.ErrNoRows) {
			err = tx.QueryRow(ctx, joinNew, append(args, newID)...).Scan(&n.ID, &n.Slot, sqlstore.Time(&n.StartedAt))
		}
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("all %d node slots are in use", hook.MaxSlot+1)
		}
		return err
	})
	if err != nil {
		return hook.Node{}, fmt.Errorf("join as node %q: %w", n.Name, err)
	}
	return n, nil
}

// heartbeat is nobody's when a newer process has taken the row over, or when
// the node was gone for so long that its slot was given away.
const heartbeat = `
UPDATE nodes SET addr = $3, version = $4, draining = $5, expires_at = clock_timestamp() + $6::interval
WHERE id = $1 AND started_at <= $2`

const liveNodes = `
SELECT id, slot, name, addr, version, draining, started_at FROM nodes
WHERE expires_at > clock_timestamp() AND expires_at <= clock_timestamp() + $1::interval ORDER BY id`

// Heartbeat keeps the node's row alive and returns the live nodes.
func (d *DB) Heartbeat(ctx context.Context, n hook.Node, ttl time.Duration) ([]hook.Node, error) {
	tag, err := d.renewals.Exec(ctx, heartbeat, n.ID, at(n.StartedAt), n.Addr, n.Version, n.Draining, ttl)
	if err != nil {
		return nil, failed("heartbeat", err)
	}
	if tag.RowsAffected() == 0 {
		return nil, fmt.Errorf("heartbeat of node %q: %w", n.Name, store.ErrSuperseded)
	}
	return list(ctx, d.renewals, "read live nodes", func(r sqlstore.Row, n *hook.Node) error {
		return r.Scan(&n.ID, &n.Slot, &n.Name, &n.Addr, &n.Version, &n.Draining, sqlstore.Time(&n.StartedAt))
	}, liveNodes, ttl)
}

// leave keeps the row: the name comes back with the same id, and the slot
// stays taken for a day.
const leave = `UPDATE nodes SET expires_at = clock_timestamp() WHERE id = $1 AND started_at <= $2`

// Leave marks the node as gone.
func (d *DB) Leave(ctx context.Context, n hook.Node) error {
	_, err := d.renewals.Exec(ctx, leave, n.ID, at(n.StartedAt))
	return failed("leave", err)
}

// ClockOffset implements store.Clock. The answer was made about half-way between
// question and answer.
func (d *DB) ClockOffset(ctx context.Context) (time.Duration, error) {
	var theirs time.Time
	asked := time.Now()
	err := d.renewals.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&theirs)
	if err != nil {
		return 0, failed("read the database's clock", err)
	}
	took := time.Since(asked)
	return asked.Add(took / 2).Sub(theirs), nil
}

const allNodes = `
SELECT id, slot, name, addr, version, draining, started_at, (extract(epoch FROM expires_at - clock_timestamp()) * 1000000)::bigint
FROM nodes ORDER BY name`

// Nodes implements store.NodeLog.
func (d *DB) Nodes(ctx context.Context) ([]store.NodeRow, error) {
	return list(ctx, d.pool, "read nodes", func(r sqlstore.Row, n *store.NodeRow) error {
		return r.Scan(&n.ID, &n.Slot, &n.Name, &n.Addr, &n.Version, &n.Draining, sqlstore.Time(&n.StartedAt), sqlstore.Span(&n.Left, time.Microsecond))
	}, allNodes)
}
