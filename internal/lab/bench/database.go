package bench

import (
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/lab/bench/usage"
	"github.com/breakwaterhq/breakwater/internal/lab/pgcluster"
)

// database is the Postgres server that subjects get their databases on.
type database struct {
	dsn     string
	version string
	own     *pgcluster.Cluster // nil: somebody else's, of which CPU and memory are unknown
}

// connections of the temporary server: enough for several nodes. All other
// settings are those that Postgres comes with.
const connections = "max_connections=200"

// openDatabase uses the server that url names, or starts a temporary one with
// its data below dir.
func openDatabase(dir, url string) (*database, error) {
	if url != "" {
		version, err := pgcluster.Query(url, "SELECT 'PostgreSQL ' || current_setting('server_version')")
		if err != nil {
			return nil, fmt.Errorf("connect to Postgres: %w", err)
		}
		return &database{dsn: url, version: version}, nil
	}
	cluster, err := pgcluster.Start(pgcluster.Config{Parent: dir, Settings: []string{connections, "log_checkpoints=off"}})
	if err != nil {
		return nil, err
	}
	return &database{dsn: cluster.DSN(), version: cluster.Version(), own: cluster}, nil
}

func (d *database) close() {
	if d.own != nil {
		d.own.Remove()
	}
}

// create makes an empty database on a server that has nothing left to do.
func (d *database) create() (dsn string, drop func() error, err error) {
	dsn, drop, err = pgcluster.CreateDatabase(d.dsn, "bw_bench_")
	if err != nil || d.own == nil {
		return dsn, drop, err
	}
	if err := pgcluster.Execute(d.dsn, "CHECKPOINT"); err != nil {
		return "", nil, fmt.Errorf("checkpoint: %w", err)
	}
	return dsn, drop, nil
}

// usage is known of our own server only.
func (d *database) usage() (usage.Usage, bool, error) {
	if d == nil || d.own == nil {
		return usage.Usage{}, false, nil
	}
	u, err := usage.OfTree(d.own.PID())
	return u, true, err
}
