package sqlstore

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// claimKey takes a key for a request: one that is free, has expired, or is the
// request's own already. The index holds back a second request until it is known how
// the first one ends.
const claimKey = `
INSERT INTO kept_answers AS k (tenant_id, route, key, hash, token, subject, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant_id, route, key) DO UPDATE SET hash = excluded.hash, token = excluded.token, subject = excluded.subject,
  sealed = NULL, expires_at = excluded.expires_at
WHERE k.token = excluded.token OR k.expires_at <= $8`

func claim(tx Tx, a *hook.Audit) error {
	c := a.Claim
	if c == nil {
		return nil
	}
	taken, err := tx.Exec(claimKey, c.TenantID, c.Route, c.Key, c.Hash[:], c.Token, a.Subject, c.ExpiresAt, a.At)
	if err == nil && taken == 0 {
		return hook.ErrRepeated
	}
	return err
}

const answerOf = `
SELECT tenant_id, route, key, hash, token, subject, sealed, expires_at FROM kept_answers
WHERE tenant_id = $1 AND route = $2 AND key = $3 AND expires_at > $4`

// AnswerOf implements store.Answers.
func (t *Tables) AnswerOf(ctx context.Context, tenant hook.ID, route, key string, now time.Time) (store.KeptAnswer, error) {
	return get(ctx, t, "read answer", func(r Row, k *store.KeptAnswer) error {
		return r.Scan(&k.TenantID, &k.Route, &k.Key, Fixed(k.Hash[:]), &k.Token, &k.Subject, &k.Sealed, Time(&k.ExpiresAt))
	}, answerOf, tenant, route, key, now)
}

const keepAnswer = `UPDATE kept_answers SET sealed = $5 WHERE tenant_id = $1 AND route = $2 AND key = $3 AND token = $4`

// KeepAnswer implements store.Answers.
func (t *Tables) KeepAnswer(ctx context.Context, c hook.Claim, sealed []byte) error {
	return t.dialect.Change(ctx, "keep answer", func(tx Tx) error {
		_, err := tx.Exec(keepAnswer, c.TenantID, c.Route, c.Key, c.Token, sealed)
		return err
	})
}
