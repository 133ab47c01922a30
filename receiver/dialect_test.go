package receiver_test

import (
	"database/sql"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/receiver"
)

var update = flag.Bool("update", false, "write the files in testdata anew")

// TestStatements: what each database is told, for people to read. MySQL is not
// tested in any other way.
func TestStatements(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, dialect := range []receiver.Dialect{receiver.Postgres, receiver.SQLite, receiver.MySQL} {
		table := "webhook_seen"
		if dialect != receiver.SQLite {
			table = "hooks.seen"
		}
		s, err := receiver.NewSQL(db, receiver.SQLOptions{Dialect: dialect, Table: table})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(s.Statements(), ";\n\n") + ";\n"
		if strings.ContainsAny(got, "{}") {
			t.Errorf("%v: a word was not replaced", dialect)
		}
		if strings.Contains(got, "?") == (dialect == receiver.Postgres) {
			t.Errorf("%v: wrong placeholders", dialect)
		}
		file := filepath.Join("testdata", strings.ToLower(dialect.String())+".sql")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v; write it with: go test ./receiver -run TestStatements -update", err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s differs (-want +got); write it anew with: go test ./receiver -run TestStatements -update\n%s", file, diff)
		}
	}
	if got := receiver.Dialect(9).String(); got != "Dialect(9)" {
		t.Errorf("String = %q", got)
	}
}

// TestMySQLKnowsTheStatements: nothing in them is of another dialect.
func TestMySQLKnowsTheStatements(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := receiver.NewSQL(db, receiver.SQLOptions{Dialect: receiver.MySQL, Table: "hooks.seen"})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(s.Statements(), "\n")
	for _, foreign := range []string{"ON CONFLICT", "RETURNING", `"`, "$1", "CREATE INDEX", "BYTEA", "BLOB,\n\tINDEX", "TEXT PRIMARY"} {
		if strings.Contains(text, foreign) {
			t.Errorf("MySQL does not know %q", foreign)
		}
	}
	for _, own := range []string{"INSERT IGNORE INTO `hooks`.`seen` ", "FOR UPDATE SKIP LOCKED", "COLLATE ascii_bin", "INDEX (scope, seen_at)"} {
		if !strings.Contains(text, own) {
			t.Errorf("%q is missing", own)
		}
	}
}
