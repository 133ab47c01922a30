// Package pgtest gives tests a real PostgreSQL.
//
// DSN returns a fresh database on a temporary cluster that all tests of the
// process share; Start returns a cluster of its own for tests that stop or
// crash it. Package pgcluster starts them, with durable settings, and ends them
// with the test process. The package knows nothing of Breakwater's schema.
package pgtest

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/lab/pgcluster"
)

// The environment variables that steer the package.
const (
	// EnvDSN names a server to use instead of a temporary cluster. Its role
	// needs the right to create databases.
	EnvDSN = "BREAKWATER_TEST_POSTGRES"
	// EnvRequire makes a missing server a failure instead of a skip, as CI=true
	// does: a skipped suite reads like a passed one.
	EnvRequire = "BREAKWATER_REQUIRE_POSTGRES"
)

// shared is the cluster of this process, started by the first test that needs
// one and ended by its watchdog after the process.
var shared = sync.OnceValues(start)

// DSN returns the address of a new, empty database. It is dropped when the
// test ends, or goes with the temporary cluster. Without a server the test is
// skipped, or fails where one is required. With -short it is skipped, too.
func DSN(t testing.TB) string {
	t.Helper()
	notInShort(t)
	return serverOf(t).database(t)
}

// Start returns a running cluster of the test's own, removed when the test
// ends. EnvDSN does not apply: such a test stops its server.
func Start(t testing.TB) *Cluster {
	t.Helper()
	notInShort(t)
	c, err := start()
	require(t, err)
	t.Cleanup(c.Remove)
	return c
}

func notInShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED on PostgreSQL with -short")
	}
}

// require skips or fails the test when there is no server.
func require(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, pgcluster.ErrNoServer) && !required():
		t.Skipf("NOT TESTED on PostgreSQL: %v; install it or set %s to a DSN", err, EnvDSN)
	default:
		t.Fatalf("temporary PostgreSQL: %v", err)
	}
}

func required() bool {
	ci, _ := strconv.ParseBool(os.Getenv("CI"))
	must, _ := strconv.ParseBool(os.Getenv(EnvRequire))
	return ci || must
}

// server is where databases are made.
type server struct {
	dsn string
	// ours is a temporary cluster, whose databases need not be dropped one by
	// one.
	ours bool
}

// serverOf returns the server that EnvDSN names, else this process's cluster.
func serverOf(t testing.TB) server {
	t.Helper()
	if dsn := os.Getenv(EnvDSN); dsn != "" {
		return server{dsn: dsn}
	}
	c, err := shared()
	require(t, err)
	return server{dsn: c.DSN(), ours: true}
}

// database creates a database.
func (s server) database(t testing.TB) string {
	t.Helper()
	dsn, drop, err := pgcluster.CreateDatabase(s.dsn, "bw_test_")
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	if !s.ours {
		t.Cleanup(func() {
			if err := drop(); err != nil {
				t.Log(err)
			}
		})
	}
	return dsn
}
