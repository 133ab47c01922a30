package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// endpointColumns are in the order of endpointFields.
const endpointColumns = `e.id, e.tenant_id, coalesce(e.uid, ''), e.url, e.description, e.event_types, e.headers_sealed, e.policy,
  coalesce(e.policy_name, ''), (SELECT p.body FROM named_policies p WHERE p.name = e.policy_name), e.signatures,
  e.body_mode, e.trace_context, e.metadata, e.state, e.state_reason, e.rev, e.probe_wanted_at, e.reset_wanted_at, e.created_at, e.updated_at, e.deleted_at,
  e.filter, e.filter_errors, e.filter_error, e.filter_error_at`

// endpointFields lists where endpointColumns are read to.
func endpointFields(e *hook.Endpoint) []any {
	return []any{
		&e.ID, &e.TenantID, &e.UID, &e.URL, &e.Description, Document(&e.Types), &e.HeadersSealed, Document(&e.Policy),
		&e.PolicyName, Document(&e.NamedPolicy), Document(&e.Signatures),
		&e.Body, &e.TraceContext, Document(&e.Metadata), &e.State, &e.StateReason, &e.Rev, Time(&e.ProbeWantedAt), Time(&e.ResetWantedAt),
		Time(&e.CreatedAt), Time(&e.UpdatedAt), Time(&e.DeletedAt),
		&e.Filter, &e.FilterErrors.Count, &e.FilterErrors.Last, Time(&e.FilterErrors.At),
	}
}

func scanEndpoint(r Row, e *hook.Endpoint) error { return r.Scan(endpointFields(e)...) }

// endpointValues lists the values of the columns that a person can change, in
// the order of both statements that write them.
func endpointValues(e *hook.Endpoint) ([]any, error) {
	types, errTypes := document(e.Types, "[]")
	signatures, errSignatures := document(e.Signatures, "[]")
	metadata, errMetadata := document(e.Metadata, "{}")
	return []any{
		e.ID, e.TenantID, OrNull(e.UID), e.URL, e.Description, types, BytesOrNull(e.HeadersSealed), raw(e.Policy), signatures, e.Body,
		metadata, e.State, e.StateReason, e.ProbeWantedAt, e.ResetWantedAt, e.UpdatedAt, e.TraceContext, OrNull(e.PolicyName), e.Filter,
	}, errors.Join(errTypes, errSignatures, errMetadata)
}

const countEndpoints = `SELECT count(*) FROM endpoints WHERE tenant_id = $1 AND deleted_at IS NULL`

// roomForEndpoint checks that the tenant may have one endpoint more. The lock of
// its configuration is held, so no other one comes in between.
func roomForEndpoint(tx Tx, tenant hook.ID, most int64) error {
	if most == 0 {
		return nil
	}
	n, err := one(tx, ScanValue[int64], countEndpoints, tenant)
	if err == nil && n >= most {
		return hook.ErrTooManyEndpoints
	}
	return err
}

const insertEndpoint = `
INSERT INTO endpoints (id, tenant_id, uid, url, description, event_types, headers_sealed, policy, signatures, body_mode, metadata,
  state, state_reason, probe_wanted_at, reset_wanted_at, updated_at, trace_context, policy_name, filter, shard, rev, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)`

// CreateEndpoint implements store.Endpoints.
func (t *Tables) CreateEndpoint(ctx context.Context, e hook.Endpoint, secrets []hook.Secret, most int64, a hook.Audit) error {
	values, err := endpointValues(&e)
	if err != nil {
		return fmt.Errorf("create endpoint: %w", err)
	}
	return t.changeConfigWith(ctx, "create endpoint", e.PolicyName, e.TenantID, a, func(tx Tx) error {
		if err := roomForEndpoint(tx, e.TenantID, most); err != nil {
			return err
		}
		if _, err := tx.Exec(insertEndpoint, append(values, hook.ShardOf(e.ID), max(e.Rev, 1), e.CreatedAt)...); err != nil {
			return err
		}
		for _, s := range secrets {
			if err := addSecret(tx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	endpointByID = `
SELECT ` + endpointColumns + ` FROM endpoints e WHERE e.id = $1 AND (e.tenant_id = $2 OR $2 = 0) AND e.deleted_at IS NULL`
	endpointByUID = `
SELECT ` + endpointColumns + ` FROM endpoints e WHERE e.tenant_id = $1 AND e.uid = $2 AND e.deleted_at IS NULL`
	endpointsOf = `
SELECT ` + endpointColumns + ` FROM endpoints e WHERE e.tenant_id = $1 AND e.deleted_at IS NULL ORDER BY e.id`
)

// EndpointByID implements store.Endpoints.
func (t *Tables) EndpointByID(ctx context.Context, tenant, id hook.ID) (hook.Endpoint, error) {
	return get(ctx, t, "read endpoint", scanEndpoint, endpointByID, id, tenant)
}

// EndpointByUID implements store.Endpoints.
func (t *Tables) EndpointByUID(ctx context.Context, tenant hook.ID, uid string) (hook.Endpoint, error) {
	return get(ctx, t, "read endpoint by uid", scanEndpoint, endpointByUID, tenant, uid)
}

// ListEndpoints implements store.Endpoints.
func (t *Tables) ListEndpoints(ctx context.Context, tenant hook.ID, p store.Page) ([]hook.Endpoint, error) {
	q := &Query{SQL: `SELECT ` + endpointColumns + ` FROM endpoints e WHERE e.deleted_at IS NULL`}
	if tenant != 0 {
		q.And("e.tenant_id = ?", tenant)
	}
	q.Page("e.id", p)
	return list(ctx, t, "list endpoints", scanEndpoint, q)
}

// EndpointsOf implements store.Endpoints.
func (t *Tables) EndpointsOf(ctx context.Context, tenant hook.ID) (all []hook.Endpoint, rev int64, err error) {
	err = t.dialect.Snapshot(ctx, "read endpoints of tenant", func(tx Tx) error {
		if rev, err = one(tx, ScanValue[int64], configRev, tenant); err != nil {
			return err
		}
		return tx.Query(endpointsOf, []any{tenant}, Collect(&all, scanEndpoint))
	})
	return all, rev, err
}

const (
	// updateEndpoint forgets the errors of another filter.
	updateEndpoint = `
UPDATE endpoints AS e SET uid = $3, url = $4, description = $5, event_types = $6, headers_sealed = $7, policy = $8, signatures = $9,
  body_mode = $10, metadata = $11, state = $12, state_reason = $13, probe_wanted_at = $14, reset_wanted_at = $15, updated_at = $16,
  trace_context = $17, policy_name = $18, filter = $19, rev = rev + 1,
  filter_errors = CASE WHEN filter = $19 THEN filter_errors ELSE 0 END, filter_error = CASE WHEN filter = $19 THEN filter_error ELSE '' END,
  filter_error_at = CASE WHEN filter = $19 THEN filter_error_at END
WHERE id = $1 AND tenant_id = $2 AND rev = $20 AND deleted_at IS NULL`

	endpointExists = `SELECT EXISTS (SELECT 1 FROM endpoints WHERE id = $1 AND tenant_id = $2 AND deleted_at IS NULL)`
)

// UpdateEndpoint implements store.Endpoints.
func (t *Tables) UpdateEndpoint(ctx context.Context, e hook.Endpoint, a hook.Audit) (stored hook.Endpoint, err error) {
	values, err := endpointValues(&e)
	if err != nil {
		return stored, fmt.Errorf("update endpoint: %w", err)
	}
	err = t.changeConfigWith(ctx, "update endpoint", e.PolicyName, e.TenantID, a, func(tx Tx) error {
		err := mustChange(tx, updateEndpoint, append(values, e.Rev)...)
		if errors.Is(err, hook.ErrNotFound) {
			return mismatchOrAbsent(tx, endpointExists, e.ID, e.TenantID)
		}
		if err == nil {
			stored, err = one(tx, scanEndpoint, endpointByID, e.ID, e.TenantID)
		}
		return err
	})
	return stored, err
}

const (
	endpointOwner = `SELECT tenant_id, deleted_at FROM endpoints WHERE id = $1 AND (tenant_id = $2 OR $2 = 0)`

	markDeleted = `UPDATE endpoints SET deleted_at = $2, updated_at = $2, rev = rev + 1 WHERE id = $1 AND deleted_at IS NULL`
)

// DeleteEndpoint implements store.Endpoints. The mark makes every accept that is
// still on its way stale, so what is cancelled then is all there will be.
func (t *Tables) DeleteEndpoint(ctx context.Context, tenant, id hook.ID, now time.Time, a hook.Audit) (int64, error) {
	e, err := get(ctx, t, "delete endpoint", func(r Row, e *hook.Endpoint) error { return r.Scan(&e.TenantID, Time(&e.DeletedAt)) },
		endpointOwner, id, tenant)
	if err != nil {
		return 0, err
	}
	if e.DeletedAt.IsZero() { // else an earlier run was cut short: go on cancelling
		err := t.changeConfig(ctx, "delete endpoint", e.TenantID, a, func(tx Tx) error {
			_, err := tx.Exec(markDeleted, id, now)
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return t.dialect.CancelPending(ctx, e.TenantID, id, now)
}

// addFilterErrors leaves the endpoint's version alone: nobody has changed it.
const addFilterErrors = `
UPDATE endpoints SET filter_errors = filter_errors + $3, filter_error = $4, filter_error_at = $5 WHERE id = $1 AND filter = $2`

// AddFilterErrors implements store.Endpoints. It goes by id: two nodes cannot wait for
// each other.
func (t *Tables) AddFilterErrors(ctx context.Context, all map[hook.ID]store.FilterFailure) error {
	if len(all) == 0 {
		return nil
	}
	var rows [][]any
	for _, id := range slices.Sorted(maps.Keys(all)) {
		f := all[id]
		rows = append(rows, []any{id, f.Filter, f.Count, f.Last, f.At})
	}
	return t.dialect.Change(ctx, "count errors of filters", func(tx Tx) error { return tx.ExecAll(addFilterErrors, rows) })
}
