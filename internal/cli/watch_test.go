package cli_test

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/cli"
	"github.com/breakwaterhq/breakwater/internal/lab/sink"
)

// live is a real server with a sink.
type live struct {
	t       *testing.T
	environ []string
	sink    *httptest.Server
}

func newLive(t *testing.T) *live {
	t.Helper()
	receiver, err := sink.New(sink.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l := &live{t: t, sink: httptest.NewServer(receiver)}
	t.Cleanup(l.sink.Close)
	dataDir := filepath.Join(t.TempDir(), "data")
	banner, stop := startServer(t, dataDir)
	t.Cleanup(func() {
		if code := stop(); code != 0 {
			t.Errorf("the server ended with %d", code)
		}
	})
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(banner)
	l.environ = []string{"BREAKWATER_URL=" + url, "BREAKWATER_DATA_DIR=" + dataDir}
	waitReady(t, l.environ)
	return l
}

// run runs a command that must end with the code.
func (l *live) run(code int, args ...string) result {
	l.t.Helper()
	got := runWith(l.environ, "", args...)
	if got.code != code {
		l.t.Fatalf("%q: exit %d, want %d\n%s%s", args, got.code, code, got.stdout, got.stderr)
	}
	return got
}

// shows fails unless the text has a match for each pattern, in that order.
func shows(t *testing.T, text string, patterns ...string) {
	t.Helper()
	rest := text
	for _, p := range patterns {
		at := regexp.MustCompile(p).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("want %q in:\n%s", p, text)
		}
		rest = rest[at[1]:]
	}
}

// heard is what a command prints while it runs.
type heard struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.String()
}

// await waits until it has printed text.
func (h *heard) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(h.String(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never printed %q:\n%s", text, h)
		}
	}
}

func TestWatchingDeliveries(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	got := l.run(1, "send", "order.paid", "--wait")
	shows(t, got.stderr, "no endpoint of tenant default takes this type of event; see: breakwater --tenant default endpoints list")
	endpoint := strings.Fields(l.run(0, "--quiet", "endpoints", "create", l.sink.URL+"/hook", "--types", "order.*", "--preset", "quick").stdout)[0]

	// Attempts are told as they end.
	signals, out, ended := make(chan os.Signal, 1), &heard{}, make(chan int, 1)
	go func() {
		ended <- cli.Run(cli.Host{Args: []string{"tail", "-f"}, Environ: l.environ, Stdout: out, Stderr: out, Signals: signals})
	}()
	control(t, l.sink.URL, `{"next":[503]}`)
	got = l.run(0, "send", "order.paid", "-d", `{"order":42}`, "--wait=2m")
	event := strings.Fields(got.stdout)[0]
	shows(t, got.stdout, event+" accepted, 1 delivery\n", endpoint+` #1 first \S+: 503 unavailable after \d+ms, lane closed with 1 of \S+ in flight; waits \S+, drawn from up to \S+ for retry 1\n`,
		endpoint+` delivered 200 in \d+ ms\n`)
	shows(t, got.stderr, `all delivered after \S+s`)
	control(t, l.sink.URL, `{"next":[422]}`)
	got = l.run(1, "send", "order.made", "--wait")
	shows(t, got.stdout, endpoint+` dead \(permanent\) 422 in \d+ ms`)
	shows(t, got.stderr, `1 delivery was not delivered, after \S+; see: breakwater inspect evt_`)
	dead := strings.Fields(got.stdout)[0]
	out.await(t, "order.made  422")
	signals <- os.Interrupt
	if code := <-ended; code != 130 {
		t.Errorf("tail -f ended with %d", code)
	}
	shows(t, out.String(), `\d\d:\d\d:\d\d\.\d{3}  first   `+endpoint+`  order\.paid  503  \d+ms  #1  dlv_\w+  next \d\d:\d\d:\d\d\n`,
		`(retry|probe)\s+`+endpoint+`  order\.paid  200  \d+ms  #2  dlv_\w+\n`, `first   `+endpoint+`  order\.made  422`)

	// What has ended is there, with filters.
	shows(t, l.run(0, "tail").stdout, `503`, `200`, `422`)
	if got := l.run(0, "tail", "--class", "success", "--type", "order.*", "--json").stdout; strings.Count(got, "\n") != 1 || !strings.Contains(got, `"status_code":200`) {
		t.Errorf("tail --class success --json:\n%s", got)
	}
	shows(t, l.run(0, "tail", "--limit", "1").stdout, `order\.made`)
	shows(t, l.run(2, "tail", "--kind", "second").stderr, `--kind unknown kind "second"`)
	shows(t, l.run(2, "tail", "--limit", "-1").stderr, "--limit: must be between 0 and 10000")

	l.inspect(endpoint, event, dead)
}

// inspect tells the story of an event that came with its second attempt, and of one
// that was refused.
func (l *live) inspect(endpoint, event, dead string) {
	t := l.t
	t.Helper()
	got := l.run(0, "inspect", event).stdout
	shows(t, got, event+"  order.paid, 12 bytes, accepted", "1 delivery: 0 pending, 1 delivered", "#1 first .*503 unavailable.*; waits", `#2 \w+ .*: 200 ok`, "delivered 20")
	delivery := regexp.MustCompile(`dlv_\w+`).FindString(got)
	shows(t, l.run(0, "inspect", delivery).stdout, delivery+"  order.paid of "+event+" to "+endpoint, "#1", "#2")
	shows(t, l.run(0, "inspect", dead).stdout, "#1 first .*422", "dead since .*: permanent. Nothing more is sent; to send it again: breakwater --tenant ten_")
	shows(t, l.run(0, "inspect", event, "--json").stdout, `"attempts":\[.*"id":"att_`)
	attempt := strings.Fields(l.run(0, "--quiet", "tail", "--class", "down").stdout)[0]
	shows(t, l.run(0, "inspect", attempt, "--headers", "--body").stdout, attempt+"  of "+delivery, "#1 first", "to "+l.sink.URL+"/hook at 127.0.0.1", "request  Webhook-Id: "+event, "body")
	shows(t, l.run(0, "inspect", endpoint).stdout, "url +"+l.sink.URL, "breaker +closed")
	l.run(3, "inspect", "evt_0000000000000")
	l.run(3, "inspect", "att_0000000000000")
	shows(t, l.run(2, "inspect", "order42").stderr, "is not an id that can be inspected")

	shows(t, l.run(0, "curl", event).stdout, "curl", "PLACEHOLDER")
	shows(t, l.run(0, "curl", delivery, "--sign").stdout, "curl", "Webhook-Signature: v1,")
	shows(t, l.run(0, "curl", delivery, "--json").stdout, `"curl":"curl`)
	shows(t, l.run(2, "curl", endpoint).stderr, "must be the id of a delivery")
	l.run(3, "curl", "dlv_0000000000000")
}

func TestWaitingHasALimit(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{
		"POST /v1/tenants/default/events":                 always(202, `{"id":"evt_1","deliveries":1}`),
		"GET /v1/tenants/default/events/evt_1/deliveries": always(200, `{"data":[{"id":"dlv_1","endpoint":"ep_1","status":"pending","waiting_for":"paused"}]}`),
	})
	got := s.run("send", "a", "--wait=5s")
	if got.code != 1 {
		t.Errorf("exit %d", got.code)
	}
	shows(t, got.stderr, "ep_1 waits: the endpoint is paused or disabled; see: breakwater endpoints lane ep_1", "1 delivery is still pending after 5s; see: breakwater inspect evt_1")
	for _, limit := range []string{"soon", "0", "-1s", "31d"} {
		if got := s.run("send", "a", "--wait="+limit); got.code != 2 || !strings.Contains(got.stderr, "--wait: ") {
			t.Errorf("--wait=%s: exit %d, %s", limit, got.code, got.stderr)
		}
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, args := range [][]string{{"tail"}, {"tail", "-f", "--limit", "0"}, {"inspect", "evt_0000000000000"}, {"curl", "dlv_0000000000000"}} {
		got := runWith([]string{"BREAKWATER_URL=" + gone.URL}, "", args...)
		if got.code != 6 || !strings.Contains(got.stderr, "start one with: breakwater serve --dev") {
			t.Errorf("%q: exit %d, %s", args, got.code, got.stderr)
		}
	}
}
