package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const endpointColumns = `e.id, e.tenant_id, e.uid, e.url, e.description, e.event_types, e.headers_sealed, e.policy, e.signatures,
  e.body_mode, e.metadata, e.state, e.state_reason, e.rev, e.probe_wanted_at, e.reset_wanted_at, e.created_at, e.updated_at, e.deleted_at`

// endpointFields lists where endpointColumns are read to.
func endpointFields(e *hook.Endpoint) []any {
	return []any{
		&e.ID, &e.TenantID, text(&e.UID), &e.URL, &e.Description, document(&e.Types), &e.HeadersSealed, document(&e.Policy),
		document((*signatures)(&e.Signatures)), &e.Body, document(&e.Metadata), &e.State, &e.StateReason, &e.Rev,
		when(&e.ProbeWantedAt), when(&e.ResetWantedAt), when(&e.CreatedAt), when(&e.UpdatedAt), when(&e.DeletedAt),
	}
}

func scanEndpoint(r scannable, e *hook.Endpoint) error { return r.Scan(endpointFields(e)...) }

// endpointValues lists the values of the columns that a person can change, in
// the order of both statements that write them.
func endpointValues(e hook.Endpoint) ([]any, error) {
	types, err := jsonText(e.Types, "[]")
	if err != nil {
		return nil, err
	}
	signed, err := jsonText(signatures(e.Signatures), "[]")
	if err != nil {
		return nil, err
	}
	metadata, err := jsonText(e.Metadata, "{}")
	if err != nil {
		return nil, err
	}
	return []any{
		textOrNull(e.UID), e.URL, e.Description, types, blobOrNull(e.HeadersSealed), rawText(e.Policy), signed, int64(e.Body),
		metadata, int64(e.State), e.StateReason, stamp(e.ProbeWantedAt), stamp(e.ResetWantedAt), e.UpdatedAt.UnixMicro(),
	}, nil
}

const countEndpoints = `SELECT count(*) FROM endpoints WHERE tenant_id = ?1 AND deleted_at IS NULL`

// roomForEndpoint checks that the tenant may have one endpoint more.
func (t tx) roomForEndpoint(tenant hook.ID, most int64) error {
	if most == 0 {
		return nil
	}
	var n int64
	if err := t.row(countEndpoints, tenant).Scan(&n); err != nil {
		return err
	}
	if n >= most {
		return hook.ErrTooManyEndpoints
	}
	return nil
}

const insertEndpoint = `
INSERT INTO endpoints (uid, url, description, event_types, headers_sealed, policy, signatures, body_mode, metadata, state, state_reason,
  probe_wanted_at, reset_wanted_at, updated_at, id, tenant_id, shard, rev, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// CreateEndpoint implements store.Endpoints.
func (db *DB) CreateEndpoint(ctx context.Context, e hook.Endpoint, secrets []hook.Secret, most int64, a hook.Audit) error {
	values, err := endpointValues(e)
	if err != nil {
		return fmt.Errorf("create endpoint: %w", err)
	}
	values = append(values, e.ID, e.TenantID, hook.ShardOf(e.ID), cmp.Or(e.Rev, 1), e.CreatedAt.UnixMicro())
	return db.update(ctx, "create endpoint", func(t tx) error {
		if err := t.roomForEndpoint(e.TenantID, most); err != nil {
			return err
		}
		if _, err := t.exec(insertEndpoint, values...); err != nil {
			return parentMissing(uidTaken(err))
		}
		for _, s := range secrets {
			if err := t.addSecret(s); err != nil {
				return err
			}
		}
		if err := t.bumpConfigRev(e.TenantID); err != nil {
			return err
		}
		return t.audit(a)
	})
}

const (
	endpointByID = `
SELECT ` + endpointColumns + ` FROM endpoints e WHERE e.id = ?1 AND (?2 = 0 OR e.tenant_id = ?2) AND e.deleted_at IS NULL`
	endpointByUID = `
SELECT ` + endpointColumns + ` FROM endpoints e WHERE e.tenant_id = ?1 AND e.uid = ?2 AND e.deleted_at IS NULL`
	endpointsOf = `
SELECT ` + endpointColumns + ` FROM endpoints e WHERE e.tenant_id = ?1 AND e.deleted_at IS NULL ORDER BY e.id`
)

// EndpointByID implements store.Endpoints.
func (db *DB) EndpointByID(ctx context.Context, tenant, id hook.ID) (e hook.Endpoint, err error) {
	err = scanEndpoint(db.row(ctx, endpointByID, id, tenant), &e)
	return e, db.readErr("read endpoint", err)
}

// EndpointByUID implements store.Endpoints.
func (db *DB) EndpointByUID(ctx context.Context, tenant hook.ID, uid string) (e hook.Endpoint, err error) {
	err = scanEndpoint(db.row(ctx, endpointByUID, tenant, uid), &e)
	return e, db.readErr("read endpoint", err)
}

// ListEndpoints implements store.Endpoints.
func (db *DB) ListEndpoints(ctx context.Context, tenant hook.ID, p store.Page) ([]hook.Endpoint, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	var f filter
	f.and("e.deleted_at IS NULL")
	if tenant != 0 {
		f.and("e.tenant_id = ?", tenant)
	}
	f.page("e.id", p)
	out, err := search(ctx, db.read, scanEndpoint, `SELECT `+endpointColumns+` FROM endpoints e`+f.text(), f.args...)
	return out, db.readErr("list endpoints", err)
}

// EndpointsOf implements store.Endpoints.
func (db *DB) EndpointsOf(ctx context.Context, tenant hook.ID) (out []hook.Endpoint, rev int64, err error) {
	err = db.snapshot(ctx, func(q querier) error {
		if err := q.QueryRowContext(ctx, configRev, tenant).Scan(&rev); err != nil {
			return err
		}
		out, err = search(ctx, q, scanEndpoint, endpointsOf, tenant)
		return err
	})
	return out, rev, db.readErr("read endpoints", err)
}

const updateEndpoint = `
UPDATE endpoints SET uid = ?, url = ?, description = ?, event_types = ?, headers_sealed = ?, policy = ?, signatures = ?, body_mode = ?,
  metadata = ?, state = ?, state_reason = ?, probe_wanted_at = ?, reset_wanted_at = ?, updated_at = ?, rev = rev + 1
WHERE id = ? AND tenant_id = ? AND rev = ? AND deleted_at IS NULL`

// UpdateEndpoint implements store.Endpoints.
func (db *DB) UpdateEndpoint(ctx context.Context, e hook.Endpoint, a hook.Audit) (stored hook.Endpoint, err error) {
	values, err := endpointValues(e)
	if err != nil {
		return stored, fmt.Errorf("update endpoint: %w", err)
	}
	err = db.update(ctx, "update endpoint", func(t tx) error {
		changed, err := t.exec(updateEndpoint, append(values, e.ID, e.TenantID, e.Rev)...)
		if err != nil {
			return uidTaken(err)
		}
		if err := scanEndpoint(t.row(endpointByID, e.ID, e.TenantID), &stored); err != nil {
			return notFound(err)
		}
		if changed == 0 {
			return hook.ErrVersionMismatch
		}
		if err := t.bumpConfigRev(e.TenantID); err != nil {
			return err
		}
		return t.audit(a)
	})
	return stored, err
}

const (
	findDeletion = `SELECT tenant_id, deleted_at FROM endpoints WHERE id = ?1 AND (?2 = 0 OR tenant_id = ?2)`

	markDeleted = `UPDATE endpoints SET deleted_at = ?2, updated_at = ?2, rev = rev + 1 WHERE id = ?1`

	// cancelSome ends up to cancelChunk pending deliveries of an endpoint.
	cancelSome = `
UPDATE deliveries SET state = 3, reason = ?2, settled_at = ?3, restore_state = NULL, restore_due_at = NULL, restore_reason = NULL
WHERE id IN (SELECT id FROM deliveries WHERE endpoint_id = ?1 AND state = 0 ORDER BY due_at LIMIT ?4)
RETURNING size, replay_id`

	// cancelChunk bounds how long accepts wait behind the end of an endpoint.
	cancelChunk = 1000
)

// DeleteEndpoint implements store.Endpoints. Once the endpoint is marked no
// event can be matched to it, so its backlog only shrinks.
func (db *DB) DeleteEndpoint(ctx context.Context, tenant, id hook.ID, now time.Time, a hook.Audit) (int64, error) {
	err := db.update(ctx, "delete endpoint", func(t tx) error {
		var deleted time.Time
		if err := t.row(findDeletion, id, tenant).Scan(&tenant, when(&deleted)); err != nil {
			return notFound(err)
		}
		if !deleted.IsZero() {
			return nil // an earlier run was cut short: go on cancelling
		}
		if _, err := t.exec(markDeleted, id, now.UnixMicro()); err != nil {
			return err
		}
		if err := t.bumpConfigRev(tenant); err != nil {
			return err
		}
		return t.audit(a)
	})
	total := int64(0)
	for err == nil {
		var n int64
		n, err = db.cancelSome(ctx, tenant, id, now)
		total += n
		if n < cancelChunk {
			break
		}
	}
	return total, err
}

// cancelSome cancels one chunk of an endpoint's backlog.
func (db *DB) cancelSome(ctx context.Context, tenant, endpoint hook.ID, now time.Time) (n int64, err error) {
	err = db.update(ctx, "cancel deliveries", func(t tx) error {
		ended, err := search(t.ctx, t.conn, func(r scannable, d *hook.Delivery) error { return r.Scan(&d.Size, number(&d.ReplayID)) },
			cancelSome, endpoint, hook.CancelledEndpointDeleted, now.UnixMicro(), cancelChunk)
		if err != nil || len(ended) == 0 {
			return err
		}
		bytes, replays := int64(0), map[hook.ID]int64{}
		for _, d := range ended {
			bytes += int64(d.Size)
			replays[d.ReplayID]++
		}
		for replay, failed := range replays {
			if err := t.failReplayed(replay, failed); err != nil {
				return err
			}
		}
		n = int64(len(ended))
		return t.addUsage(tenant, -n, -bytes)
	})
	return n, err
}
