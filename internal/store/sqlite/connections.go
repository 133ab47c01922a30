package sqlite

import "github.com/breakwaterhq/breakwater/internal/store"

var _ store.Connected = (*DB)(nil)

// Connections implements store.Connected for those that read. The one that writes
// is always open.
func (d *DB) Connections() store.Connections {
	s := d.read.Stats()
	return store.Connections{InUse: s.InUse, Idle: s.Idle, Max: s.MaxOpenConnections, Waits: s.WaitCount}
}
