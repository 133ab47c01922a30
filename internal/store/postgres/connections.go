package postgres

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwaterhq/breakwater/internal/store"
)

var _ store.Connected = (*DB)(nil)

// Connections implements store.Connected for all pools together. The connection
// that listens for hints is none of theirs.
func (d *DB) Connections() (sum store.Connections) {
	for _, p := range []*pgxpool.Pool{d.pool, d.lanes, d.writers, d.renewals, d.notify} {
		s := p.Stat()
		sum = sum.Plus(store.Connections{
			InUse: int(s.AcquiredConns()), Idle: int(s.IdleConns()), Max: int(s.MaxConns()), Waits: s.EmptyAcquireCount(),
		})
	}
	return sum
}
