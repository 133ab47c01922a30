package sqlite_test

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
	"github.com/breakwaterhq/breakwater/internal/store/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	paths := map[store.DB]string{}
	empty := emptyStore(t)
	storetest.RunWith(t, storetest.Features{
		Audits: func(t testing.TB, db store.DB) []hook.Audit { return audits(t, paths[db]) },
	}, func(t *testing.T) store.DB {
		path := filepath.Join(t.TempDir(), sqlite.FileName)
		check(t, os.WriteFile(path, empty, 0o600))
		db := open(t, path)
		paths[db] = path
		return db
	})
}

// emptyStore returns the file of a store with its schema: copying it saves the
// suite a migration per test.
func emptyStore(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	check(t, err)
	check(t, db.Close())
	file, err := os.ReadFile(path)
	check(t, err)
	return file
}

// open opens the store at path until the test ends.
func open(t testing.TB, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return db
}

// inspect opens a connection of the test's own.
func inspect(t testing.TB, path string) *sql.DB {
	t.Helper()
	conn, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func audits(t testing.TB, path string) (out []hook.Audit) {
	t.Helper()
	rows, err := inspect(t, path).QueryContext(t.Context(), `
SELECT id, coalesce(tenant_id, 0), actor, action, subject, coalesce(diff, ''), coalesce(request_id, ''), coalesce(remote_ip, ''), at
FROM audit ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var a hook.Audit
		var diff string
		var at int64
		if err := rows.Scan(&a.ID, &a.TenantID, &a.Actor, &a.Action, &a.Subject, &diff, &a.RequestID, &a.RemoteIP, &at); err != nil {
			t.Fatal(err)
		}
		a.Diff, a.At = json.RawMessage(diff), time.UnixMicro(at).UTC()
		out = append(out, a)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
