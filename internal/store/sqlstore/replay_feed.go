package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// candidate is a delivery that a replay is about to feed.
type candidate struct{ id, endpoint hook.ID }

// nextOfReplay returns the next deliveries of the set, behind the cursor, and
// where the ones behind them begin.
func (t *Tables) nextOfReplay(ctx context.Context, j *hook.ReplayJob, n, scanLimit int) ([]candidate, hook.ID, error) {
	f := store.MatchOf(j)
	p := store.Page{Limit: n, After: j.Cursor, Asc: true, ScanLimit: scanLimit}
	return find(ctx, t, "search deliveries of replay", &f, p, "d.id, d.endpoint_id",
		func(r Row, c *candidate) error { return r.Scan(&c.id, &c.endpoint) }, func(c candidate) hook.ID { return c.id })
}

// NextOfReplay implements store.ReplayFeeder.
func (t *Tables) NextOfReplay(ctx context.Context, j *hook.ReplayJob, n int) ([]hook.ID, error) {
	page, _, err := t.nextOfReplay(ctx, j, n, store.ReplayScanLimit)
	if err != nil {
		return nil, err
	}
	var endpoints []hook.ID
	for _, c := range page {
		endpoints = append(endpoints, c.endpoint)
	}
	return each(endpoints), nil
}

// each returns the ids without repetitions.
func each(ids []hook.ID) (out []hook.ID) {
	seen := map[hook.ID]bool{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

const moveCursor = `
UPDATE replays SET cursor_id = $3, fed = fed + $4, skipped = skipped + $5, paced_at = $6, updated_at = $7
WHERE id = $1 AND cursor_id = $2 AND state = 1`

// FeedReplay implements store.ReplayFeeder. It looks for deliveries before its
// transaction, so that a long search delays nobody; reopen looks again at each of
// them, and create at what is missing. Its locks come in the order of a batch: the
// tenant's configuration, so that no endpoint is deleted meanwhile, then deliveries
// by id, usage, and the replay last, which batches on other nodes are counting in.
func (t *Tables) FeedReplay(ctx context.Context, f store.Feed) (store.Fed, error) {
	j := &f.Replay
	page, next, err := t.nextOfReplay(ctx, j, f.Limit+1, cmp.Or(f.ScanLimit, store.ReplayScanLimit))
	if err != nil {
		return store.Fed{}, err
	}
	s := nextStep(&f, page, cmp.Or(next, j.EndID))
	fed := store.Fed{Cursor: s.cursor}
	err = t.dialect.Change(ctx, "feed replay", func(tx Tx) error {
		if len(s.deliveries)+len(s.missing) > 0 {
			if err := t.feed(tx, &f, &s, &fed); err != nil {
				return err
			}
		}
		changed, err := tx.Exec(moveCursor, j.ID, j.Cursor, fed.Cursor, fed.Fed, fed.Skipped, f.PacedAt, f.Now)
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

// step is what one transaction feeds.
type step struct {
	deliveries []hook.ID
	missing    []store.MissingEvent
	cursor     hook.ID // everything of the set up to it is in this step or before it
}

// nextStep merges deliveries, all that there are up to an id, with what is missing.
// Ids of events and deliveries are of one kind: all are drawn in the order of time,
// and none is drawn twice. So one cursor tells how far both have come. It ends where
// one of the two was not looked for any further, or where the step is full.
func nextStep(f *store.Feed, page []candidate, upto hook.ID) (s step) {
	s.cursor = upto
	if f.Replay.Filter.Missing != nil {
		s.cursor = min(s.cursor, f.Missing.Upto)
	}
	var ids []hook.ID
	for _, c := range page {
		ids = append(ids, c.id)
	}
	for _, m := range f.Missing.Events {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	if len(ids) > f.Limit {
		s.cursor = min(s.cursor, ids[f.Limit-1])
	}
	for _, c := range page {
		if c.id <= s.cursor {
			s.deliveries = append(s.deliveries, c.id)
		}
	}
	for _, m := range f.Missing.Events {
		if m.ID <= s.cursor {
			s.missing = append(s.missing, m)
		}
	}
	return s
}

// feed makes the deliveries of a step pending, creates what is missing and counts
// both. last_* of a delivery that was there stays: it tells of the latest attempt,
// whatever its run.
func (t *Tables) feed(tx Tx, f *store.Feed, s *step, fed *store.Fed) error {
	if err := tx.Lock(LockConfigShared, f.Replay.TenantID); err != nil {
		return err
	}
	grown := grown{endpoints: map[hook.ID]int64{}}
	if err := t.reopen(tx, f, s.deliveries, &grown); err != nil {
		return err
	}
	if err := t.create(tx, f, s.missing, &grown); err != nil {
		return err
	}
	fed.Fed = int(grown.Pending)
	fed.Skipped = len(s.deliveries) + len(s.missing) - fed.Fed
	fed.Endpoints = slices.Sorted(maps.Keys(grown.endpoints))
	if fed.Fed == 0 {
		return nil
	}
	if err := AddUsage(tx, f.Replay.TenantID, grown.Usage); err != nil {
		return err
	}
	for _, endpoint := range fed.Endpoints {
		of := stats.Owner{Tenant: f.Replay.TenantID, Endpoint: endpoint}
		if err := t.Count(tx, f.Now, of, stats.Reopened, grown.endpoints[endpoint]); err != nil {
			return err
		}
	}
	return nil
}

// grown is what a step adds to what is pending.
type grown struct {
	store.Usage
	endpoints map[hook.ID]int64 // how many deliveries
}

// add reads the endpoint and the size of a delivery that is pending now.
func (g *grown) add(r Row) error {
	var endpoint hook.ID
	var size int64
	err := r.Scan(&endpoint, &size)
	g.endpoints[endpoint]++
	g.Pending, g.Bytes = g.Pending+1, g.Bytes+size
	return err
}

const (
	lockFound visible.SQL = `SELECT d.id FROM deliveries d WHERE `

	reopenFound visible.SQL = `
UPDATE deliveries AS d SET state = 0, due_at = $2, run = run + 1, run_due_at = $2, charged = 0, failures = 0, fails = 0, throttles = 0,
  prev_delay_ms = 0, limited = NULL, replay_id = $3, reason = NULL, settled_at = NULL,
  restore_state = NULL, restore_due_at = NULL, restore_reason = NULL
WHERE `
)

// reopen makes deliveries pending: a new run of those that still are what the
// search saw, and that have somewhere to go.
func (t *Tables) reopen(tx Tx, f *store.Feed, ids []hook.ID, g *grown) error {
	if len(ids) == 0 {
		return nil
	}
	var locked []hook.ID
	if err := tx.Query(visible.Found.Text(lockFound)+t.dialect.Among("d.id", "$1")+` ORDER BY d.id`+t.dialect.ForUpdate("d"),
		[]any{ids}, Collect(&locked, ScanValue[hook.ID])); err != nil {
		return err
	}
	return tx.Query(visible.Found.Text(reopenFound)+t.dialect.Among("id", "$1")+` AND state <> 0 AND `+t.dialect.Among("state", "$4")+` AND settled_at <= $5
  AND EXISTS (SELECT 1 FROM endpoints e WHERE e.id = d.endpoint_id AND e.deleted_at IS NULL AND e.state <> 2)
RETURNING endpoint_id, size`, []any{locked, f.Now, f.Replay.ID, f.Replay.Filter.States, f.Replay.CreatedAt}, g.add)
}
