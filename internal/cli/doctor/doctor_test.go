package doctor_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli"
	"github.com/breakwaterhq/breakwater/internal/cli/doctor"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
)

// healthy is a machine on which nothing is wrong.
func healthy() doctor.Machine {
	return doctor.Machine{
		LookupHost: func(_ context.Context, host string) ([]string, error) {
			if strings.HasSuffix(host, ".invalid") {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			return []string{"192.0.2.1"}, nil
		},
		Roots: func() (*x509.CertPool, error) {
			server := httptest.NewTLSServer(nil)
			defer server.Close()
			pool := x509.NewCertPool()
			pool.AddCert(server.Certificate())
			return pool, nil
		},
		DiskFree:    func(string) (int64, error) { return 1 << 40, nil },
		Descriptors: func() uint64 { return 1 << 16 },
	}
}

// found is what a run of the doctor said.
type found struct {
	code           int
	stdout, stderr string
	checks         []doctor.Check
}

// check returns the check of a name, a bad one if there are several.
func (f *found) check(name string) doctor.Check {
	var out doctor.Check
	for _, c := range f.checks {
		if c.Name == name && (out.Name == "" || out.Status == "ok") {
			out = c
		}
	}
	return out
}

func examine(t *testing.T, m doctor.Machine, environ []string, args ...string) *found {
	t.Helper()
	var stdout, stderr bytes.Buffer
	s := &kit.Session{Host: kit.Host{Environ: environ, Stdout: &stdout, Stderr: &stderr}, Version: "test"}
	root := &cobra.Command{Use: "breakwater", SilenceErrors: true, SilenceUsage: true}
	s.AddFlags(root.PersistentFlags())
	root.AddCommand(doctor.Command(s, m))
	root.SetArgs(append([]string{"doctor", "--json", "--timeout=2m"}, args...))
	err := root.ExecuteContext(t.Context())
	f := &found{code: kit.ExitCode(err), stdout: stdout.String(), stderr: stderr.String()}
	var doc struct{ Checks []doctor.Check }
	if err := json.Unmarshal(stdout.Bytes(), &doc); err != nil {
		t.Fatalf("%v: %s%s", err, &stdout, &stderr)
	}
	f.checks = doc.Checks
	return f
}

// want checks how one check ended, and that whatever is wrong has a remedy.
func (f *found) want(t *testing.T, name, status, detail string) {
	t.Helper()
	got := f.check(name)
	if got.Status != status || !strings.Contains(got.Detail, detail) {
		t.Errorf("%s: %+v, want %s and %q", name, got, status, detail)
	}
	for _, c := range f.checks {
		if (c.Status == "ok") != (c.Remedy == "") {
			t.Errorf("%s: %s with remedy %q", c.Name, c.Status, c.Remedy)
		}
		if strings.Contains(c.Detail, "\n") {
			t.Errorf("%s takes more than a line: %q", c.Name, c.Detail)
		}
	}
	code := kit.ExitOK
	for _, c := range f.checks {
		if c.Status == "fail" {
			code = kit.ExitCheckFailed
		}
	}
	if f.code != code {
		t.Errorf("exit %d, want %d: %s", f.code, code, f.stdout)
	}
}

// serve starts a server on a folder and returns its address.
func serve(t *testing.T, dir string, args ...string) (address string, stop func()) {
	t.Helper()
	stdout, greeting := io.Pipe()
	signals, done := make(chan os.Signal, 2), make(chan int, 1)
	var log bytes.Buffer
	go func() {
		code := cli.Run(cli.Host{
			Args:   append([]string{"serve", "--dev", "--listen=127.0.0.1:0", "--data-dir=" + dir}, args...),
			Stdout: greeting, Stderr: &log, Signals: signals,
		})
		greeting.Close()
		done <- code
	}()
	lines := bufio.NewScanner(stdout)
	for address == "" && lines.Scan() {
		if url := regexp.MustCompile(`listening on (http://\S+)`).FindStringSubmatch(lines.Text()); url != nil {
			address = url[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		signals <- os.Interrupt
		if code := <-done; code != 0 || address == "" {
			t.Errorf("the server ended with %d:\n%s", code, &log)
		}
	}
	t.Cleanup(stop)
	if address == "" {
		t.Fatal("the server did not start")
	}
	return address, stop
}

func TestWhereNothingIsWrong(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "none yet")
	f := examine(t, healthy(), nil, "--data-dir", dir)
	for name, detail := range map[string]string{
		"settings": "valid, 1 setting given", "folder": "the first start makes it", "disk": "1 TiB are free", "open files": "65536 may be open, 2048",
		"dns": "a resolver answers", "ca roots": "can be verified", "store": "there is none yet", "server": "none runs", "key": "makes one",
	} {
		f.want(t, name, "ok", detail)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder was made: %v", err)
	}
}

func TestWhatIsWrongWithTheMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "a-file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		plant                 func(*doctor.Machine)
		args                  []string
		check, status, detail string
	}{
		"settings": {args: []string{"--store-batch=0"}, check: "settings", status: "fail", detail: "store.batch (--store-batch)"},
		"no roots": {plant: func(m *doctor.Machine) {
			m.Roots = func() (*x509.CertPool, error) { return x509.NewCertPool(), nil }
		}, check: "ca roots", status: "fail", detail: "no https destination"},
		"no room": {plant: func(m *doctor.Machine) {
			m.DiskFree = func(string) (int64, error) { return 100 << 20, nil }
		}, check: "disk", status: "fail", detail: "100 MiB are free, 512 MiB are kept back"},
		"little room": {plant: func(m *doctor.Machine) {
			m.DiskFree = func(string) (int64, error) { return 600 << 20, nil }
		}, check: "disk", status: "warn", detail: "600 MiB"},
		"few files": {plant: func(m *doctor.Machine) { m.Descriptors = func() uint64 { return 1024 } }, check: "open files", status: "warn", detail: "1024 may be open, 2048 should be"},
		"no resolver": {plant: func(m *doctor.Machine) {
			m.LookupHost = func(context.Context, string) ([]string, error) {
				return nil, &net.DNSError{Err: "connection refused", Name: "x"}
			}
		}, check: "dns", status: "fail", detail: "connection refused"},
		"a resolver that makes things up": {plant: func(m *doctor.Machine) {
			m.LookupHost = func(context.Context, string) ([]string, error) { return []string{"198.51.100.7"}, nil }
		}, check: "dns", status: "warn", detail: "198.51.100.7"},
		"a name that does not exist": {args: []string{"--smtp-host=mail.invalid", "--smtp-from=a@example.com"}, check: "dns", status: "fail", detail: "smtp.host"},
		"no folder":                  {args: []string{"--data-dir=" + file}, check: "folder", status: "fail", detail: "is no folder"},
		"server that is not there":   {args: []string{"--url=http://127.0.0.1:1"}, check: "server", status: "fail", detail: "reach server"},
		"destination refused":        {args: []string{"--reach=http://10.0.0.1/"}, check: "reach", status: "fail", detail: "10.0.0.1"},
		"no URL":                     {args: []string{"--reach=ftp://x"}, check: "reach", status: "fail", detail: "ftp://x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := healthy()
			if tc.plant != nil {
				tc.plant(&m)
			}
			examine(t, m, nil, append([]string{"--data-dir=" + dir}, tc.args...)...).want(t, tc.check, tc.status, tc.detail)
		})
	}
}

func TestOutboundConnections(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer target.Close()
	f := examine(t, healthy(), nil, "--dev", "--data-dir="+filepath.Join(t.TempDir(), "d"), "--reach="+target.URL)
	f.want(t, "reach", "ok", target.URL+" takes connections")
	if asked.Load() > 0 {
		t.Error("a request was sent")
	}
}

// TestBesideAServerAndWithoutIt looks at a SQLite store while a server uses it, and
// after it has stopped: with everything in order, with files that others can read,
// with another key, and with a schema that does not fit.
func TestBesideAServerAndWithoutIt(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	address, stop := serve(t, dir)
	environ := []string{"BREAKWATER_URL=" + address, "BREAKWATER_DATA_DIR=" + dir}
	command := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		if code := cli.Run(cli.Host{Args: args, Environ: environ, Stdout: &out, Stderr: &out, Signals: make(chan os.Signal)}); code != 0 {
			t.Fatalf("%v: exit %d, %s", args, code, &out)
		}
	}
	for deadline := time.Now().Add(3 * time.Minute); examine(t, healthy(), environ).check("server").Status != "ok"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server is not ready")
		}
	}
	command("endpoints", "create", "http://127.0.0.1:9001/", "--header=A=b")
	f := examine(t, healthy(), environ)
	f.want(t, "store", "ok", "in use by a running server")
	f.want(t, "server", "ok", address+" is ready")
	f.want(t, "key", "ok", "not checked: in use by a running server")
	if f.check("clock").Name == "" {
		t.Errorf("clocks were not compared: %s", f.stdout)
	}
	command("endpoints", "list") // the server is well
	// Without its address nobody can say how it is.
	elsewhere := examine(t, healthy(), nil, "--data-dir="+dir, "--listen=127.0.0.1:1")
	elsewhere.want(t, "server", "warn", "none answers at http://127.0.0.1:1")

	stop()
	look := func(args ...string) *found {
		t.Helper()
		return examine(t, healthy(), nil, append([]string{"--data-dir=" + dir}, args...)...)
	}
	f = look()
	f.want(t, "store", "ok", "opened in")
	f.want(t, "key", "ok", "opens all 2 sealed values")
	f.want(t, "folder", "ok", dir)

	for _, mode := range []struct {
		file           string
		wrong, right   os.FileMode
		status, detail string
	}{
		{"", 0o755, 0o700, "warn", "mode 0755"}, {"secret.key", 0o644, 0o600, "fail", "secret.key (mode 0644)"}, {"admin.key", 0o640, 0o600, "fail", "admin.key (mode 0640)"},
	} {
		at := filepath.Join(dir, mode.file)
		if err := os.Chmod(at, mode.wrong); err != nil {
			t.Fatal(err)
		}
		look().want(t, "folder", mode.status, mode.detail)
		if err := os.Chmod(at, mode.right); err != nil {
			t.Fatal(err)
		}
	}

	other := filepath.Join(t.TempDir(), "other.key")
	if err := os.WriteFile(other, []byte("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	look("--encryption-key-file="+other).want(t, "key", "fail", "which this node does not have")

	exec := func(statement string) { // and leave no log of it behind
		t.Helper()
		db, err := sql.Open("sqlite", filepath.Join(dir, "breakwater.db"))
		if err == nil {
			_, err = db.ExecContext(t.Context(), statement)
			err = errors.Join(err, db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	exec(`UPDATE secrets SET sealed = zeroblob(60)`)
	look().want(t, "key", "fail", "1 of 2 sealed values do not open: secret of ep_")
	exec(`CREATE TABLE kept AS SELECT * FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)`)
	exec(`DELETE FROM schema_migrations WHERE version = (SELECT version FROM kept)`)
	look().want(t, "store", "warn", "1 migration is to be applied")
	look("--store-migrate=false").want(t, "store", "fail", "1 migration is to be applied")
	exec(`INSERT INTO schema_migrations SELECT * FROM kept`)
	exec(`INSERT INTO schema_migrations SELECT version + 1, 'of a later program', checksum, applied_at FROM kept`)
	look().want(t, "store", "fail", "newer than this program")
}

func TestOnPostgres(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	dir := filepath.Join(t.TempDir(), "data")
	look := func(args ...string) *found {
		t.Helper()
		return examine(t, healthy(), nil, append([]string{"--data-dir=" + dir, "--database-url=" + dsn, "--listen=127.0.0.1:1"}, args...)...)
	}
	look().want(t, "store", "warn", "to be applied")
	_, stop := serve(t, dir, "--database-url="+dsn, "--node-name=node-a")
	for deadline := time.Now().Add(3 * time.Minute); look().check("nodes").Status != "ok"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s", look().stdout)
		}
	}
	f := look()
	f.want(t, "nodes", "ok", "node-a: every shard has an owner")
	f.want(t, "store", "ok", "version ")
	f.want(t, "disk", "ok", "not on this machine")
	f.want(t, "key", "ok", "opens all 0 sealed values")
	if f.check("clock").Name == "" {
		t.Errorf("clocks were not compared: %s", f.stdout)
	}
	stop()
	look().want(t, "nodes", "ok", "none runs")
	look("--database-url=postgres://127.0.0.1:1/x?connect_timeout=5").want(t, "store", "fail", "connect")
}
