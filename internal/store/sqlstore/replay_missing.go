package sqlstore

import (
	"cmp"
	"context"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// MissingEvents implements store.MissingReader.
func (t *Tables) MissingEvents(ctx context.Context, j *hook.ReplayJob, p store.Page) (page []store.MissingEvent, next hook.ID, err error) {
	const doing = "search events without delivery"
	if m := j.Filter.Missing; m == nil || len(m.Types) == 0 {
		return nil, 0, nil
	}
	r, limit, stop := store.MissingRange(j, p), max(p.Limit, 1), hook.ID(0)
	q := MissingStop(t.dialect, j, r, cmp.Or(p.ScanLimit, store.MissingScanLimit))
	if err := t.dialect.Read(ctx, doing, q, func(r Row) error { return r.Scan(&stop) }); err != nil {
		return nil, 0, err
	}
	if stop != 0 {
		r.To, next = stop, stop-1
	}
	page, err = list(ctx, t, doing, func(r Row, e *store.MissingEvent) error { return r.Scan(&e.ID, &e.Size) }, MissingQuery(t.dialect, j, r, limit))
	if len(page) >= limit {
		next = page[len(page)-1].ID
	}
	return page, next, err
}

// MissingStop steps over the first n events of a range and returns the id behind them.
func MissingStop(d Dialect, j *hook.ReplayJob, r store.IDs, n int) *Query {
	q := &Query{SQL: "SELECT e.id FROM "}
	q.SQL += d.EventsOf(q, j.TenantID, r) + " LIMIT 1 OFFSET " + q.Arg(n)
	return q
}

// MissingQuery reads the events of a range that a replay creates deliveries for.
func MissingQuery(d Dialect, j *hook.ReplayJob, r store.IDs, limit int) *Query {
	q := &Query{SQL: "SELECT e.id, octet_length(e.payload) FROM "}
	order := d.EventsOf(q, j.TenantID, r)
	for _, types := range [][]string{j.Filter.Missing.Types, j.Filter.Types} {
		if condition := q.TypeIn("e.type", types); condition != "" {
			q.And(condition)
		}
	}
	q.And("e.content_type NOT LIKE ?", "%"+hook.NamedMark+"%")
	d.WithoutDelivery(q, j.EndpointID)
	q.SQL += order + " LIMIT " + q.Arg(limit)
	return q
}

// KeptFrom is the setting with the first event whose deliveries retention has not
// begun to remove, where they leave before their events. Those of earlier events may
// have been there.
const KeptFrom = "events_kept_from"

const keptFrom = `SELECT coalesce((SELECT CAST(value AS bigint) FROM settings WHERE name = $1), 0)`

// createMissing creates deliveries for those of the events that are still there, the
// pairs of lists between the two. What has a delivery by now is passed over. The size
// is looked up for each event: a join could be turned around, and begin with all of
// them.
const createMissing visible.SQL = `
INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, due_at, run_due_at, size, replay_id)
SELECT n.id, $3, n.event_id, $4, $5, $5, n.size, $6 FROM (
  SELECT p.id, p.event_id, (SELECT octet_length(e.payload) FROM events e WHERE e.id = p.event_id AND e.tenant_id = $3) AS size
  FROM `

const createIfKept = `) n
WHERE n.size IS NOT NULL AND n.event_id >= $7
  AND EXISTS (SELECT 1 FROM endpoints e WHERE e.id = $4 AND e.tenant_id = $3 AND e.deleted_at IS NULL AND e.state <> 2)
ORDER BY n.id
ON CONFLICT (event_id, endpoint_id) DO NOTHING RETURNING endpoint_id, size`

// create creates deliveries for events that have none, in the first run, as those of
// a replay. Retention removes none of their events meanwhile: before it does it marks
// where it is, which waits for this transaction, and looks for pending deliveries after
// that.
func (t *Tables) create(tx Tx, f *store.Feed, missing []store.MissingEvent, g *grown) error {
	if len(missing) == 0 {
		return nil
	}
	if err := tx.Lock(LockKeptShared, 0); err != nil {
		return err
	}
	kept, err := one(tx, ScanValue[hook.ID], keptFrom, KeptFrom)
	if err != nil {
		return err
	}
	ids, events := make([]hook.ID, len(missing)), make([]hook.ID, len(missing))
	for i, m := range missing {
		ids[i], events[i] = m.Delivery, m.ID
	}
	j, before := &f.Replay, g.Pending
	err = tx.Query(visible.AddsDeferred.Text(createMissing)+t.dialect.Pairs()+createIfKept,
		[]any{ids, events, j.TenantID, j.EndpointID, f.Now, j.ID, kept}, g.add)
	g.Stored += store.StoredByDeliveries(int(g.Pending - before))
	return err
}
