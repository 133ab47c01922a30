package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// ofTenant adds the condition that a column is the tenant, unless that is all.
func (q *Query) ofTenant(column string, tenant hook.ID) *Query {
	if tenant != 0 {
		q.And(column+" = ?", tenant)
	}
	return q
}

// stateOf is the state of an endpoint, NULL of one that is deleted. A scalar subquery,
// and not a join: a planner would read all endpoints to find the few that are wanted.
func stateOf(id string) string {
	return `(SELECT e.state FROM endpoints e WHERE e.id = ` + id + ` AND e.deleted_at IS NULL)`
}

// depthOf is how much waits for another attempt, of what its owner has measured.
func depthOf(id string) string {
	return `coalesce((SELECT w.depth FROM lane_watch w WHERE w.endpoint_id = ` + id + `), 0)`
}

// LaneCountQueries count endpoints, open lanes and those of them that probe, and
// storms, each along an index that holds little else.
func LaneCountQueries(d Dialect, tenant hook.ID, now time.Time) (endpoints, open, storms *Query) {
	endpoints = &Query{SQL: `SELECT count(*), 0 FROM endpoints e` + d.Hint("endpoints_uid") + ` WHERE e.deleted_at IS NULL`}
	endpoints.ofTenant("e.tenant_id", tenant)
	open = &Query{SQL: `
SELECT count(*), CAST(coalesce(sum(CASE WHEN c.next_probe_at <= $1 AND c.state = 0 THEN 1 ELSE 0 END), 0) AS bigint)
FROM (SELECT l.next_probe_at, ` + stateOf("l.endpoint_id") + ` AS state FROM lanes l` + d.Hint("lanes_open") + ` WHERE l.state = 1`, Args: []any{now}}
	open.ofTenant("l.tenant_id", tenant)
	open.SQL += `) AS c WHERE c.state IS NOT NULL`
	storms = &Query{SQL: `
SELECT count(*), 0 FROM lane_watch s` + d.Hint("lane_watch_active") + `
WHERE (s.storm_since IS NOT NULL OR s.growing_since IS NOT NULL) AND s.storm_since IS NOT NULL AND ` + stateOf("s.endpoint_id") + ` IS NOT NULL`}
	return endpoints, open, storms.ofTenant("s.tenant_id", tenant)
}

// CountLanes implements store.Overview.
func (t *Tables) CountLanes(ctx context.Context, tenant hook.ID, now time.Time) (c store.LaneCounts, err error) {
	endpoints, open, storms := LaneCountQueries(t.dialect, tenant, now)
	var none int64
	for _, part := range []struct {
		query *Query
		to    []any
	}{{endpoints, []any{&c.Endpoints, &none}}, {open, []any{&c.Open, &c.Probing}}, {storms, []any{&c.Storms, &none}}} {
		if err := t.dialect.Read(ctx, "count lanes", part.query, func(r Row) error { return r.Scan(part.to...) }); err != nil {
			return c, err
		}
	}
	return c, nil
}

// The counts of dead letters walk an index of nothing else, as far as the limit.
const (
	countDead       visible.SQL = `SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE state = 2 ORDER BY endpoint_id, id LIMIT $1) AS n`
	countDeadTenant visible.SQL = `SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE state = 2 AND tenant_id = $2 ORDER BY id LIMIT $1) AS n`
)

// CountDeadQuery returns the query of CountDead.
func CountDeadQuery(seen visible.Rows, tenant hook.ID, limit int) *Query {
	if tenant == 0 {
		return &Query{SQL: seen.Text(countDead), Args: []any{limit}}
	}
	return &Query{SQL: seen.Text(countDeadTenant), Args: []any{limit, tenant}}
}

// CountDead implements store.Overview.
func (t *Tables) CountDead(ctx context.Context, tenant hook.ID, limit int) (n int64, err error) {
	seen, err := t.dialect.MakeVisible(ctx, &store.DeliveryFilter{Tenant: tenant, States: []hook.DeliveryState{hook.Dead}})
	if err != nil {
		return 0, err
	}
	err = t.dialect.Read(ctx, "count dead letters", CountDeadQuery(seen, tenant, limit), func(r Row) error { return r.Scan(&n) })
	return n, err
}

const glances = `
SELECT e.id, e.tenant_id, e.url, e.state, e.state_reason, coalesce(l.state, 0), l.opened_at, l.next_probe_at, w.endpoint_id IS NOT NULL,
  w.storm_since, coalesce(w.firsts, 0), coalesce(w.retries, 0), w.growing_since, coalesce(w.depth, 0), coalesce(w.at_least, false),
  coalesce(w.drain_per_minute, 0), w.updated_at
FROM endpoints e LEFT JOIN lanes l ON l.endpoint_id = e.id LEFT JOIN lane_watch w ON w.endpoint_id = e.id
WHERE e.deleted_at IS NULL AND `

func scanGlance(r Row, g *store.LaneGlance) error {
	var open int
	w := &g.Watch
	err := r.Scan(&g.EndpointID, &g.TenantID, &g.URL, &g.State, &g.Reason, &open, Time(&g.OpenedAt), Time(&g.NextProbeAt), &g.Watched,
		Time(&w.Storm.Since), &w.Storm.First, &w.Storm.Retries, Time(&w.Queue.Since), &w.Queue.Depth, &w.Queue.AtLeast,
		&w.Queue.DrainPerMinute, Time(&w.UpdatedAt))
	g.Open, w.EndpointID, w.TenantID = open == 1, g.EndpointID, g.TenantID
	return err
}

// WorstQueries return candidates for the worst lanes, each query the worst of its kind:
// those that are open, in a storm or about to be, halted, and those with the longest
// retry queues.
func WorstQueries(d Dialect, tenant hook.ID, limit int) []*Query {
	// some sorts up to MostCompared of one kind by a rank and by what waits.
	some := func(column, query string) *Query {
		q := (&Query{SQL: `SELECT c.id FROM (` + query}).ofTenant(column, tenant)
		q.SQL += ` LIMIT ` + q.Arg(store.MostCompared) + `) AS c ORDER BY c.rank, c.depth DESC, c.id LIMIT ` + q.Arg(limit)
		return q
	}
	longest := (&Query{SQL: `SELECT s.endpoint_id FROM lane_watch s WHERE s.depth > 0`}).ofTenant("s.tenant_id", tenant)
	longest.SQL += ` ORDER BY s.depth DESC, s.endpoint_id LIMIT ` + longest.Arg(2*limit) // some may be deleted
	return []*Query{
		some("o.tenant_id", `SELECT o.endpoint_id AS id, 0 AS rank, `+depthOf("o.endpoint_id")+` AS depth FROM lanes o`+d.Hint("lanes_open")+`
WHERE o.state = 1 AND `+stateOf("o.endpoint_id")+` = 0`),
		some("s.tenant_id", `SELECT s.endpoint_id AS id, CASE WHEN s.storm_since IS NULL THEN 1 ELSE 0 END AS rank, s.depth FROM lane_watch s`+
			d.Hint("lane_watch_active")+`
WHERE (s.storm_since IS NOT NULL OR s.growing_since IS NOT NULL) AND `+stateOf("s.endpoint_id")+` IS NOT NULL`),
		some("h.tenant_id", `SELECT h.id, CASE h.state_reason WHEN 'manual' THEN 1 ELSE 0 END AS rank, `+depthOf("h.id")+` AS depth FROM endpoints h`+
			d.Hint("endpoints_halted")+`
WHERE h.state <> 0 AND h.deleted_at IS NULL`),
		longest,
	}
}

// WorstLanes implements store.Overview.
func (t *Tables) WorstLanes(ctx context.Context, tenant hook.ID, limit int) ([]store.LaneGlance, error) {
	var ids []hook.ID
	for _, q := range WorstQueries(t.dialect, tenant, limit) {
		some, err := list(ctx, t, "find the worst lanes", ScanValue[hook.ID], q)
		if err != nil {
			return nil, err
		}
		ids = append(ids, some...)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	all, err := list(ctx, t, "read the worst lanes", scanGlance,
		&Query{SQL: glances + t.dialect.Among("e.id", "$1"), Args: []any{slices.Compact(ids)}})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b store.LaneGlance) int { return a.Worse(&b) })
	return all[:min(len(all), limit)], nil
}

// EndpointStatsQuery reads figures of endpoints kept by one step, each along the
// primary key.
func EndpointStatsQuery(d Dialect, endpoints []hook.ID, step stats.Step, from, to time.Time) *Query {
	return &Query{SQL: `SELECT subject, at, data FROM stats WHERE level = $1 AND ` + d.Among("subject", "$2") + ` AND step = $3 AND at >= $4 AND at < $5
ORDER BY subject, at`, Args: []any{stats.OfEndpoint, endpoints, step, step.Floor(from).Unix(), to.Unix()}}
}

// EndpointStats implements store.Overview.
func (t *Tables) EndpointStats(ctx context.Context, endpoints []hook.ID, from, to time.Time) (map[hook.ID][]stats.Point, error) {
	out := make(map[hook.ID][]stats.Point, len(endpoints))
	for _, step := range []stats.Step{stats.Days, stats.Hours, stats.Minutes} {
		err := t.dialect.Read(ctx, "read figures", EndpointStatsQuery(t.dialect, endpoints, step, from, to), func(r Row) error {
			var id hook.ID
			var at int64
			var data []byte
			if err := r.Scan(&id, &at, &data); err != nil {
				return err
			}
			if points := t.unpack(out[id], stats.Subject{Level: stats.OfEndpoint, ID: id}, at, data); len(points) > 0 {
				out[id] = points
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
