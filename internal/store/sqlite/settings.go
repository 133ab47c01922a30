package sqlite

import "context"

const (
	claimSetting = `INSERT INTO settings (name, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING`
	readSetting  = `SELECT value FROM settings WHERE name = ?1`
)

// ClaimSetting implements store.Maintenance.
func (db *DB) ClaimSetting(ctx context.Context, name, value string) (stored string, err error) {
	err = db.update(ctx, "claim setting", func(t tx) error {
		if _, err := t.exec(claimSetting, name, value); err != nil {
			return err
		}
		return t.row(readSetting, name).Scan(&stored)
	})
	return stored, err
}
