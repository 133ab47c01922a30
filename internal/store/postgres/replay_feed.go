package postgres

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

const (
	// lockCandidates takes the rows in the order in which batches do.
	lockCandidates visible.SQL = `SELECT id FROM deliveries WHERE id = ANY($1) ORDER BY id FOR UPDATE`

	// reopen starts a new run of those of the given deliveries that still are
	// what the search saw, and that have somewhere to go. last_* stays: it tells
	// of the latest attempt, whatever its run.
	reopen visible.SQL = `
UPDATE deliveries d SET state = 0, due_at = $2, run = run + 1, run_due_at = $2, charged = 0, failures = 0, fails = 0, throttles = 0,
  prev_delay_ms = NULL, limited = NULL, replay_id = $3, reason = NULL, settled_at = NULL,
  restore_state = NULL, restore_due_at = NULL, restore_reason = NULL
WHERE id = ANY($1) AND state <> 0 AND state = ANY($4::smallint[]) AND settled_at <= $5
  AND EXISTS (SELECT FROM endpoints e WHERE e.id = d.endpoint_id AND e.deleted_at IS NULL AND e.state <> 2)
RETURNING tenant_id, endpoint_id, size`

	moveCursor = `
UPDATE replays SET cursor_id = $3, fed = fed + $4, skipped = skipped + $5, paced_at = $6, updated_at = $7
WHERE id = $1 AND cursor_id = $2 AND state = 1`
)

// FeedReplay makes the next deliveries of a replay pending. Its locks come in
// the order of a batch: the tenant's configuration, so that no endpoint is
// deleted meanwhile, then deliveries by id, usage, and the replay last, which
// batches on other nodes are counting in.
func (d *DB) FeedReplay(ctx context.Context, f store.Feed) (store.Fed, error) {
	j := &f.Replay
	page, next, err := d.nextOfReplay(ctx, j, f.Limit+1, cmp.Or(f.ScanLimit, store.ReplayScanLimit))
	if err != nil {
		return store.Fed{}, err
	}
	fed := store.Fed{Cursor: j.EndID}
	switch {
	case len(page) > f.Limit: // there is more: this is not the end
		page = page[:f.Limit]
		fed.Cursor = page[f.Limit-1].id
	case next != 0: // nor is this, however little was found
		fed.Cursor = next
	}
	ids := make([]hook.ID, len(page))
	for i, c := range page {
		ids[i] = c.id
	}
	err = d.slowly(ctx, func(tx pgx.Tx) error {
		if err := reopenAll(ctx, tx, &f, ids, &fed); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, moveCursor, j.ID, j.Cursor, fed.Cursor, fed.Fed, fed.Skipped, at(f.PacedAt), at(f.Now))
		if err == nil && tag.RowsAffected() == 0 {
			return hook.ErrStateConflict
		}
		return err
	})
	if err != nil {
		return store.Fed{}, failed("feed replay", err)
	}
	return fed, nil
}

// reopenAll makes the deliveries pending and counts them.
func reopenAll(ctx context.Context, tx pgx.Tx, f *store.Feed, ids []hook.ID, fed *store.Fed) error {
	if len(ids) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, lockTenants, []int32{lockNumber(f.Replay.TenantID)}); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, visible.Found.Text(lockCandidates), ids); err != nil {
		return err
	}
	states := make([]int16, len(f.Replay.Filter.States))
	for i, s := range f.Replay.Filter.States {
		states[i] = int16(s)
	}
	rows, err := tx.Query(ctx, visible.Found.Text(reopen), ids, at(f.Now), f.Replay.ID, states, at(f.Replay.CreatedAt))
	if err != nil {
		return err
	}
	var reopened hook.Delivery
	bytes, seen := 0, map[hook.ID]bool{}
	_, err = pgx.ForEachRow(rows, []any{&reopened.TenantID, &reopened.EndpointID, &reopened.Size}, func() error {
		fed.Fed++
		bytes += reopened.Size
		if e := reopened.EndpointID; !seen[e] {
			seen[e] = true
			fed.Endpoints = append(fed.Endpoints, e)
		}
		return nil
	})
	fed.Skipped = len(ids) - fed.Fed
	if err != nil || fed.Fed == 0 {
		return err
	}
	_, err = tx.Exec(ctx, changeUsage, f.Replay.TenantID, fed.Fed, bytes)
	return err
}

// candidate is a delivery that a replay is about to feed.
type candidate struct{ id, endpoint hook.ID }

// nextOfReplay returns the next deliveries of the set, behind the cursor, and
// where the ones behind them begin.
func (d *DB) nextOfReplay(ctx context.Context, j *hook.ReplayJob, n, look int) ([]candidate, hook.ID, error) {
	f := store.MatchOf(j)
	p := store.Page{Limit: n, After: j.Cursor, Asc: true, ScanLimit: look}
	return find(ctx, d, &f, p, "d.id, d.endpoint_id", "search deliveries of replay", func(row pgx.Row) (c candidate, err error) {
		err = row.Scan(&c.id, &c.endpoint)
		return c, err
	}, func(c candidate) hook.ID { return c.id })
}

// NextOfReplay returns the endpoints of the next n deliveries of a replay.
func (d *DB) NextOfReplay(ctx context.Context, j *hook.ReplayJob, n int) ([]hook.ID, error) {
	page, _, err := d.nextOfReplay(ctx, j, n, store.ReplayScanLimit)
	if err != nil {
		return nil, err
	}
	var out []hook.ID
	seen := map[hook.ID]bool{}
	for _, c := range page {
		if !seen[c.endpoint] {
			seen[c.endpoint] = true
			out = append(out, c.endpoint)
		}
	}
	return out, nil
}

// CountByEndpoint counts up to limit deliveries by endpoint.
func (d *DB) CountByEndpoint(ctx context.Context, f store.DeliveryFilter, limit int) (map[hook.ID]int64, error) {
	seen, err := d.makeMatchingVisible(ctx, &f)
	if err != nil {
		return nil, failed("count deliveries by endpoint", err)
	}
	counts := map[hook.ID]int64{}
	err = d.slowly(ctx, func(tx pgx.Tx) error {
		q := walkQuery(seen, f.Walk(), &f, f.Range(store.Page{}), store.Page{Limit: limit, ScanLimit: math.MaxInt32}, "d.endpoint_id")
		rows, err := tx.Query(ctx, "SELECT endpoint_id, count(*) FROM ("+q.sql+") matching GROUP BY endpoint_id", q.args...)
		if err != nil {
			return err
		}
		var endpoint hook.ID
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&endpoint, &n}, func() error {
			counts[endpoint] = n
			return nil
		})
		return err
	})
	if err != nil {
		return nil, failed("count deliveries by endpoint", err)
	}
	return counts, nil
}

// failReplayed counts deliveries of a replay that a person ended.
const failReplayed = `UPDATE replays SET failed = failed + $2 WHERE id = $1`

// deleteOldReplays removes replays that ended before a moment.
const deleteOldReplays = `
DELETE FROM replays WHERE id IN (SELECT id FROM replays WHERE state >= 3 AND finished_at < $1 LIMIT $2)`

func pruneReplays(ctx context.Context, conn *pgx.Conn, before time.Time, limit int) error {
	if _, err := conn.Exec(ctx, deleteOldReplays, at(before), limit); err != nil {
		return failed("remove old replays", err)
	}
	return nil
}
