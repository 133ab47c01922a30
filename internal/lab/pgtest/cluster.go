package pgtest

import (
	"testing"

	"github.com/breakwaterhq/breakwater/internal/lab/pgcluster"
)

// settings keep a small machine quiet and let tests open many pools.
// Durability keeps its defaults: on.
var settings = []string{
	"max_connections=200",
	"shared_buffers=64MB",
	"max_wal_size=256MB",
	"jit=off",
	"timezone=UTC",
	"log_min_messages=warning",
	"log_checkpoints=off",
}

// Cluster is a running temporary server of one test.
type Cluster struct{ *pgcluster.Cluster }

func start() (*Cluster, error) {
	c, err := pgcluster.Start(pgcluster.Config{Settings: settings})
	if err != nil {
		return nil, err
	}
	return &Cluster{c}, nil
}

// Database returns the address of a new, empty database of this cluster.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	return server{dsn: c.DSN(), ours: true}.database(t)
}

// Restart starts a stopped or crashed server again on the same data.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	if err := c.Cluster.Restart(); err != nil {
		t.Fatalf("restart PostgreSQL: %v", err)
	}
}
