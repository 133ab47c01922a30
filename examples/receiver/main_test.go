package main_test

import (
	"bufio"
	"context"
	"database/sql"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // driver sqlite

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/sign"
)

const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// TestReceiver runs the example as people do.
func TestReceiver(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: starts processes")
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	program := exec.CommandContext(t.Context(), filepath.Join(dir, "receiver"), "--listen", "127.0.0.1:0")
	program.Dir, program.Env = dir, append(os.Environ(), "WEBHOOK_SECRET="+secret)
	stderr, err := program.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	url := address(t, stderr)

	for _, request := range []struct {
		path, id, body string
		want           int
	}{
		{"/hook", "evt_1", `{"order":42}`, 204},
		{"/hook", "evt_1", `{"order":42}`, 204}, // a copy
		{"/hook", "evt_2", `{"order":"43"}`, 204},
		{"/hook", "evt_3", `{"name":"no number"}`, 422},
		{"/hook", "evt_4", `no JSON`, 422},
		{"/inbox", "evt_5", `{"order":45}`, 204},
		{"/inbox", "evt_5", `{"order":45}`, 204},
		{"/elsewhere", "evt_6", `{"order":46}`, 404},
	} {
		if got := post(t, url+request.path, request.id, request.body); got != request.want {
			t.Errorf("%s %s: answer %d, want %d", request.path, request.id, got, request.want)
		}
	}
	if res, err := http.Post(url+"/hook", "application/json", strings.NewReader(`{"order":47}`)); err != nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("unsigned: %v, %v; want 401", res, err)
	}

	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "orders.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for deadline := time.Now().Add(time.Minute); orders(t, db) != "42 43 45" && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	if err := program.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	if got := orders(t, db); got != "42 43 45" {
		t.Errorf("orders %q, want each once", got)
	}
}

// TestReceiverNeedsASecret: it does not start without.
func TestReceiverNeedsASecret(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: starts processes")
	}
	program := exec.CommandContext(t.Context(), "go", "run", ".", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "x.db"))
	program.Env = append(os.Environ(), "WEBHOOK_SECRET=")
	if out, err := program.CombinedOutput(); err == nil || !strings.Contains(string(out), "must start with whsec_") {
		t.Errorf("%v: %s; want a refusal that names the rule", err, out)
	}
}

// address reads where the program listens, and lets it go on writing.
func address(t *testing.T, stderr io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return url
		}
	}
	t.Fatal("the program does not listen")
	return ""
}

// post sends an event as Breakwater does.
func post(t *testing.T, url, id, body string) int {
	t.Helper()
	key, err := sign.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := sign.NewSigner([]hook.Signature{{Scheme: hook.SchemeStandard}}, []sign.Secret{key})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	signer.Sign(req.Header.Set, id, time.Now(), []byte(body))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

func orders(t *testing.T, db *sql.DB) string {
	t.Helper()
	var all sql.NullString
	const query = "SELECT group_concat(number, ' ') FROM (SELECT number FROM orders ORDER BY number)"
	if err := db.QueryRowContext(context.Background(), query).Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all.String
}
