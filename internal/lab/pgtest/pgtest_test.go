package pgtest_test

import (
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
)

func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var got string
	if err := conn.QueryRow(t.Context(), sql).Scan(&got); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

func TestDatabasesAreSeparateAndDurable(t *testing.T) {
	t.Parallel()
	a, b := pgtest.DSN(t), pgtest.DSN(t)
	if nameA, nameB := query(t, a, "SELECT current_database()"), query(t, b, "SELECT current_database()"); nameA == nameB {
		t.Errorf("two tests share database %s", nameA)
	}
	for _, setting := range []string{"fsync", "synchronous_commit"} {
		if got := query(t, a, "SELECT current_setting('"+setting+"')"); got != "on" {
			t.Errorf("%s = %s, want on", setting, got)
		}
	}
}

func TestCommittedRowsSurviveCrash(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t)
	dsn := c.Database(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 'still here'::text AS word"); err != nil {
		t.Fatal(err)
	}
	c.Crash()
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection outlived the crash")
	}
	c.Restart(t)
	if got := query(t, dsn, "SELECT word FROM kept"); got != "still here" {
		t.Errorf("after the crash: %q", got)
	}
}

func TestEnvironmentNamesServer(t *testing.T) {
	c := pgtest.Start(t)
	t.Setenv(pgtest.EnvDSN, c.DSN())
	const databases = "SELECT count(*)::text FROM pg_database WHERE datname LIKE 'bw_test_%'"
	t.Run("a database there", func(t *testing.T) {
		query(t, pgtest.DSN(t), "SELECT current_database()")
		if n := query(t, c.DSN(), databases); n != "1" {
			t.Errorf("%s databases on the server that was named, want 1", n)
		}
	})
	if n := query(t, c.DSN(), databases); n != "0" {
		t.Errorf("%s databases left behind", n)
	}
}

// TestNothingIsLeftBehind runs a child test process that panics while its
// cluster is up, and expects the cluster's folder to vanish.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: starts processes")
	}
	child := exec.Command(os.Args[0], "-test.run=^TestChildPanics$", "-test.v")
	child.Env = append(os.Environ(), "PGTEST_CHILD=1")
	out, err := child.CombinedOutput()
	if err == nil {
		t.Fatalf("the child did not panic:\n%s", out)
	}
	_, rest, found := strings.Cut(string(out), "cluster at ")
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); !found && ci {
		t.Fatalf("the child started no cluster:\n%s", out)
	}
	if !found {
		t.Skipf("NOT TESTED: the child started no cluster:\n%s", out)
	}
	root := strings.Fields(rest)[0]
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(root); os.IsNotExist(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", root)
		}
	}
}

// TestChildPanics is the child of TestNothingIsLeftBehind, and nothing by itself.
func TestChildPanics(t *testing.T) {
	if os.Getenv("PGTEST_CHILD") == "" {
		return
	}
	c := pgtest.Start(t)
	dsn, err := url.Parse(c.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("cluster at %s", dsn.Query().Get("host"))
	ended := make(chan struct{})
	go func() { panic("planned: no clean-up runs after this") }()
	<-ended
}
