package sqlstore

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

const (
	groupColumns = "d.id, d.tenant_id, d.endpoint_id, d.event_id, coalesce(d.reason, 0) AS reason, coalesce(d.last_status, 0) AS status, d.settled_at"

	// groupAll adds up what stands between the two. Windows over the groups give
	// the sum of those that a limit leaves out.
	groupAll = `SELECT tenant_id, endpoint_id, reason, status, count(*), min(settled_at), max(settled_at), min(event_id), max(id),
  CAST(sum(count(*)) OVER () AS bigint)
FROM (`
	groupBy = `) matching GROUP BY tenant_id, endpoint_id, reason, status ORDER BY count(*) DESC, max(id) DESC LIMIT `
)

// GroupDead implements store.DeadLetters.
func (t *Tables) GroupDead(ctx context.Context, f store.DeliveryFilter, p store.Page) (out store.DeadGroups, err error) {
	const doing = "group dead letters"
	seen, err := t.dialect.MakeVisible(ctx, &f)
	if err != nil {
		return out, err
	}
	w, r, more, err := scan(ctx, t, seen, doing, &f, p, "", scanDeliveryRow).Newest(&f, p)
	if err != nil {
		return out, err
	}
	look := f.ScanLimit(p)
	q := t.dialect.WalkQuery(seen, w, &f, r, store.Page{Limit: look, ScanLimit: look}, groupColumns)
	q.SQL = groupAll + q.SQL + groupBy + q.Arg(p.Limit+1)
	out.Groups, err = list(ctx, t, doing, func(row Row, g *store.DeadGroup) error {
		return row.Scan(&g.Tenant, &g.Endpoint, &g.Reason, &g.Status, &g.Count, Time(&g.Oldest), Time(&g.Newest), &g.First, &g.Sample, &out.Count)
	}, q)
	out.Exact, out.Cut = !more, len(out.Groups) > p.Limit
	out.Groups = out.Groups[:min(len(out.Groups), p.Limit)]
	return out, err
}

const discardFound visible.SQL = `UPDATE deliveries AS d SET state = 3, reason = $2, settled_at = $3 WHERE `

// DiscardDead implements store.DeadLetters. Like FeedReplay it searches before its
// transaction, which looks again at each delivery. A replay that a delivery belonged
// to has counted its end already.
func (t *Tables) DiscardDead(ctx context.Context, d store.Discard) (out store.Discarded, err error) {
	f := d.Filter
	f.SettledBy = d.Now
	ids, next, err := find(ctx, t, "search dead letters", &f, store.Page{Limit: d.Limit, After: d.After, Asc: true}, "d.id",
		ScanValue[hook.ID], func(id hook.ID) hook.ID { return id })
	if err != nil {
		return out, err
	}
	if len(ids) == 0 {
		return store.Discarded{Next: next}, nil
	}
	err = t.dialect.Change(ctx, "discard dead letters", func(tx Tx) error {
		if out.N, err = t.discard(tx, &d, ids); err != nil || d.Audit == nil || out.N == 0 {
			return err
		}
		return WriteAudit(tx, *d.Audit)
	})
	if err != nil {
		return store.Discarded{}, err
	}
	out.Next = next
	return out, nil
}

// discard cancels those of the deliveries that are still dead, and counts them.
func (t *Tables) discard(tx Tx, d *store.Discard, ids []hook.ID) (int, error) {
	var locked, endpoints []hook.ID
	if err := tx.Query(visible.Found.Text(lockFound)+t.dialect.Among("d.id", "$1")+` ORDER BY d.id`+t.dialect.ForUpdate("d"),
		[]any{ids}, Collect(&locked, ScanValue[hook.ID])); err != nil {
		return 0, err
	}
	if err := tx.Query(visible.Found.Text(discardFound)+t.dialect.Among("id", "$1")+` AND state = 2 AND settled_at <= $3 RETURNING endpoint_id`,
		[]any{locked, hook.CancelledByUser, d.Now}, Collect(&endpoints, ScanValue[hook.ID])); err != nil {
		return 0, err
	}
	for _, endpoint := range each(endpoints) {
		n := int64(0)
		for _, e := range endpoints {
			if e == endpoint {
				n++
			}
		}
		// Its death is counted, and stays so: it ends once more.
		of := stats.Owner{Tenant: d.Filter.Tenant, Endpoint: endpoint}
		if err := t.Count(tx, d.Now, of, stats.Reopened, n); err != nil {
			return 0, err
		}
		if err := t.Count(tx, d.Now, of, stats.Cancelled, n); err != nil {
			return 0, err
		}
	}
	return len(endpoints), nil
}
