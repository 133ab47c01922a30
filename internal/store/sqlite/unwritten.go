package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	findSince = `
SELECT since FROM unwritten WHERE id = 1`

	// moveSince keeps what recovery has to look at short.
	moveSince = `
UPDATE unwritten SET since = ? WHERE id = 1`

	// endSince spares the next process the look.
	endSince = `
UPDATE unwritten SET since = (SELECT coalesce(max(id), 0) + 1 FROM events) WHERE id = 1`

	// unwrittenEvents finds the events whose deliveries may have no rows.
	unwrittenEvents = `
SELECT id, tenant_id, created_at, targets FROM events WHERE id >= ?1 AND targets IS NOT NULL ORDER BY id LIMIT ?2`
)

// sinceStep is how far events may run ahead of since before it moves: a second.
const sinceStep = hook.DayOfIDs / (24 * 60 * 60)

// insertLate is the tail of insertDeliveries for targets: a row that is there
// already is the one that is wanted.
const insertLate = " ON CONFLICT DO NOTHING"

// insertBorn writes a delivery with the success of its first attempt.
const (
	insertBorn = `
INSERT OR FAIL INTO deliveries (id, tenant_id, event_id, endpoint_id, state, due_at, size, attempts, run, run_due_at, charged,
  last_attempt_id, last_class, last_reason, last_status, last_latency_us, last_at, settled_at, first_delivered_at, first_attempt_id) VALUES `

	bornRow = "(?,?,?,?,1,?,?,1,1,?,?,?,?,?,?,?,?,?,?,?)"

	insertBornAttempts = `
INSERT OR FAIL INTO first_attempts (id, document, excerpt) VALUES `
)

// later decides which deliveries of an accepted event get their row with their
// result, and returns what the event's row keeps of them. The others are
// written now.
func (c *commit) later(a *store.Accept) (any, error) {
	first := len(c.added)
	for i := range a.Deliveries {
		d := &a.Deliveries[i]
		// Recovery does not look at events before since.
		if t, ok := store.TargetOf(d, c.batch.Now); ok && a.Event.ID >= c.since {
			if err := c.add(t); err != nil {
				return nil, err
			}
			continue
		}
		c.accept.deliveries.add(int64(d.ID), int64(d.TenantID), int64(d.EventID), int64(d.EndpointID),
			d.DueAt.UnixMicro(), int64(d.Size), int64(d.Progress.Run), d.Progress.RunDueAt.UnixMicro())
	}
	if len(c.added) == first {
		return nil, nil
	}
	return store.AppendTargets(nil, &a.Event, c.added[first:]), nil
}

// add notes a delivery that gets its row later. An id that is taken would be a
// silent loss then.
func (c *commit) add(t store.Target) error {
	if _, taken := c.target(t.ID); taken {
		return fmt.Errorf("%w: delivery id %d is taken", store.ErrRefused, t.ID)
	}
	c.addedAt[t.ID] = len(c.added)
	c.added = append(c.added, t)
	return nil
}

// target returns the target of a delivery without a row, be it of this batch or
// of an earlier one.
func (c *commit) target(id hook.ID) (store.Target, bool) {
	if i, ok := c.addedAt[id]; ok {
		return c.added[i], true
	}
	return c.unwritten.Get(id)
}

// lateAgain brings the targets of an event back that an earlier run of the
// batch stored.
func (c *commit) lateAgain(a *store.Accept) error {
	for i := range a.Deliveries {
		d := &a.Deliveries[i]
		t, ok := store.TargetOf(d, c.batch.Now)
		if _, known := c.unwritten.Get(d.ID); known || !ok {
			continue
		}
		found, err := c.first(c.settle.find.bind(int64(d.ID)), c.row[:4])
		if err != nil {
			return err
		}
		if !found {
			if err := c.add(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleUnwritten writes the row of a delivery that has none: with its result
// if that is a plain success, otherwise as it was accepted, to be settled like
// any other. It reports whether the settle is done.
func (c *commit) settleUnwritten(s *store.Settle) (bool, error) {
	id := s.Delivery.ID
	t, ok := c.target(id)
	if !ok || c.wrote(id) {
		return false, nil
	}
	if c.batch.Rerun {
		if found, err := c.first(c.settle.find.bind(int64(id)), c.row[:4]); err != nil || found {
			c.written[id] = struct{}{}
			return false, err
		}
	}
	c.written[id] = struct{}{}
	if s.Attempt != nil && firstSuccess(s) && store.PlainAttempt(s.Attempt) {
		c.born = append(c.born, birth{t, s})
		c.count(t.Tenant, -1, -int64(t.Size))
		s.Outcome = store.SettleWritten
		return true, nil
	}
	c.addTarget(&t)
	_, err := c.flush(&c.accept.late)
	return false, err
}

func (c *commit) wrote(id hook.ID) bool {
	_, ok := c.written[id]
	return ok
}

// birth is a delivery that gets its row with the success of its attempt.
type birth struct {
	store.Target
	*store.Settle
}

// writeBorn writes the rows of the births, each table in the order of its ids:
// then rows that are neighbours meet in the same page.
func (c *commit) writeBorn() error {
	slices.SortFunc(c.born, func(a, b birth) int { return cmp.Compare(a.Attempt.ID, b.Attempt.ID) })
	for i := range c.born {
		a := c.born[i].Attempt
		c.settle.document = store.AppendAttempt(c.settle.document[:0], a)
		c.settle.bornAttempts.add(int64(a.ID), string(c.settle.document), blobOrNull(a.Excerpt))
		c.keep(c.born[i].Tenant, store.StoredByAttempt(len(c.settle.document)+len(a.Excerpt)))
	}
	slices.SortFunc(c.born, func(a, b birth) int { return cmp.Compare(a.ID, b.ID) })
	for i := range c.born {
		c.addBorn(&c.born[i].Target, c.born[i].Settle)
	}
	if _, err := c.flush(&c.settle.bornAttempts); err != nil {
		return err
	}
	_, err := c.flush(&c.settle.born)
	return err
}

func (c *commit) addBorn(t *store.Target, s *store.Settle) {
	d, last, due := &s.Delivery, &s.Delivery.Last, t.Due.UnixMicro()
	c.settle.born.add(int64(t.ID), int64(t.Tenant), int64(t.Event), int64(t.Endpoint), due, int64(t.Size), due,
		int64(d.Progress.Charged), int64(s.Attempt.ID), int64(last.Class), int64(last.Reason), int64(last.Status),
		last.Latency.Microseconds(), stamp(last.At), stamp(d.SettledAt), stamp(d.FirstDeliveredAt), int64(s.Attempt.ID))
}

// addTarget adds the row of a target as it was accepted.
func (f *fastPath) addTarget(t *store.Target) {
	f.accept.late.add(int64(t.ID), int64(t.Tenant), int64(t.Event), int64(t.Endpoint),
		t.Due.UnixMicro(), int64(t.Size), int64(1), t.Due.UnixMicro())
}

// writeOverdue writes the rows that nobody has settled in time, and moves since.
func (c *commit) writeOverdue() error {
	for _, t := range c.unwritten.Overdue(c.batch.Now) {
		if !c.wrote(t.ID) {
			c.addTarget(&t)
			c.written[t.ID] = struct{}{}
		}
	}
	if _, err := c.flush(&c.accept.late); err != nil {
		return err
	}
	newest := c.since
	for _, a := range c.batch.Accepts {
		newest = max(newest, a.EventID)
	}
	if newest-c.since < sinceStep {
		return nil
	}
	oldest := c.unwritten.Oldest(newest)
	for i := range c.added {
		oldest = min(oldest, c.added[i].Event)
	}
	if oldest <= c.since {
		return nil
	}
	c.since = oldest
	_, err := c.exec(c.moveSince.bind(int64(oldest)))
	return err
}

// writeOut writes the rows of the given targets. The caller has the writer's
// turn.
func (db *DB) writeOut(ctx context.Context, targets []store.Target) error {
	if len(targets) == 0 {
		return nil
	}
	f := &db.write.fast
	err := f.transaction(ctx, db.write.conn, func() error {
		for i := range targets {
			f.addTarget(&targets[i])
		}
		_, err := f.flush(&f.accept.late)
		return err
	})
	if err != nil {
		return err
	}
	ids := make([]hook.ID, len(targets))
	for i := range targets {
		ids[i] = targets[i].ID
	}
	db.unwritten.Committed(nil, ids)
	return nil
}

// catchUp writes the rows of the deliveries in the scope that have none, so that
// a read sees them all.
func (db *DB) catchUp(ctx context.Context, s store.Scope) error {
	if len(db.unwritten.Matching(s)) == 0 {
		return nil
	}
	return db.exclusive(ctx, "write deliveries", func(ctx context.Context) error {
		return db.writeOut(ctx, db.unwritten.Matching(s))
	})
}

// catchUpToShow is catchUp for those who look. With a full disk they see what
// there is.
func (db *DB) catchUpToShow(ctx context.Context, s store.Scope) error {
	if err := db.catchUp(ctx, s); !errors.Is(err, hook.ErrStoreFull) {
		return err
	}
	return nil
}

// catchUpToFind is catchUpToShow for what a filter may match.
func (db *DB) catchUpToFind(ctx context.Context, df *store.DeliveryFilter) error {
	if s, ok := df.Scope(); ok {
		return db.catchUpToShow(ctx, s)
	}
	return nil
}

// recoverChunk is how many events recovery looks at in one transaction.
const recoverChunk = 1000

// recover writes the rows that an earlier process left to its events.
func (db *DB) recover(ctx context.Context) error {
	return db.exclusive(ctx, "recover deliveries", func(ctx context.Context) error {
		if err := db.write.conn.QueryRowContext(ctx, findSince).Scan(&db.since); err != nil {
			return err
		}
		for from := db.since; ; {
			last, n, err := db.recoverFrom(ctx, from)
			if err != nil {
				return err
			}
			if n < recoverChunk {
				db.recovered = true
				return nil
			}
			from = last + 1
		}
	})
}

// recoverFrom recovers the deliveries of the next events and returns the last of
// those and their number.
func (db *DB) recoverFrom(ctx context.Context, from hook.ID) (last hook.ID, n int, err error) {
	type row struct {
		event   hook.Event
		targets []byte
	}
	events, err := search(ctx, db.write.conn, func(r scannable, v *row) error {
		return r.Scan(&v.event.ID, &v.event.TenantID, when(&v.event.CreatedAt), &v.targets)
	}, unwrittenEvents, from, recoverChunk)
	if err != nil || len(events) == 0 {
		return 0, 0, err
	}
	var targets []store.Target
	for i := range events {
		of, err := store.ParseTargets(events[i].targets, &events[i].event)
		if err != nil {
			return 0, 0, err
		}
		targets = append(targets, of...)
	}
	return events[len(events)-1].event.ID, len(events), db.writeOut(ctx, targets)
}

// writeRest leaves nothing to recover. With a full disk the events go on keeping
// their deliveries.
func (db *DB) writeRest() error {
	err := db.update(context.Background(), "write the last deliveries", func(t tx) error {
		_, err := t.exec(endSince)
		return err
	})
	if errors.Is(err, hook.ErrStoreFull) {
		return nil
	}
	return err
}

// committed notes what a commit has left unwritten, and what no longer is.
func (c *commit) committed(db *DB) {
	db.since = c.since
	added := slices.DeleteFunc(c.added, func(t store.Target) bool { return c.wrote(t.ID) })
	db.unwritten.Committed(added, slices.Collect(maps.Keys(c.written)))
}
