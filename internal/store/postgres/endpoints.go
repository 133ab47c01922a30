package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// endpointColumns are in the order of scanEndpoint.
const endpointColumns = `e.id, e.tenant_id, coalesce(e.uid, ''), e.url, e.description, e.event_types, e.headers_sealed, e.policy, e.signatures,
  e.body_mode, e.metadata, e.state, e.state_reason, e.rev, e.probe_wanted_at, e.reset_wanted_at, e.created_at, e.updated_at, e.deleted_at`

// endpointTargets are the places to scan endpointColumns into.
func endpointTargets(e *hook.Endpoint) []any {
	return []any{
		&e.ID, &e.TenantID, &e.UID, &e.URL, &e.Description, &e.Types, &e.HeadersSealed, &e.Policy, &e.Signatures,
		&e.Body, &e.Metadata, &e.State, &e.StateReason, &e.Rev, (*moment)(&e.ProbeWantedAt), (*moment)(&e.ResetWantedAt),
		(*moment)(&e.CreatedAt), (*moment)(&e.UpdatedAt), (*moment)(&e.DeletedAt),
	}
}

func scanEndpoint(row pgx.Row) (e hook.Endpoint, err error) {
	err = row.Scan(endpointTargets(&e)...)
	return e, err
}

// endpointDocuments are the parts of an endpoint that are stored as JSON.
type endpointDocuments struct{ types, signatures, metadata json.RawMessage }

func documentsOf(e *hook.Endpoint) (docs endpointDocuments, err error) {
	types, signatures := e.Types, e.Signatures
	if types == nil {
		types = []string{}
	}
	if signatures == nil {
		signatures = []hook.Signature{}
	}
	var errs [3]error
	docs.types, errs[0] = document(types)
	docs.signatures, errs[1] = document(signatures)
	docs.metadata, errs[2] = document(notNilMap(e.Metadata))
	return docs, errors.Join(errs[:]...)
}

const endpointUIDIndex = "endpoints_uid"

// moveConfigOn makes accepts that were matched before this change stale.
const moveConfigOn = `UPDATE tenants SET config_rev = config_rev + 1 WHERE id = $1`

// changeConfig runs fn as a change of the tenant's configuration.
func (d *DB) changeConfig(ctx context.Context, tenant hook.ID, a hook.Audit, fn func(tx pgx.Tx) error) error {
	return d.change(ctx, a, func(tx pgx.Tx) error {
		if err := lockConfig(ctx, tx, tenant); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, moveConfigOn, tenant)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return hook.ErrNotFound
		}
		return fn(tx)
	})
}

const countEndpoints = `SELECT count(*) FROM endpoints WHERE tenant_id = $1 AND deleted_at IS NULL`

// roomForEndpoint checks that the tenant may have one endpoint more. The lock of
// its configuration is held, so no other one comes in between.
func roomForEndpoint(ctx context.Context, tx pgx.Tx, tenant hook.ID, most int64) error {
	if most == 0 {
		return nil
	}
	var n int64
	if err := tx.QueryRow(ctx, countEndpoints, tenant).Scan(&n); err != nil {
		return err
	}
	if n >= most {
		return hook.ErrTooManyEndpoints
	}
	return nil
}

const insertEndpoint = `
INSERT INTO endpoints (id, tenant_id, uid, shard, url, description, event_types, headers_sealed, policy, signatures, body_mode, metadata,
  state, state_reason, rev, probe_wanted_at, reset_wanted_at, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`

// CreateEndpoint stores a new endpoint with its first secrets.
func (d *DB) CreateEndpoint(ctx context.Context, e hook.Endpoint, secrets []hook.Secret, most int64, a hook.Audit) error {
	docs, err := documentsOf(&e)
	if err != nil {
		return err
	}
	err = d.changeConfig(ctx, e.TenantID, a, func(tx pgx.Tx) error {
		if err := roomForEndpoint(ctx, tx, e.TenantID, most); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, insertEndpoint, e.ID, e.TenantID, orNull(e.UID), hook.ShardOf(e.ID), e.URL, e.Description, docs.types,
			e.HeadersSealed, orEmpty(e.Policy), docs.signatures, e.Body, docs.metadata, e.State, e.StateReason, max(e.Rev, 1),
			at(e.ProbeWantedAt), at(e.ResetWantedAt), at(e.CreatedAt), at(e.UpdatedAt))
		if err != nil {
			return err
		}
		for _, s := range secrets {
			if err := addSecret(ctx, tx, s); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case violates(err, endpointUIDIndex):
		return hook.ErrUIDTaken
	case err != nil:
		return failed("create endpoint", err)
	}
	return nil
}

const (
	endpointByID = `
SELECT ` + endpointColumns + ` FROM endpoints e
WHERE e.id = $1 AND ($2::bigint = 0 OR e.tenant_id = $2) AND e.deleted_at IS NULL`

	endpointByUID = `
SELECT ` + endpointColumns + ` FROM endpoints e
WHERE e.tenant_id = $1 AND e.uid = $2 AND e.deleted_at IS NULL`
)

// EndpointByID returns an endpoint that is not deleted.
func (d *DB) EndpointByID(ctx context.Context, tenant, id hook.ID) (hook.Endpoint, error) {
	e, err := scanEndpoint(d.pool.QueryRow(ctx, endpointByID, id, int64(tenant)))
	if err != nil {
		return hook.Endpoint{}, failed("read endpoint", err)
	}
	return e, nil
}

// EndpointByUID returns an endpoint by the name chosen within its tenant.
func (d *DB) EndpointByUID(ctx context.Context, tenant hook.ID, uid string) (hook.Endpoint, error) {
	e, err := scanEndpoint(d.pool.QueryRow(ctx, endpointByUID, tenant, clean(uid)))
	if err != nil {
		return hook.Endpoint{}, failed("read endpoint by uid", err)
	}
	return e, nil
}

const listEndpoints = `SELECT ` + endpointColumns + ` FROM endpoints e WHERE e.deleted_at IS NULL`

// ListEndpoints returns the endpoints of a tenant, or of all.
func (d *DB) ListEndpoints(ctx context.Context, tenant hook.ID, p store.Page) ([]hook.Endpoint, error) {
	list := query{sql: listEndpoints}
	if tenant != 0 {
		list.and("e.tenant_id = ?", tenant)
	}
	list.page("e.id", p)
	return collect(ctx, d.pool, &list, "list endpoints", scanEndpoint)
}

const endpointsOf = `SELECT ` + endpointColumns + ` FROM endpoints e WHERE e.tenant_id = $1 AND e.deleted_at IS NULL ORDER BY e.id`

// EndpointsOf returns all endpoints of a tenant with the ConfigRev they belong
// to, in one snapshot.
func (d *DB) EndpointsOf(ctx context.Context, tenant hook.ID) ([]hook.Endpoint, int64, error) {
	var all []hook.Endpoint
	var rev int64
	err := pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, configRev, tenant).Scan(&rev); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, endpointsOf, tenant)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (hook.Endpoint, error) { return scanEndpoint(row) })
		return err
	})
	if err != nil {
		return nil, 0, failed("read endpoints of tenant", err)
	}
	return all, rev, nil
}

const updateEndpoint = `
UPDATE endpoints e SET uid = $4, url = $5, description = $6, event_types = $7, headers_sealed = $8, policy = $9, signatures = $10,
  body_mode = $11, metadata = $12, state = $13, state_reason = $14, probe_wanted_at = $15, reset_wanted_at = $16, updated_at = $17, rev = rev + 1
WHERE id = $1 AND tenant_id = $2 AND rev = $3 AND deleted_at IS NULL RETURNING ` + endpointColumns

// UpdateEndpoint stores e if the stored Rev is e.Rev.
func (d *DB) UpdateEndpoint(ctx context.Context, e hook.Endpoint, a hook.Audit) (hook.Endpoint, error) {
	docs, err := documentsOf(&e)
	if err != nil {
		return hook.Endpoint{}, err
	}
	var updated hook.Endpoint
	err = d.changeConfig(ctx, e.TenantID, a, func(tx pgx.Tx) (err error) {
		updated, err = scanEndpoint(tx.QueryRow(ctx, updateEndpoint, e.ID, e.TenantID, e.Rev, orNull(e.UID), e.URL, e.Description,
			docs.types, e.HeadersSealed, orEmpty(e.Policy), docs.signatures, e.Body, docs.metadata, e.State, e.StateReason,
			at(e.ProbeWantedAt), at(e.ResetWantedAt), at(e.UpdatedAt)))
		if errors.Is(err, pgx.ErrNoRows) {
			return mismatchOrAbsent(ctx, tx,
				`SELECT EXISTS (SELECT FROM endpoints WHERE id = $1 AND tenant_id = $2 AND deleted_at IS NULL)`, e.ID, e.TenantID)
		}
		return err
	})
	switch {
	case violates(err, endpointUIDIndex):
		return hook.Endpoint{}, hook.ErrUIDTaken
	case err != nil:
		return hook.Endpoint{}, failed("update endpoint", err)
	}
	return updated, nil
}

const (
	endpointOwner = `SELECT tenant_id, deleted_at IS NOT NULL FROM endpoints WHERE id = $1 AND ($2::bigint = 0 OR tenant_id = $2)`

	markDeleted = `UPDATE endpoints SET deleted_at = $2, updated_at = $2, rev = rev + 1 WHERE id = $1 AND deleted_at IS NULL`

	// cancelChunk ends pending deliveries in the order in which settles lock
	// them. The usage is booked on node 0; a replay counts them as failed.
	cancelChunk visible.SQL = `
WITH chunk AS (
  SELECT id FROM (SELECT id FROM deliveries WHERE endpoint_id = $1 AND state = 0 ORDER BY due_at, id LIMIT $2) c ORDER BY id),
ended AS (
  UPDATE deliveries d SET state = 3, reason = $3, settled_at = $4, restore_state = NULL, restore_due_at = NULL, restore_reason = NULL
  FROM chunk WHERE d.id = chunk.id AND d.state = 0 RETURNING d.tenant_id, d.size, d.replay_id),
failed AS (
  UPDATE replays p SET failed = p.failed + e.n
  FROM (SELECT replay_id, count(*) AS n FROM ended WHERE replay_id IS NOT NULL GROUP BY replay_id ORDER BY replay_id) e WHERE p.id = e.replay_id),
freed AS (
  INSERT INTO tenant_usage AS u (tenant_id, node_id, pending, bytes)
  SELECT tenant_id, 0, -count(*), -sum(size) FROM ended GROUP BY tenant_id ORDER BY tenant_id
  ON CONFLICT (tenant_id, node_id) DO UPDATE SET pending = u.pending + excluded.pending, bytes = u.bytes + excluded.bytes)
SELECT (SELECT count(*) FROM chunk), (SELECT count(*) FROM ended)`
)

// cancelAtOnce bounds the deliveries that one transaction of DeleteEndpoint
// cancels: settles of the same lane wait for it.
const cancelAtOnce = 500

// DeleteEndpoint marks the endpoint deleted, which makes every accept that is
// still on its way to it stale, and then cancels what is pending.
func (d *DB) DeleteEndpoint(ctx context.Context, tenant, id hook.ID, now time.Time, a hook.Audit) (int64, error) {
	var owner hook.ID
	var deleted bool
	if err := d.pool.QueryRow(ctx, endpointOwner, id, int64(tenant)).Scan(&owner, &deleted); err != nil {
		return 0, failed("delete endpoint", err)
	}
	if !deleted {
		err := d.changeConfig(ctx, owner, a, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, markDeleted, id, at(now))
			return err
		})
		if err != nil {
			return 0, failed("delete endpoint", err)
		}
	}
	return d.cancelPending(ctx, id, now)
}

// cancelPending cancels chunk by chunk until nothing is pending.
func (d *DB) cancelPending(ctx context.Context, endpoint hook.ID, now time.Time) (int64, error) {
	seen, err := d.makeVisible(ctx, deferred.Scope{Endpoint: endpoint})
	if err != nil {
		return 0, err
	}
	var total int64
	for {
		var found, ended int64
		err := d.slowly(ctx, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, seen.Text(cancelChunk), endpoint, cancelAtOnce, hook.CancelledEndpointDeleted, at(now)).Scan(&found, &ended)
		})
		if err != nil {
			return total, failed("cancel deliveries of deleted endpoint", err)
		}
		total += ended
		if found < cancelAtOnce {
			return total, nil
		}
	}
}
