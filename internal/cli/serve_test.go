package cli_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/cli"
	"github.com/breakwaterhq/breakwater/internal/lab/sink"
)

// startServer runs "serve --dev" on a free port and returns what it greeted
// with. stop sends the first signal and returns the exit code.
func startServer(t *testing.T, dataDir string, more ...string) (banner string, stop func() int) {
	t.Helper()
	stdout, greeting := io.Pipe()
	signals, done := make(chan os.Signal, 2), make(chan int, 1)
	var log strings.Builder
	go func() {
		done <- cli.Run(cli.Host{
			Args:   append([]string{"serve", "--dev", "--listen=127.0.0.1:0", "--data-dir=" + dataDir}, more...),
			Stdout: greeting, Stderr: &log, Signals: signals,
		})
		greeting.Close()
	}()
	lines := bufio.NewScanner(stdout)
	var greeted strings.Builder
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "try:") {
		greeted.WriteString(lines.Text() + "\n")
	}
	stop = func() int {
		signals <- os.Interrupt
		code := <-done
		if t.Failed() {
			t.Log(log.String())
		}
		return code
	}
	return greeted.String(), stop
}

// control changes the behaviour of a sink.
func control(t *testing.T, url, change string) {
	t.Helper()
	resp, err := http.Post(url+"/_sink", "application/json", strings.NewReader(change))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("control %s: %s", change, resp.Status)
	}
}

// waitReady waits for the server to take its shards, which it does after it
// has greeted.
func waitReady(t *testing.T, environ []string) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		got := runWith(environ, "", "health", "--ready")
		if got.code == 0 && got.stdout == "ok\n" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready: exit %d, %s", got.code, got.stderr)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestFirstMinute is what a new user does: start, create an endpoint, send,
// see it arrive with a good signature, stop, start again.
func TestFirstMinute(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(t.TempDir(), "data")
	banner, stop := startServer(t, dataDir)
	url := regexp.MustCompile(`listening on (http://127\.0\.0\.1:\d+)`).FindStringSubmatch(banner)
	if url == nil || !strings.Contains(banner, "(shown once, kept in "+filepath.Join(dataDir, "admin.key")+")") {
		t.Fatalf("banner:\n%s(exit %d)", banner, stop())
	}
	if !strings.Contains(banner, "dashboard "+url[1]+"/ui\n") {
		t.Errorf("banner:\n%s", banner)
	}
	environ := []string{"BREAKWATER_URL=" + url[1], "BREAKWATER_DATA_DIR=" + dataDir}
	run := func(want string, args ...string) string {
		t.Helper()
		got := runWith(environ, "", args...)
		if got.code != 0 || !regexp.MustCompile(want).MatchString(got.stdout) {
			t.Errorf("%s: exit %d, stdout %q, want %s (%s)", args, got.code, got.stdout, want, got.stderr)
		}
		return got.stdout
	}

	receiver, err := sink.New(sink.Config{})
	if err != nil {
		t.Fatal(err)
	}
	hooks := httptest.NewServer(receiver)
	defer hooks.Close()
	waitReady(t, environ)
	created := run(`^ep_\w+\nwhsec_\S+\n$`, "endpoints", "create", hooks.URL+"/hook", "--types=order.*", "--quiet")
	if _, secret, ok := strings.Cut(strings.TrimSpace(created), "\n"); ok {
		control(t, hooks.URL, `{"secrets":["`+secret+`"]}`)
	}
	run(`^evt_\w+ accepted, 1 delivery\nep_\w+ delivered 200 in \d+ ms\n$`, "send", "order.paid", `-d={"order": 42}`, "--wait")
	run(`^evt_\w+ accepted, 0 deliveries\n$`, "send", "other.type")
	delivery := strings.TrimSpace(run(`^dlv_\w+\n$`, "deliveries", "list", "--status=delivered", "--quiet"))
	run(`^att_\w+\n$`, "deliveries", "attempts", delivery, "--quiet")
	if c := receiver.Report(); c.OK != 1 || c.BadSignatures != 0 || c.Unsigned != 0 || c.Duplicates != 0 {
		t.Errorf("the receiver saw %+v, want one good request", c.Counts)
	}
	if code := stop(); code != 0 {
		t.Errorf("stopped with exit %d, want 0", code)
	}

	banner, stop = startServer(t, dataDir)
	if strings.Contains(banner, "admin key") {
		t.Errorf("the second start shows a key again:\n%s", banner)
	}
	if code := stop(); code != 0 {
		t.Errorf("second stop: exit %d, want 0", code)
	}
}
