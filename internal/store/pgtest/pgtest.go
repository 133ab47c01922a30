// Package pgtest gives tests a real PostgreSQL.
//
// DSN returns a fresh database on a temporary cluster that all tests of the
// process share; Start returns a cluster of its own for tests that stop or
// crash it. Durability settings are the server's defaults, so what a test sees
// is what production does. The package knows nothing of Breakwater's schema.
//
// A cluster never outlives its test process, whatever ends it: a watchdog
// child holds the reading end of a pipe, and when the process goes away the
// child stops the server and removes its files.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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

// errNoServer means that no PostgreSQL binaries were found.
var errNoServer = errors.New("no PostgreSQL binaries in /usr/lib/postgresql/*/bin, /usr/pgsql-*/bin or PATH")

// shared is the cluster of this process, started by the first test that needs
// one and ended by its watchdog after the process.
var shared = sync.OnceValues(start)

// DSN returns the address of a new, empty database. It is dropped when the
// test ends, or goes with the temporary cluster. Without a server the test is
// skipped, or fails where one is required.
func DSN(t testing.TB) string {
	t.Helper()
	return serverOf(t).database(t)
}

// Start returns a running cluster of the test's own, removed when the test
// ends. EnvDSN does not apply: such a test stops its server.
func Start(t testing.TB) *Cluster {
	t.Helper()
	c, err := start()
	require(t, err)
	t.Cleanup(c.remove)
	return c
}

// require skips or fails the test when there is no server.
func require(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, errNoServer) && !required():
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
	name := "bw_test_" + strings.ToLower(rand.Text()[:12])
	if err := execute(s.dsn, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8'"); err != nil {
		t.Fatalf("create test database: %v", err)
	}
	if !s.ours {
		t.Cleanup(func() {
			if err := execute(s.dsn, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
				t.Logf("drop test database: %v", err)
			}
		})
	}
	dsn, err := withDatabase(s.dsn, name)
	if err != nil {
		t.Fatalf("test database address: %v", err)
	}
	return dsn
}

// withDatabase returns dsn with another database name, in either of the two
// forms a DSN can have.
func withDatabase(dsn, name string) (string, error) {
	if !strings.Contains(dsn, "://") {
		return dsn + " dbname=" + name, nil // the last setting of a key counts
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("parse DSN: %w", err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// execute runs one statement on its own connection. It has its own deadline:
// the context of a test has already ended when its clean-up runs.
func execute(dsn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}
