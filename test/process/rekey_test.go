package process_test

import (
	"bytes"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // what the product stores with

	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
)

// keyFile makes a new encryption key and returns it with its file.
func keyFile(t *testing.T) (key, path string) {
	t.Helper()
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	key, path = base64.StdEncoding.EncodeToString(raw), filepath.Join(t.TempDir(), "new.key")
	if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return key, path
}

// command prepares a command of the product with the settings of a server.
func (s *server) command(key string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(s.t.Context(), binary, append(args, "--data-dir", s.dir)...)
	cmd.Env = append(os.Environ(), "BREAKWATER_ENCRYPTION_KEY="+key)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

// rekey runs the command to its end and expects its exit code and a part of what it
// says.
func (s *server) rekey(key, newKeyFile string, code int, want string, args ...string) {
	s.t.Helper()
	cmd, out := s.command(key, append([]string{"rekey", "--new-key-file", newKeyFile}, args...)...)
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		s.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(out.String(), want) {
		s.t.Fatalf("rekey: exit %d, want %d and %q:\n%s", got, code, want, out)
	}
}

// secrets reads the signing secrets of all endpoints. To list an endpoint its headers
// have to be opened, too.
func (s *server) secrets() map[string]string {
	s.t.Helper()
	var list struct{ Data []struct{ ID string } }
	s.api("GET", "/endpoints?limit=250", nil, &list)
	out := map[string]string{}
	for _, e := range list.Data {
		var answer struct{ Secret string }
		s.api("GET", "/endpoints/"+e.ID+"/secret", nil, &answer)
		out[e.ID] = answer.Secret
	}
	return out
}

const rekeyed = 20

func (s *server) someEndpoints() map[string]string {
	s.t.Helper()
	for i := range rekeyed {
		s.endpoint(fmt.Sprintf("http://127.0.0.1:9001/%d", i), object{"headers": object{"X-Key": "value"}})
	}
	return s.secrets()
}

// startWith starts the server again with other keys and expects that it knows all
// secrets.
func (s *server) startWith(want map[string]string, keys ...string) {
	s.t.Helper()
	s.env = []string{"BREAKWATER_ENCRYPTION_KEY=" + strings.Join(keys, ",")}
	s.start()
	if got := s.secrets(); !maps.Equal(got, want) {
		s.t.Errorf("with %d keys the secrets are %v, want %v", len(keys), got, want)
	}
}

// TestRekeyKilledOnTheWay kills a change of keys on a SQLite store when the secrets
// are sealed anew and the headers are not.
func TestRekeyKilledOnTheWay(t *testing.T) {
	t.Parallel()
	s := serve(t)
	want := s.someEndpoints()
	fresh, file := keyFile(t)
	s.rekey(encryptionKey, file, 1, "a server uses this store")
	s.stop()
	wrong, _ := keyFile(t)
	s.rekey(wrong, file, 1, "which was not given")

	db, err := sql.Open("sqlite", filepath.Join(s.dir, "breakwater.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	query := func(text string) (n int) {
		t.Helper()
		if err := db.QueryRowContext(t.Context(), text).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	alter := func(text string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	// A statement that never ends, in the middle of the work.
	alter(`CREATE TRIGGER hang BEFORE UPDATE OF headers_sealed ON endpoints BEGIN SELECT count(*) FROM ` + endless() + `; END`)
	old := query(`SELECT count(DISTINCT kek_id) FROM secrets`)
	cmd, out := s.command(encryptionKey, "rekey", "--new-key-file", file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	eventually(t, within(0), "the secrets are sealed anew", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("rekey ended: %v\n%s", err, out)
		default:
		}
		return query(`SELECT count(*) FROM settings WHERE name = 'encryption_key_id' AND value LIKE '%,%'`) == 1 &&
			query(`SELECT count(*) FROM secrets WHERE kek_id = (SELECT substr(value, 1, 8) FROM settings WHERE name = 'encryption_key_id')`) == rekeyed
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	alter(`DROP TRIGGER hang`)
	if n := query(`SELECT count(*) FROM endpoints WHERE lower(substr(hex(headers_sealed), 3, 8)) = (SELECT substr(value, 10) FROM settings WHERE name = 'encryption_key_id')`); n != rekeyed || old != 1 {
		t.Fatalf("%d headers are sealed with the old key, want %d", n, rekeyed)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	for _, key := range []string{encryptionKey, fresh} { // each alone opens only a part
		serving, said := s.command(key, "serve", "--listen", "127.0.0.1:0")
		if err := serving.Run(); err == nil || !strings.Contains(said.String(), "keys are being changed") {
			t.Errorf("a server with one of the keys: %v\n%s", err, said)
		}
	}
	s.startWith(want, fresh, encryptionKey)
	s.stop()
	s.rekey(encryptionKey, file, 0, "sealed now")
	s.startWith(want, fresh)
	s.stop()
	s.rekey(fresh, file, 0, "0 of them sealed now")
}

// endless is a join that takes longer than anybody waits.
func endless() string {
	tables := make([]string, 12)
	for i := range tables {
		tables[i] = fmt.Sprintf("schema_migrations AS t%d", i)
	}
	return strings.Join(tables, ", ")
}

// TestRekeyBesideRunningNodes changes keys on Postgres while a node runs that has
// both. The first run meets a lock and is killed; the node goes on meanwhile.
func TestRekeyBesideRunningNodes(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	s := serve(t, "--database-url", dsn)
	want := s.someEndpoints()
	fresh, file := keyFile(t)
	database := []string{"--database-url", dsn}
	s.rekey(encryptionKey, file, 1, "running nodes have no key", database...)
	s.stop()
	s.startWith(want, fresh, encryptionKey)

	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	lock, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), `SELECT id FROM endpoints FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	cmd, out := s.command(encryptionKey, append([]string{"rekey", "--new-key-file", file}, database...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // killed, or tired of waiting for the lock
		close(ended)
	}()
	eventually(t, within(0), "the secrets are sealed anew", func() bool {
		var n int
		if err := lock.QueryRow(t.Context(), `SELECT count(DISTINCT kek_id) FROM secrets WHERE kek_id <> (SELECT right(value, 8) FROM settings WHERE name = 'encryption_key_id')`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	_ = cmd.Process.Kill() // unless it has ended
	<-ended
	if got := s.secrets(); !maps.Equal(got, want) {
		t.Errorf("the node reads %v, want %v\n%s", got, want, out)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.rekey(encryptionKey, file, 0, "sealed now", database...)
	if got := s.secrets(); !maps.Equal(got, want) {
		t.Errorf("the node reads %v, want %v", got, want)
	}
	s.stop()
	s.startWith(want, fresh)
}

// TestOperatorsCommandsAsDocumented does what docs/operating.md says about files of
// configuration and new keys.
func TestOperatorsCommandsAsDocumented(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.kill() // start again in a folder with the documented name
	s.dir = filepath.Join(t.TempDir(), "breakwater-data")
	s.start()
	s.endpoint("http://127.0.0.1:9001/", nil)
	want := s.secrets()
	s.follow("export")
	s.stop()
	s.follow("rekey")
	fresh, err := os.ReadFile(filepath.Join(filepath.Dir(s.dir), "new.key"))
	if err != nil {
		t.Fatal(err)
	}
	s.startWith(want, strings.TrimSpace(string(fresh)))
}
