package sqlstore

import (
	"context"
	"time"
)

const (
	insertLogout = `INSERT INTO logouts (id, until) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	forgetLogout = `DELETE FROM logouts WHERE until < $1`
	findLogout   = `SELECT EXISTS (SELECT 1 FROM logouts WHERE id = $1)`
)

// EndSession implements store.Logouts.
func (t *Tables) EndSession(ctx context.Context, id [16]byte, until, now time.Time) error {
	return t.dialect.Change(ctx, "end session", func(tx Tx) error {
		if _, err := tx.Exec(insertLogout, id[:], until); err != nil {
			return err
		}
		_, err := tx.Exec(forgetLogout, now)
		return err
	})
}

// SessionEnded implements store.Logouts.
func (t *Tables) SessionEnded(ctx context.Context, id [16]byte) (bool, error) {
	return get(ctx, t, "look up session", ScanValue[bool], findLogout, id[:])
}
