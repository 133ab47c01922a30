package postgres

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/pipeline"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// lockTenants waits for changes of configuration that are under way; the next
// statement's snapshot then sees them.
const lockTenants = `SELECT pg_advisory_xact_lock_shared(7003, tenant) FROM unnest($1::int[]) AS tenant`

// acceptFirst writes keys, events, deliveries and usage, each only for the
// events that got through the step before:
//
//   - won: keys whose tenant's configuration has not moved on. A key that
//     another transaction is just writing is waited for; one that lives is
//     left alone and not returned. Rows come sorted by (tenant, key), so that
//     two nodes cannot deadlock.
//   - stored: events without key, or whose key was won. No conflict clause: an
//     id that is taken fails the batch instead of losing an event.
//   - named: the deliveries of stored events. IS TRUE keeps the planner from
//     turning the hashed lookup into a join of the batch with itself.
//   - sent: those of them that get their row at once.
//   - figures: what it means to figures; the log of each event, and which of them
//     are stored, only when that are not all $32 of them.
//
// acceptAgain is the same for a batch that may be stored already: it passes
// over events that are there, with their keys and deliveries, for all of them
// came together (or the id is somebody else's, which the explanation finds).
const (
	acceptFirst visible.SQL = acceptKeys + acceptEvents + acceptDeliveries
	acceptAgain visible.SQL = acceptKeys + `
  AND NOT EXISTS (SELECT FROM events e WHERE e.id = n.id)` + acceptEvents + `
  ON CONFLICT (id) DO NOTHING` + acceptDeliveries

	acceptKeys = `
WITH won AS (
  INSERT INTO idempotency_keys AS k (tenant_id, scope, key, event_id, body_hash, expires_at)
  SELECT n.tenant_id, 0, n.key, n.id, n.hash, n.expires
  FROM (
    SELECT unnest($1::bigint[]) AS id, unnest($2::bigint[]) AS tenant_id, unnest($3::bigint[]) AS rev, unnest($4::text[]) AS key,
      unnest($5::bytea[]) AS hash, unnest($6::timestamptz[]) AS expires) AS n
  WHERE ` + acceptFresh

	// acceptFresh keeps what was matched against the configuration as it is now;
	// $25 are the tenants of the batch. They are looked up once and hashed. IS TRUE
	// keeps the planner from making it a join.
	acceptFresh = `((n.tenant_id, n.rev) IN (SELECT t.id, t.config_rev FROM tenants t WHERE t.id = ANY($25::bigint[]))) IS TRUE`

	acceptEvents = `
  ON CONFLICT (tenant_id, scope, key) DO UPDATE
    SET event_id = excluded.event_id, body_hash = excluded.body_hash, expires_at = excluded.expires_at
    WHERE k.expires_at <= $7
  RETURNING k.event_id),
stored AS (
  INSERT INTO events (id, tenant_id, created_at, type, content_type, payload, targets)
  SELECT n.id, n.tenant_id, n.created_at, n.type, n.content_type, n.payload, n.targets
  FROM (
    SELECT unnest($8::bigint[]) AS id, unnest($9::bigint[]) AS tenant_id, unnest($10::bigint[]) AS rev,
      unnest($11::bool[]) AS keyed, unnest($12::timestamptz[]) AS created_at, unnest($13::text[]) AS type,
      unnest($14::text[]) AS content_type, unnest($15::bytea[]) AS payload, unnest($26::bytea[]) AS targets) AS n
  WHERE ` + acceptFresh + `
    AND (NOT n.keyed OR n.id IN (SELECT event_id FROM won))`

	// The numbers in it are the weights of store.StoredBy.
	acceptDeliveries visible.SQL = `
  RETURNING id, tenant_id, 256 + octet_length(payload) AS weight),
named AS (
  SELECT * FROM (
    SELECT unnest($16::bigint[]) AS id, unnest($17::bigint[]) AS tenant_id, unnest($18::bigint[]) AS event_id,
      unnest($19::bigint[]) AS endpoint_id, unnest($20::timestamptz[]) AS due_at, unnest($21::timestamptz[]) AS run_due_at,
      unnest($22::int[]) AS run, unnest($23::int[]) AS size, unnest($27::bigint[]) AS fence) AS n
  WHERE (n.event_id IN (SELECT id FROM stored)) IS TRUE),
sent AS (
  INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, due_at, run_due_at, run, size)
  SELECT n.id, n.tenant_id, n.event_id, n.endpoint_id, n.due_at, n.run_due_at, n.run, n.size
  FROM named n WHERE ` + acceptNow + `),
used AS (
  INSERT INTO tenant_usage AS u (tenant_id, node_id, pending, bytes, stored)
  SELECT tenant_id, $24::bigint, sum(pending), sum(bytes), sum(stored)
  FROM (
    SELECT tenant_id, 1 AS pending, size AS bytes, 512 AS stored FROM named
    UNION ALL
    SELECT tenant_id, 0, 0, weight FROM stored) AS r
  GROUP BY tenant_id ORDER BY tenant_id
  ON CONFLICT (tenant_id, node_id) DO UPDATE SET
    pending = u.pending + excluded.pending, bytes = u.bytes + excluded.bytes, stored = u.stored + excluded.stored),
figures AS (
  INSERT INTO stats_log (at, data, written)
  SELECT $29, CASE WHEN n < $32::int THEN $31::bytea ELSE $30::bytea END, CASE WHEN n < $32::int THEN array_to_string(ids, ',') END
  FROM (SELECT count(*) AS n, array_agg(id) AS ids FROM stored) AS w WHERE n > 0 AND octet_length($30::bytea) > 0)
SELECT array_agg(id) FROM stored`

	// acceptNow keeps the deliveries whose rows cannot be deferred: they are
	// wanted now, or the node $24 no longer owns their lane in the epoch it
	// thinks, so that the new owner has to find them. $28 are the shards of the
	// batch.
	acceptNow = `(n.fence IN (SELECT s.epoch * 256 + s.shard FROM shards s WHERE s.owner_id = $24 AND s.shard = ANY($28::smallint[]))) IS NOT TRUE`
)

// acceptRun is the accepts of one run.
type acceptRun struct {
	asked   []*store.Accept // sent to the server
	repeats []repeat        // not sent: their key is in asked already
	tenants []hook.ID       // of asked
	stored  []int64         // event ids the transaction wrote
}

// repeat is an accept whose key another accept of the same batch carries.
type repeat struct{ accept, of *store.Accept }

// queueTenantLocks locks the tenants of the accepts.
func (r *run) queueTenantLocks() {
	if len(r.batch.Accepts) == 0 {
		return
	}
	r.accepts.separate(r.batch.Accepts)
	r.accepts.tenants = tenantsOf(r.accepts.asked)
	r.Query(lockTenants, nil)
	pipeline.Of(r.Pipeline, tenantLocks(r.accepts.tenants)).Int4s(func(lock int) int { return lock })
}

// queueAccepts adds the accepts to the pipeline.
func (r *run) queueAccepts(shards []int) {
	if len(r.batch.Accepts) == 0 {
		return
	}
	statement := acceptFirst
	if r.batch.Rerun {
		statement = acceptAgain
	}
	r.Query(visible.Defers.Text(statement), &r.accepts.stored)
	r.addKeys(r.accepts.asked)
	r.Time(r.batch.Now)
	r.addEvents(r.accepts.asked)
	deliveries := deliveriesOf(r.accepts.asked)
	r.addDeliveries(deliveries)
	r.ID(int64(r.batch.Node))
	pipeline.Of(r.Pipeline, r.accepts.tenants).Int8s(func(t hook.ID) int64 { return int64(t) })
	pipeline.Of(r.Pipeline, r.accepts.asked).Byteas(r.deferred.Names)
	pipeline.Of(r.Pipeline, deliveries).Int8s(r.deferred.Fence)
	pipeline.Of(r.Pipeline, shards).Int2s(func(shard int) int { return shard })
	r.figures.reset()
	if !r.batch.Uncounted {
		for _, a := range r.accepts.asked {
			a.Log(&r.figures.all)
			a.Log(&r.figures.each)
		}
	}
	r.addFigures()
	r.Number(int32(len(r.accepts.asked)))
}

// separate finds accepts with equal keys: one statement cannot write a key
// twice. The first with the newest configuration is asked; if any of them is
// not stale, that one is.
func (r *acceptRun) separate(all []*store.Accept) {
	type key struct {
		tenant hook.ID
		key    string
	}
	var leaders map[key]*store.Accept
	for _, a := range all {
		if a.Key == "" {
			continue
		}
		if leaders == nil {
			leaders = make(map[key]*store.Accept)
		}
		k := key{a.Event.TenantID, a.Key}
		if first, ok := leaders[k]; !ok || a.ConfigRev > first.ConfigRev {
			leaders[k] = a
		}
	}
	r.asked = make([]*store.Accept, 0, len(all))
	for _, a := range all {
		if leader := leaders[key{a.Event.TenantID, a.Key}]; a.Key == "" || leader == a {
			r.asked = append(r.asked, a)
		} else {
			r.repeats = append(r.repeats, repeat{a, leader})
		}
	}
}

// tenantsOf returns the tenants, each once.
func tenantsOf(accepts []*store.Accept) []hook.ID {
	tenants := make([]hook.ID, 0, 8)
	for _, a := range accepts {
		if !slices.Contains(tenants, a.Event.TenantID) {
			tenants = append(tenants, a.Event.TenantID)
		}
	}
	return tenants
}

// tenantLocks returns the lock numbers of tenants, in order, each once.
func tenantLocks(tenants []hook.ID) []int {
	locks := make([]int, len(tenants))
	for i, t := range tenants {
		locks[i] = int(lockNumber(t))
	}
	slices.Sort(locks)
	return slices.Compact(locks)
}

// addKeys adds the idempotency keys, sorted.
func (r *run) addKeys(accepts []*store.Accept) {
	var keyed []*store.Accept
	for _, a := range accepts {
		if a.Key != "" {
			keyed = append(keyed, a)
		}
	}
	slices.SortFunc(keyed, func(a, b *store.Accept) int {
		return cmp.Or(cmp.Compare(a.Event.TenantID, b.Event.TenantID), cmp.Compare(a.Key, b.Key))
	})
	c := pipeline.Of(r.Pipeline, keyed)
	c.Int8s(func(a *store.Accept) int64 { return int64(a.Event.ID) })
	c.Int8s(func(a *store.Accept) int64 { return int64(a.Event.TenantID) })
	c.Int8s(func(a *store.Accept) int64 { return a.ConfigRev })
	c.Texts(func(a *store.Accept) string { return a.Key })
	c.Byteas(func(a *store.Accept) []byte { return a.KeyHash[:] })
	c.Times(func(a *store.Accept) time.Time { return a.KeyExpires })
}

func (r *run) addEvents(accepts []*store.Accept) {
	c := pipeline.Of(r.Pipeline, accepts)
	c.Int8s(func(a *store.Accept) int64 { return int64(a.Event.ID) })
	c.Int8s(func(a *store.Accept) int64 { return int64(a.Event.TenantID) })
	c.Int8s(func(a *store.Accept) int64 { return a.ConfigRev })
	c.Bools(func(a *store.Accept) bool { return a.Key != "" })
	c.Times(func(a *store.Accept) time.Time { return a.Event.CreatedAt })
	c.Texts(func(a *store.Accept) string { return a.Event.Type })
	c.Texts(func(a *store.Accept) string { return a.Event.ContentType })
	c.Byteas(func(a *store.Accept) []byte { return notNil(a.Event.Payload) })
}

// notNil keeps an empty payload from becoming NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func deliveriesOf(accepts []*store.Accept) []*hook.Delivery {
	deliveries := make([]*hook.Delivery, 0, len(accepts))
	for _, a := range accepts {
		for i := range a.Deliveries {
			deliveries = append(deliveries, &a.Deliveries[i])
		}
	}
	return deliveries
}

func (r *run) addDeliveries(deliveries []*hook.Delivery) {
	c := pipeline.Of(r.Pipeline, deliveries)
	c.Int8s(func(d *hook.Delivery) int64 { return int64(d.ID) })
	c.Int8s(func(d *hook.Delivery) int64 { return int64(d.TenantID) })
	c.Int8s(func(d *hook.Delivery) int64 { return int64(d.EventID) })
	c.Int8s(func(d *hook.Delivery) int64 { return int64(d.EndpointID) })
	c.Times(func(d *hook.Delivery) time.Time { return d.DueAt })
	c.Times(func(d *hook.Delivery) time.Time { return d.Progress.RunDueAt })
	c.Int4s(func(d *hook.Delivery) int { return d.Progress.Run })
	c.Int4s(func(d *hook.Delivery) int { return d.Size })
}

// explainAccepts sets the outcomes. Nearly always everything was stored and
// nothing has to be asked.
func (r *run) explainAccepts(ctx context.Context, conn *pgx.Conn) error {
	open := r.accepts.report()
	if len(open) > 0 {
		if err := explainRefused(ctx, conn, open, r.batch); err != nil {
			return err
		}
	}
	open = r.accepts.reportRepeats()
	if len(open) > 0 {
		return explainRefused(ctx, conn, open, r.batch)
	}
	return nil
}

// report marks what the transaction stored and returns the rest.
func (r *acceptRun) report() []*store.Accept {
	complete := len(r.stored) == len(r.asked)
	var written map[int64]bool
	if !complete {
		written = make(map[int64]bool, len(r.stored))
		for _, id := range r.stored {
			written[id] = true
		}
	}
	var open []*store.Accept
	for _, a := range r.asked {
		if complete || written[int64(a.Event.ID)] {
			stored(a)
		} else {
			open = append(open, a)
		}
	}
	return open
}

func stored(a *store.Accept) {
	a.Outcome, a.EventID, a.Count = store.AcceptStored, a.Event.ID, len(a.Deliveries)
}

// reportRepeats answers repeats of what was stored just now and returns those
// whose answer is in the database.
func (r *acceptRun) reportRepeats() []*store.Accept {
	var open []*store.Accept
	for _, p := range r.repeats {
		switch {
		case p.of.Outcome != store.AcceptStored:
			open = append(open, p.accept)
		case p.of.KeyHash == p.accept.KeyHash:
			p.accept.Outcome, p.accept.EventID, p.accept.Count = store.AcceptReplayed, p.of.EventID, p.of.Count
		default:
			p.accept.Outcome = store.AcceptConflict
		}
	}
	return open
}

// whyRefused reads what is stored under the id and under the key of accepts
// that were not written. The deliveries are for repetitions only, which tell how
// many there are: some may be deferred.
const whyRefused visible.SQL = `
SELECT n.i, e.tenant_id, e.type, e.created_at, sha256(e.payload), k.event_id, k.body_hash,
       ARRAY(SELECT d.id FROM deliveries d WHERE d.event_id = k.event_id), (SELECT w.targets FROM events w WHERE w.id = k.event_id)
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) WITH ORDINALITY AS n(id, tenant_id, key, i)
LEFT JOIN events e ON e.id = n.id
LEFT JOIN idempotency_keys k ON k.tenant_id = n.tenant_id AND k.scope = 0 AND k.key = n.key AND k.expires_at > $4`

// explainRefused sets the outcomes of accepts that were not written. It runs
// after the commit, so it sees the winner of a key that was waited for.
func explainRefused(ctx context.Context, conn *pgx.Conn, open []*store.Accept, b *store.Batch) error {
	ids, tenants, keys := make([]int64, len(open)), make([]int64, len(open)), make([]string, len(open))
	for i, a := range open {
		ids[i], tenants[i], keys[i] = int64(a.Event.ID), int64(a.Event.TenantID), a.Key
	}
	rows, err := conn.Query(ctx, visible.AddsDeferred.Text(whyRefused), ids, tenants, keys, at(b.Now))
	if err != nil {
		return fmt.Errorf("explain accepts: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var i int
		var f found
		if err := rows.Scan(&i, &f.tenant, &f.typ, &f.created, &f.digest, &f.winner, &f.hash, &f.rows, &f.names); err != nil {
			return fmt.Errorf("explain accepts: %w", err)
		}
		if err := f.explain(open[i-1], b.Rerun); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("explain accepts: %w", err)
	}
	return nil
}

// found is what whyRefused saw: the event under the accept's id, if any, and
// the holder of its key, if any.
type found struct {
	tenant  *int64
	typ     *string
	created pgtype.Timestamptz
	digest  []byte
	winner  *int64
	hash    []byte
	rows    []hook.ID // deliveries of the winner
	names   []byte    // and those that it names itself
}

// count returns how many deliveries the holder of the key has.
func (f *found) count() (int, error) {
	named, err := deferred.ParseNames(f.names, &hook.Event{ID: hook.ID(*f.winner)})
	return len(f.rows) + len(deferred.Without(named, f.rows)), err
}

// explain sets the outcome. Only a rerun looks at the event under the id: a
// first run stores it or fails.
func (f *found) explain(a *store.Accept, rerun bool) (err error) {
	switch {
	case rerun && f.tenant != nil && f.is(&a.Event):
		stored(a) // by the first run
	case rerun && f.tenant != nil:
		return fmt.Errorf("%w: event id %d belongs to another event", store.ErrRefused, a.Event.ID)
	case f.winner != nil && bytes.Equal(f.hash, a.KeyHash[:]):
		a.Outcome, a.EventID = store.AcceptReplayed, hook.ID(*f.winner)
		a.Count, err = f.count()
	case f.winner != nil:
		a.Outcome = store.AcceptConflict
	default:
		a.Outcome = store.AcceptStale
	}
	return err
}

// is tells the event that an earlier run stored from one that another node
// stored under the same id.
func (f *found) is(e *hook.Event) bool {
	digest := sha256.Sum256(e.Payload)
	return *f.tenant == int64(e.TenantID) && *f.typ == e.Type &&
		f.created.Time.Equal(e.CreatedAt.Truncate(time.Microsecond)) && bytes.Equal(f.digest, digest[:])
}
