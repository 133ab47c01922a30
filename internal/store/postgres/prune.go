package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// Prune removes one step of what is old: expired keys and secrets, then whole
// days of events, oldest first. It stops at the first day that must stay, so
// that no attempt leaves before its delivery. One node prunes at a time; the
// others have nothing to do meanwhile.
func (d *DB) Prune(ctx context.Context, p store.PruneStep) (store.Pruned, error) {
	var removed store.Pruned
	seen, ready, err := d.passBefore(ctx, hook.IDFloor(p.Before))
	if err != nil || !ready {
		removed.Done = true
		if err != nil {
			return removed, failed("prune", err)
		}
		return removed, nil
	}
	err = d.alone(ctx, func(conn *pgx.Conn) error {
		var turn bool
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, 0)`, lockPrune).Scan(&turn); err != nil {
			return err
		}
		if !turn {
			removed.Done = true
			return nil
		}
		// Closing the connection would free the lock too, but only some time
		// later, when the next step may already have found it taken.
		defer func() { _, _ = conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1, 0)`, lockPrune) }()
		p.Limit = max(p.Limit, 1)
		s := pruning{conn: conn, seen: seen, step: p, cleared: &d.cleared, removed: &removed}
		return s.run(ctx)
	})
	if err != nil {
		return removed, failed("prune", err)
	}
	return removed, nil
}

// pruning is one step under way.
type pruning struct {
	conn    *pgx.Conn
	seen    visible.Rows
	step    store.PruneStep
	cleared *atomic.Int64 // see DB
	removed *store.Pruned
}

func (s *pruning) run(ctx context.Context) error {
	more, err := sqlstore.Prune(func(query string, args ...any) (int64, error) {
		tag, err := s.conn.Exec(ctx, query, values(args)...)
		return tag.RowsAffected(), err
	}, s.step, expiredKeys, s.removed)
	if err != nil {
		return err
	}
	days, err := s.days(ctx)
	if err != nil {
		return err
	}
	for _, day := range days {
		before := *s.removed
		finished, err := s.day(ctx, day)
		if err != nil || !finished {
			return err
		}
		if *s.removed != before {
			return nil // enough for one step
		}
	}
	s.removed.Done = !more
	return nil
}

// expiredKeys passes over keys that a batch is just writing: batches lock theirs
// in another order.
const expiredKeys = `
DELETE FROM idempotency_keys WHERE (tenant_id, scope, key) IN (
  SELECT tenant_id, scope, key FROM idempotency_keys WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`

// dayTables are all partitions, also those that an interrupted run has detached
// but not dropped.
const dayTables = `
SELECT c.relname FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'events'::regclass)
  AND c.relname ~ '^(events|attempts)_[0-9]{8}$'`

// days returns the days that lie wholly before the step's bound, oldest first.
func (s *pruning) days(ctx context.Context) ([]day, error) {
	rows, err := s.conn.Query(ctx, dayTables)
	if err != nil {
		return nil, failed("list partitions", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, failed("list partitions", err)
	}
	var days []day
	for _, name := range names {
		if day, ok := dayFromPartition(name); ok && !day.to().Time().After(s.step.Before) {
			days = append(days, day)
		}
	}
	slices.Sort(days)
	return slices.Compact(days), nil
}

const (
	// mustStay walks deliveries_event over one day and ends at the first row
	// that keeps the day.
	mustStay visible.SQL = `
SELECT EXISTS (SELECT FROM deliveries WHERE event_id >= $1 AND event_id < $2 AND (state = 0 OR state = 2 AND settled_at > $3))`

	// deleteChunk takes deliveries of the day by deliveries_event. It looks at
	// the state again: a person may have asked for one more send just now.
	deleteChunk visible.SQL = `
WITH gone AS (
  DELETE FROM deliveries WHERE id IN (
    SELECT id FROM deliveries WHERE event_id >= $1 AND event_id < $2 AND state <> 0 AND NOT (state = 2 AND settled_at > $3)
    ORDER BY event_id, endpoint_id LIMIT $4)
    AND state <> 0
  RETURNING tenant_id, first_attempt,
    512 + CASE WHEN first_attempt IS NULL THEN 0 ELSE 256 + octet_length(first_attempt) + coalesce(octet_length(first_excerpt), 0) END AS weight),
` + leftTenants + `
SELECT count(*), count(first_attempt) FROM gone`

	// leftTenants takes away from tenants what has gone, by the weights of
	// store.StoredBy and store.StoredByAttempt. What a tenant that is gone itself
	// leaves behind is nobody's.
	leftTenants = `
left_tenants AS (
  INSERT INTO tenant_usage AS u (tenant_id, node_id, pending, bytes, stored)
  SELECT tenant_id, 0, 0, 0, -sum(weight) FROM gone WHERE tenant_id IN (SELECT id FROM tenants) GROUP BY tenant_id ORDER BY tenant_id
  ON CONFLICT (tenant_id, node_id) DO UPDATE SET stored = u.stored + excluded.stored)`

	// weighPartition counts the rows of a partition that is about to be dropped.
	weighPartition = `
WITH gone AS MATERIALIZED (SELECT tenant_id, count(*) AS n, sum(%s) AS weight FROM %s GROUP BY tenant_id),
` + leftTenants + `
SELECT coalesce(sum(n), 0)::bigint FROM gone`
)

// day removes one day, or a part of it; finished tells whether the day is gone.
func (s *pruning) day(ctx context.Context, d day) (finished bool, err error) {
	if s.cleared.Load() != int64(d) {
		if stays, err := s.mustStay(ctx, d); err != nil || stays {
			return false, err
		}
		if err := s.begin(ctx, d); err != nil {
			return false, fmt.Errorf("note that %s is being removed: %w", d, err)
		}
		// A replay may have created a delivery while this waited for it.
		if stays, err := s.mustStay(ctx, d); err != nil || stays {
			return false, err
		}
		s.cleared.Store(int64(d))
	}
	var deliveries, attempts int64
	err = s.conn.QueryRow(ctx, s.seen.Text(deleteChunk), d.from(), d.to(), at(s.step.DeadAfter), s.step.Limit).Scan(&deliveries, &attempts)
	if err != nil {
		return false, fmt.Errorf("delete deliveries of %s: %w", d, err)
	}
	s.removed.Deliveries += deliveries
	s.removed.Attempts += attempts
	if deliveries == int64(s.step.Limit) {
		return false, nil // there may be more
	}
	// Hardly a row is left, so looking again costs nothing.
	if stays, err := s.mustStay(ctx, d); err != nil || stays {
		return false, err
	}
	return true, s.dropDay(ctx, d)
}

// moveKept never moves back.
const moveKept = `
INSERT INTO settings AS s (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = greatest(s.value::bigint, excluded.value::bigint)::text`

// begin notes that deliveries of the day leave from now on, and waits for whoever is
// creating some: replays create none for an event whose delivery may have been removed,
// nor for one that is about to be.
func (s *pruning) begin(ctx context.Context, d day) error {
	return pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, 0)`, lockKept); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, moveKept, sqlstore.KeptFrom, strconv.FormatInt(int64(d.to()), 10))
		return err
	})
}

// mustStay reports whether a delivery of the day is pending or died recently.
// The run then ends: nothing younger may leave before it.
func (s *pruning) mustStay(ctx context.Context, d day) (stays bool, err error) {
	if err := s.conn.QueryRow(ctx, s.seen.Text(mustStay), d.from(), d.to(), at(s.step.DeadAfter)).Scan(&stays); err != nil {
		return false, fmt.Errorf("look for deliveries of %s that must stay: %w", d, err)
	}
	if stays {
		s.removed.Done = true
		s.cleared.Store(noDay)
	}
	return stays, nil
}

// dropDay drops the day's partitions, events last: as long as they are there
// the next step comes back to the day.
func (s *pruning) dropDay(ctx context.Context, d day) error {
	for _, t := range []struct {
		table   string
		weight  string // of a row
		removed *int64
	}{
		{"attempts", "256 + coalesce(octet_length(detail::text), 0) + coalesce(octet_length(error), 0) + coalesce(octet_length(excerpt), 0)", &s.removed.Attempts},
		{"events", "256 + octet_length(payload)", &s.removed.Events},
	} {
		n, err := s.drop(ctx, t.table, d.partition(t.table), t.weight)
		if err != nil {
			return fmt.Errorf("drop partition %s: %w", d.partition(t.table), err)
		}
		*t.removed += n
	}
	return nil
}

// partitionState tells how far an earlier run got: attached, detaching or
// detached; no row when the table is gone.
const partitionState = `
SELECT i.inhrelid IS NOT NULL, coalesce((to_jsonb(i) ->> 'inhdetachpending')::bool, false), current_setting('server_version_num')::int >= 140000
FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid WHERE c.oid = to_regclass($1)`

// drop detaches a partition without stopping readers and writers of the table,
// then drops it and returns how many rows it had.
func (s *pruning) drop(ctx context.Context, table, partition, weight string) (int64, error) {
	var attached, detaching, concurrently bool
	rows, err := s.conn.Query(ctx, partitionState, partition)
	if err != nil {
		return 0, err
	}
	tag, err := pgx.ForEachRow(rows, []any{&attached, &detaching, &concurrently}, func() error { return nil })
	if err != nil || tag.RowsAffected() == 0 {
		return 0, err
	}
	if attached {
		how := ""
		switch {
		case detaching:
			how = " FINALIZE"
		case concurrently:
			how = " CONCURRENTLY"
		}
		if _, err := s.conn.Exec(ctx, "ALTER TABLE "+table+" DETACH PARTITION "+partition+how); err != nil {
			return 0, err
		}
	}
	var n int64
	err = pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, fmt.Sprintf(weighPartition, weight, partition)).Scan(&n); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DROP TABLE "+partition)
		return err
	})
	return n, err
}
