package sqlite

import (
	"cmp"
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// reopen starts a new run of those of the given deliveries that still are
	// what the search saw, and that have somewhere to go. last_* stays: it tells
	// of the latest attempt, whatever its run.
	reopen = `
UPDATE deliveries SET state = 0, due_at = ?2, run = run + 1, run_due_at = ?2, charged = 0, failures = 0, fails = 0, throttles = 0,
  prev_delay_ms = 0, limited = NULL, replay_id = ?3, reason = NULL, settled_at = NULL,
  restore_state = NULL, restore_due_at = NULL, restore_reason = NULL
WHERE id IN (SELECT value FROM json_each(?1)) AND state <> 0 AND state IN (SELECT value FROM json_each(?4)) AND settled_at <= ?5
  AND EXISTS (SELECT 1 FROM endpoints e WHERE e.id = deliveries.endpoint_id AND e.deleted_at IS NULL AND e.state <> 2)
RETURNING endpoint_id, size`

	moveCursor = `
UPDATE replays SET cursor_id = ?3, fed = fed + ?4, skipped = skipped + ?5, paced_at = ?6, updated_at = ?7
WHERE id = ?1 AND cursor_id = ?2 AND state = 1`
)

// FeedReplay implements store.ReplayFeeder. It looks for deliveries without the
// writer's turn, so that a long search delays nobody; reopen looks again at
// each of them.
func (db *DB) FeedReplay(ctx context.Context, f store.Feed) (fed store.Fed, err error) {
	j := &f.Replay
	page, next, err := db.nextOfReplay(ctx, j, f.Limit+1, cmp.Or(f.ScanLimit, store.ReplayScanLimit))
	if err != nil {
		return store.Fed{}, db.readErr("search deliveries of replay", err)
	}
	fed.Cursor = j.EndID
	switch {
	case len(page) > f.Limit: // there is more: this is not the end
		page = page[:f.Limit]
		fed.Cursor = page[f.Limit-1].id
	case next != 0: // nor is this, however little was found
		fed.Cursor = next
	}
	ids := make([]hook.ID, len(page))
	for i, p := range page {
		ids[i] = p.id
	}
	err = db.update(ctx, "feed replay", func(t tx) error {
		if err := t.reopen(&f, ids, &fed); err != nil {
			return err
		}
		changed, err := t.exec(moveCursor, j.ID, j.Cursor, fed.Cursor, fed.Fed, fed.Skipped, stamp(f.PacedAt), f.Now.UnixMicro())
		if err == nil && changed == 0 {
			return hook.ErrStateConflict
		}
		return err
	})
	if err != nil {
		return store.Fed{}, err
	}
	return fed, nil
}

// reopen makes the deliveries pending and counts them.
func (t tx) reopen(f *store.Feed, ids []hook.ID, fed *store.Fed) error {
	if len(ids) == 0 {
		return nil
	}
	type reopened struct {
		endpoint hook.ID
		size     int64
	}
	rows, err := search(t.ctx, t.conn, func(r scannable, d *reopened) error { return r.Scan(&d.endpoint, &d.size) },
		reopen, idList(ids), f.Now.UnixMicro(), f.Replay.ID, idList(f.Replay.Filter.States), f.Replay.CreatedAt.UnixMicro())
	if err != nil {
		return err
	}
	bytes, seen := int64(0), map[hook.ID]bool{}
	for _, d := range rows {
		bytes += d.size
		if !seen[d.endpoint] {
			seen[d.endpoint] = true
			fed.Endpoints = append(fed.Endpoints, d.endpoint)
		}
	}
	fed.Fed, fed.Skipped = len(rows), len(ids)-len(rows)
	if len(rows) == 0 {
		return nil
	}
	return t.addUsage(f.Replay.TenantID, int64(len(rows)), bytes)
}

// candidate is a delivery that a replay is about to feed.
type candidate struct{ id, endpoint hook.ID }

// nextOfReplay returns the next deliveries of the set, behind the cursor, and
// where the ones behind them begin.
func (db *DB) nextOfReplay(ctx context.Context, j *hook.ReplayJob, n, look int) ([]candidate, hook.ID, error) {
	f := store.MatchOf(j)
	return find(ctx, db, &f, store.Page{Limit: n, After: j.Cursor, Asc: true, ScanLimit: look}, "d.id, d.endpoint_id",
		func(r scannable, c *candidate) error { return r.Scan(&c.id, &c.endpoint) }, func(c candidate) hook.ID { return c.id })
}

// NextOfReplay implements store.ReplayFeeder.
func (db *DB) NextOfReplay(ctx context.Context, j *hook.ReplayJob, n int) ([]hook.ID, error) {
	page, _, err := db.nextOfReplay(ctx, j, n, store.ReplayScanLimit)
	if err != nil {
		return nil, db.readErr("search deliveries of replay", err)
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

// CountByEndpoint implements store.Replays.
func (db *DB) CountByEndpoint(ctx context.Context, df store.DeliveryFilter, limit int) (map[hook.ID]int64, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	type row struct {
		endpoint hook.ID
		count    int64
	}
	text, args := walkQuery(df.Walk(), &df, df.Range(store.Page{}), "d.endpoint_id", " LIMIT ?", limit)
	rows, err := search(ctx, db.read, func(r scannable, c *row) error { return r.Scan(&c.endpoint, &c.count) },
		`SELECT endpoint_id, count(*) FROM (`+text+`) GROUP BY endpoint_id`, args...)
	out := make(map[hook.ID]int64, len(rows))
	for _, r := range rows {
		out[r.endpoint] = r.count
	}
	return out, db.readErr("count deliveries by endpoint", err)
}

// addTally moves the counters of one replay.
const addTally = `
UPDATE replays SET answers = answers + ?, errors = errors + ?, refused = refused + ?, delivered = delivered + ?, failed = failed + ?
WHERE id = ?`

// replayed notes what a settle means to the replay that its delivery belongs
// to. Nearly no delivery belongs to one.
func (c *commit) replayed(s *store.Settle, ended bool) {
	id := s.Delivery.ReplayID
	if id == 0 {
		return
	}
	if c.replays == nil {
		c.replays = make(map[hook.ID]store.ReplayTally, 1)
	}
	tally := c.replays[id]
	tally.Add(s, ended)
	c.replays[id] = tally
}

func (c *commit) writeReplays() error {
	for id, t := range c.replays {
		if _, err := c.exec(c.addTally.bind(t.Answers, t.Errors, t.Refused, t.Delivered, t.Failed, int64(id))); err != nil {
			return err
		}
	}
	return nil
}

// failReplayed counts deliveries of a replay that a person ended.
func (t tx) failReplayed(replay hook.ID, n int64) error {
	if replay == 0 || n == 0 {
		return nil
	}
	_, err := t.exec(addTally, 0, 0, 0, 0, n, replay)
	return err
}

// deleteOldReplays removes replays that ended before a moment.
const deleteOldReplays = `
DELETE FROM replays WHERE id IN (SELECT id FROM replays WHERE state >= 3 AND finished_at < ?1 LIMIT ?2)`

func (t tx) pruneReplays(before time.Time, limit int) error {
	_, err := t.exec(deleteOldReplays, before.UnixMicro(), limit)
	return err
}
