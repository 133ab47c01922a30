package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const channelColumns = `c.id, c.tenant_id, c.name, c.kind, c.levels, c.min_severity, c.rules, c.operational_events, c.send_resolved, c.recipients,
  c.sealed, c.version, c.created_at, c.updated_at, c.failing_since, c.last_error, c.dropped`

func scanChannel(r Row, c *store.Channel) error {
	var levels []int // a list of uint8 would be base64
	err := r.Scan(&c.ID, &c.Tenant, &c.Name, &c.Kind, Document(&levels), &c.MinSeverity, Document(&c.Rules), Document(&c.OperationalEvents),
		&c.SendResolved, Document(&c.To), &c.Sealed, &c.Version, Time(&c.CreatedAt), Time(&c.UpdatedAt), Time(&c.FailingSince), &c.Error, &c.Dropped)
	for _, l := range levels {
		c.Levels = append(c.Levels, hook.AlertLevel(l))
	}
	return err
}

// channelValues lists the values of the columns that a person can change, in the
// order of both statements that write them.
func channelValues(c *store.Channel) ([]any, error) {
	levels := make([]int, len(c.Levels))
	for i, l := range c.Levels {
		levels[i] = int(l)
	}
	levelsDoc, errLevels := document(levels, "[]")
	rules, errRules := document(c.Rules, "[]")
	events, errEvents := document(c.OperationalEvents, "[]")
	to, errTo := document(c.To, "[]")
	return []any{
		c.ID, c.Tenant, c.Name, levelsDoc, c.MinSeverity, rules, events, c.SendResolved, to, c.Sealed, c.UpdatedAt,
	}, errors.Join(errLevels, errRules, errEvents, errTo)
}

const allChannels = `SELECT ` + channelColumns + ` FROM alert_channels c ORDER BY c.id`

// Channels implements store.AlertBoard.
func (t *Tables) Channels(ctx context.Context) ([]store.Channel, error) {
	return list(ctx, t, "read channels", scanChannel, &Query{SQL: allChannels})
}

const (
	countChannels = `SELECT count(*) FROM alert_channels WHERE tenant_id = $1`

	insertChannel = `
INSERT INTO alert_channels (id, tenant_id, name, levels, min_severity, rules, operational_events, send_resolved, recipients, sealed,
  updated_at, kind, version, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 1, $13)`
)

// CreateChannel implements store.AlertChannels. Holding the lock of the tenant's
// configuration, it meets no deletion of the tenant.
func (t *Tables) CreateChannel(ctx context.Context, c store.Channel, most int64, a hook.Audit) error {
	values, err := channelValues(&c)
	if err != nil {
		return fmt.Errorf("create channel: %w", err)
	}
	return t.change(ctx, "create channel", a, func(tx Tx) error {
		if c.Tenant != 0 {
			if err := tx.Lock(LockConfigShared, c.Tenant); err != nil {
				return err
			}
			if there, err := one(tx, ScanValue[bool], tenantExists, c.Tenant); err != nil || !there {
				return cmp.Or(err, hook.ErrNotFound)
			}
		}
		if err := tx.Lock(LockChannels, 0); err != nil {
			return err
		}
		n, err := one(tx, ScanValue[int64], countChannels, c.Tenant)
		if err == nil && n >= most {
			err = hook.ErrTooManyChannels
		}
		if err == nil {
			_, err = tx.Exec(insertChannel, append(values, c.Kind, c.CreatedAt)...)
		}
		return err
	})
}

const channelByID = `SELECT ` + channelColumns + ` FROM alert_channels c WHERE c.id = $1 AND (c.tenant_id = $2 OR $2 = 0)`

// ChannelByID implements store.AlertChannels.
func (t *Tables) ChannelByID(ctx context.Context, tenant, id hook.ID) (store.Channel, error) {
	return get(ctx, t, "read channel", scanChannel, channelByID, id, tenant)
}

// ListChannels implements store.AlertChannels.
func (t *Tables) ListChannels(ctx context.Context, tenant hook.ID, p store.Page) ([]store.Channel, error) {
	q := &Query{SQL: `SELECT ` + channelColumns + ` FROM alert_channels c WHERE true`}
	if tenant != 0 {
		q.And("c.tenant_id = ?", tenant)
	}
	q.Page("c.id", p)
	return list(ctx, t, "list channels", scanChannel, q)
}

const (
	updateChannel = `
UPDATE alert_channels SET name = $3, levels = $4, min_severity = $5, rules = $6, operational_events = $7, send_resolved = $8,
  recipients = $9, sealed = $10, updated_at = $11, version = version + 1, failing_since = NULL, last_error = ''
WHERE id = $1 AND tenant_id = $2 AND version = $12`

	channelExists = `SELECT EXISTS (SELECT 1 FROM alert_channels WHERE id = $1 AND tenant_id = $2)`
)

// UpdateChannel implements store.AlertChannels.
func (t *Tables) UpdateChannel(ctx context.Context, c store.Channel, a hook.Audit) (stored store.Channel, err error) {
	values, err := channelValues(&c)
	if err != nil {
		return stored, fmt.Errorf("update channel: %w", err)
	}
	err = t.change(ctx, "update channel", a, func(tx Tx) error {
		err := mustChange(tx, updateChannel, append(values, c.Version)...)
		if errors.Is(err, hook.ErrNotFound) {
			return mismatchOrAbsent(tx, channelExists, c.ID, c.Tenant)
		}
		if err == nil {
			stored, err = one(tx, scanChannel, channelByID, c.ID, c.Tenant)
		}
		return err
	})
	return stored, err
}

// ChannelWorked implements store.AlertChannels.
func (t *Tables) ChannelWorked(ctx context.Context, id hook.ID) error {
	return t.dialect.Change(ctx, "note that a channel works", func(tx Tx) error {
		_, err := tx.Exec(channelWorks, id)
		return err
	})
}

const (
	deleteChannel = `DELETE FROM alert_channels WHERE id = $1 AND (tenant_id = $2 OR $2 = 0)`

	skipNotices = `UPDATE notices SET result = 4, error = 'the channel is deleted' WHERE channel_id = $1 AND result = 1 AND kind <> 0`
	dropEvents  = `DELETE FROM notices WHERE channel_id = $1 AND result = 1 AND kind = 0`
)

// DeleteChannel implements store.AlertChannels. The lock keeps notices from being
// decided for it meanwhile. Notices come before their channel, as in EndNotice.
func (t *Tables) DeleteChannel(ctx context.Context, tenant, id hook.ID, a hook.Audit) error {
	return t.change(ctx, "delete channel", a, func(tx Tx) error {
		if err := tx.Lock(LockChannels, 0); err != nil {
			return err
		}
		if _, err := one(tx, scanChannel, channelByID, id, tenant); err != nil {
			return err
		}
		for _, statement := range []string{skipNotices, dropEvents} {
			if _, err := tx.Exec(statement, id); err != nil {
				return err
			}
		}
		return mustChange(tx, deleteChannel, id, tenant)
	})
}
