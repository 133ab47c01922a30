package sqlstore

import (
	"context"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// sealedPlace is how one kind of sealed values is read and written. Reading gives
// id, tenant, owner and value; writing takes id, new value, old value and key.
type sealedPlace struct{ after, reseal string }

var sealedPlaces = map[store.SealedKind]sealedPlace{
	store.SealedSecret: {
		after:  `SELECT id, tenant_id, endpoint_id, sealed FROM secrets WHERE id > $1 ORDER BY id LIMIT $2`,
		reseal: `UPDATE secrets SET sealed = $2, kek_id = $4 WHERE id = $1 AND sealed = $3`,
	},
	store.SealedHeaders: {
		after:  `SELECT id, tenant_id, id, headers_sealed FROM endpoints WHERE id > $1 AND headers_sealed IS NOT NULL ORDER BY id LIMIT $2`,
		reseal: `UPDATE endpoints SET headers_sealed = $2 WHERE id = $1 AND headers_sealed = $3`,
	},
	store.SealedChannel: {
		after:  `SELECT id, tenant_id, id, sealed FROM alert_channels WHERE id > $1 ORDER BY id LIMIT $2`,
		reseal: `UPDATE alert_channels SET sealed = $2 WHERE id = $1 AND sealed = $3`,
	},
	store.SealedAnswer: {
		after:  `SELECT token, tenant_id, token, sealed FROM kept_answers WHERE token > $1 AND sealed IS NOT NULL ORDER BY token LIMIT $2`,
		reseal: `UPDATE kept_answers SET sealed = $2 WHERE token = $1 AND sealed = $3`,
	},
}

// SealedAfter implements store.Seals.
func (t *Tables) SealedAfter(ctx context.Context, kind store.SealedKind, after hook.ID, limit int) ([]store.SealedValue, error) {
	return list(ctx, t, "read sealed values", func(r Row, v *store.SealedValue) error {
		v.Kind = kind
		return r.Scan(&v.ID, &v.Tenant, &v.Owner, &v.Sealed)
	}, &Query{SQL: sealedPlaces[kind].after, Args: []any{after, limit}})
}

// Reseal implements store.Seals.
func (t *Tables) Reseal(ctx context.Context, kind store.SealedKind, values []store.Resealed) (changed int64, err error) {
	err = t.dialect.Change(ctx, "seal values anew", func(tx Tx) error {
		changed = 0
		for _, v := range values {
			args := []any{v.ID, v.Anew, v.Sealed}
			if kind == store.SealedSecret {
				args = append(args, v.KeyID)
			}
			n, err := tx.Exec(sealedPlaces[kind].reseal, args...)
			if err != nil {
				return err
			}
			changed += n
		}
		return nil
	})
	return changed, err
}

const settingOf = `SELECT value FROM settings WHERE name = $1`

// Setting implements store.Seals.
func (t *Tables) Setting(ctx context.Context, name string) (string, error) {
	values, err := list(ctx, t, "read setting", ScanValue[string], &Query{SQL: settingOf, Args: []any{name}})
	if err != nil || len(values) == 0 {
		return "", err
	}
	return values[0], nil
}

const (
	insertSetting  = `INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	replaceSetting = `UPDATE settings SET value = $2 WHERE name = $1 AND value = $3`
)

// ReplaceSetting implements store.Seals.
func (t *Tables) ReplaceSetting(ctx context.Context, name, old, value string, a hook.Audit) error {
	return t.change(ctx, "replace setting", a, func(tx Tx) error {
		statement, args := replaceSetting, []any{name, value, old}
		if old == "" {
			statement, args = insertSetting, args[:2]
		}
		changed, err := tx.Exec(statement, args...)
		if err == nil && changed == 0 {
			err = hook.ErrVersionMismatch
		}
		return err
	})
}

const (
	noteKeys = `
INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`

	forgetKeys = `DELETE FROM settings WHERE name LIKE 'node_keys/%' AND name NOT IN (SELECT 'node_keys/' || id FROM nodes)`
)

func nodeKeys(node hook.ID) string { return fmt.Sprintf("node_keys/%d", node) }

// NoteKeys implements store.Seals.
func (t *Tables) NoteKeys(ctx context.Context, node hook.ID, keys string) error {
	return t.dialect.Change(ctx, "note keys", func(tx Tx) error {
		if _, err := tx.Exec(forgetKeys); err != nil {
			return err
		}
		_, err := tx.Exec(noteKeys, nodeKeys(node), keys)
		return err
	})
}

// KeysOf implements store.Seals.
func (t *Tables) KeysOf(ctx context.Context, node hook.ID) (string, error) {
	return t.Setting(ctx, nodeKeys(node))
}
