package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/cli"
)

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

func runWith(environ []string, stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := cli.Run(cli.Host{
		Args: args, Environ: environ, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr,
		Signals: make(chan os.Signal),
	})
	return result{code, stdout.String(), stderr.String()}
}

// seen is one request that the fake server got.
type seen struct {
	Method, Path, Body, Key, Auth string
}

// server is a fake API: it answers each "METHOD path" as told and remembers
// what it was asked.
type server struct {
	*httptest.Server

	mu      sync.Mutex
	answers map[string][]answer
	got     []seen
}

type answer struct {
	status int
	body   string
}

func newServer(t *testing.T, answers map[string][]answer) *server {
	t.Helper()
	s := &server{answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP gives the next answer of the route; the last one is repeated.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, seen{
		r.Method, r.URL.RequestURI(), string(body), r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization"),
	})
	route := r.Method + " " + r.URL.Path
	list := s.answers[route]
	if len(list) == 0 {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	if len(list) > 1 {
		s.answers[route] = list[1:]
	}
	w.WriteHeader(list[0].status)
	fmt.Fprint(w, list[0].body)
}

// interruptAfter sends Ctrl-C once so many requests have come.
func (s *server) interruptAfter(requests int) chan os.Signal {
	signals := make(chan os.Signal, 1)
	asked := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.got)
	}
	go func() {
		for asked() < requests {
			time.Sleep(5 * time.Millisecond)
		}
		signals <- os.Interrupt
	}()
	return signals
}

func (s *server) run(args ...string) result {
	return runWith([]string{"BREAKWATER_URL=" + s.URL, "BREAKWATER_API_KEY=bw_test"}, "", args...)
}

func always(status int, body string) []answer { return []answer{{status, body}} }

func TestExitCodes(t *testing.T) {
	t.Parallel()
	const problem = `{"title":"no","status":%d,"detail":"it was so","code":"some_code","request_id":"req_1","errors":[{"path":"url","message":"is bad"}]}`
	for name, tc := range map[string]struct {
		status int
		want   int
	}{
		"bad request":   {400, 1},
		"unauthorised":  {401, 4},
		"forbidden":     {403, 4},
		"not found":     {404, 3},
		"conflict":      {409, 5},
		"precondition":  {412, 5},
		"unprocessable": {422, 5},
		"limited":       {429, 1},
		"internal":      {500, 6},
		"unavailable":   {503, 6},
		"disk full":     {507, 6},
		"redirect":      {302, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, map[string][]answer{
				"GET /v1/tenants/default/endpoints/ep_1": always(tc.status, fmt.Sprintf(problem, tc.status)),
			})
			got := s.run("endpoints", "get", "ep_1")
			if got.code != tc.want {
				t.Errorf("exit %d, want %d", got.code, tc.want)
			}
			if !strings.HasPrefix(got.stderr, "breakwater: it was so (some_code)\n  url: is bad\n") || got.stdout != "" {
				t.Errorf("stderr %q, stdout %q", got.stderr, got.stdout)
			}
		})
	}
	unready := newServer(t, map[string][]answer{"GET /readyz": always(503, `{"reasons":["store does not answer","draining"]}`)})
	if got := unready.run("health", "--ready"); got.code != 6 || got.stderr != "breakwater: store does not answer; draining\n" {
		t.Errorf("unready server: exit %d, stderr %q", got.code, got.stderr)
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	if got := runWith([]string{"BREAKWATER_URL=" + closed.URL}, "", "tenants", "list"); got.code != 6 {
		t.Errorf("unreachable server: exit %d, want 6 (%s)", got.code, got.stderr)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for name, tc := range map[string]struct {
		environ []string
		args    []string
		want    string
	}{
		"command":          {nil, []string{"sned"}, `unknown command "sned" for "breakwater"; did you mean send?`},
		"subcommand":       {nil, []string{"keys", "remove"}, `unknown command "remove" for "breakwater keys"`},
		"no subcommand":    {nil, []string{"keys"}, "Usage:"},
		"flag":             {nil, []string{"serve", "--lisen=:1"}, "unknown flag: --lisen; did you mean --listen?"},
		"flag value":       {nil, []string{"send", "a", "--count=x"}, `invalid argument "x" for "--count" flag`},
		"arguments":        {nil, []string{"send"}, "wrong number of arguments; usage: breakwater send TYPE"},
		"url":              {nil, []string{"health", "--url=localhost:80"}, `--url: "localhost:80" must be a URL`},
		"key file":         {nil, []string{"keys", "list", "--api-key-file=" + missing}, "read API key: open"},
		"two keys":         {[]string{"BREAKWATER_API_KEY=a", "BREAKWATER_API_KEY_FILE=b"}, []string{"keys", "list"}, "not both"},
		"payload":          {nil, []string{"send", "a", "-d", "{"}, "-d: payload is not valid JSON"},
		"payload file":     {nil, []string{"send", "a", "-d", "@" + missing}, "-d: open"},
		"delay":            {nil, []string{"send", "a", "--delay=15"}, "--delay: must be a duration"},
		"count":            {nil, []string{"send", "a", "--count=0"}, "--count: must be at least 1"},
		"wait with count":  {nil, []string{"send", "a", "--count=2", "--wait"}, "--wait: works with one event only"},
		"header":           {nil, []string{"endpoints", "create", "http://x", "--header=K"}, `--header: "K" must be NAME=VALUE`},
		"expires":          {nil, []string{"keys", "create", "--expires=soon"}, `--expires: "soon" must be a time`},
		"limit":            {nil, []string{"tenants", "list", "--limit=0"}, "--limit: must be at least 1"},
		"sink rate":        {nil, []string{"sink", "--throttle-over=fast"}, `"--throttle-over" flag: must be requests per second between 0.01 and 1000000, such as 20/s`},
		"sink cliff":       {nil, []string{"sink", "--crash-over=0.5"}, `"--crash-over" flag: must be requests per second between 1 and 1000000`},
		"sink crash":       {nil, []string{"sink", "--crash-for=25h"}, `"--crash-for" flag: must be a duration between 0s and 1d`},
		"sink refusals":    {nil, []string{"sink", "--refuse-over=-1"}, `"--refuse-over" flag: must be requests per second between 1 and 1000000`},
		"sink share":       {nil, []string{"sink", "--stray-429=101%"}, `"--stray-429" flag: must be a share between 0% and 100%`},
		"sink single 429":  {nil, []string{"sink", "--one-429-every=38"}, `"--one-429-every" flag: must be a duration`},
		"sink script":      {nil, []string{"sink", "--next=429,ok"}, `"--next" flag: must be up to 1000 statuses between 200 and 599`},
		"sink seconds":     {nil, []string{"sink", "--retry-after=1.5"}, `"--retry-after" flag: must be whole seconds between 0 and 86400`},
		"sink flapping":    {nil, []string{"sink", "--flap-every=10s", "--flap-for=10s"}, "--flap-for: must be more than 0s and less than flap_every"},
		"sink status":      {nil, []string{"sink", "--fail=42"}, `"--fail" flag: must be a status between 200 and 599`},
		"sink two rules":   {nil, []string{"sink", "--fail-for=1s", "--throttle-burst=2"}, "--fail-for: goes with fail or fail_rate\n--throttle-burst: goes with throttle_over"},
		"sink secret":      {nil, []string{"sink", "--secret=x"}, "--secret: "},
		"sink secret file": {nil, []string{"sink", "--secret-file=" + missing}, "--secret-file: open"},
		"sink address":     {nil, []string{"sink", "--listen=9000"}, `--listen: "9000" must be an address such as 127.0.0.1:9000`},
		"sink log":         {nil, []string{"sink", "--log=" + filepath.Join(missing, "log")}, "--log: open"},
		"configuration":    {[]string{"BREAKWATER_LISTEN=x"}, []string{"config", "check"}, "listen (BREAKWATER_LISTEN):"},
		"serve bad config": {[]string{"BREAKWATER_TYPO=x"}, []string{"serve"}, "BREAKWATER_TYPO (environment): unknown variable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runWith(tc.environ, "", tc.args...)
			if got.code != 2 || !strings.Contains(got.stderr, tc.want) || got.stdout != "" {
				t.Errorf("exit %d, stderr %q, stdout %q; want exit 2 and %q", got.code, got.stderr, got.stdout, tc.want)
			}
		})
	}
}

func TestKeyOfALocalServer(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("breakwater-data", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("breakwater-data/admin.key", []byte("bw_local\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, map[string][]answer{"GET /v1/tenants": always(200, `{"data":[],"next_cursor":null}`)})
	if got := runWith([]string{"BREAKWATER_URL=" + s.URL}, "", "tenants", "list"); got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.stderr)
	}
	if s.got[0].Auth != "Bearer bw_local" {
		t.Errorf("loopback server got %q, want the key of the data folder", s.got[0].Auth)
	}
	// The same key must never leave the machine by itself. 0.0.0.0 leads here,
	// but is no loopback address.
	elsewhere := strings.Replace(s.URL, "127.0.0.1", "0.0.0.0", 1)
	if got := runWith([]string{"BREAKWATER_URL=" + elsewhere}, "", "tenants", "list"); got.code != 0 {
		if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
			t.Fatalf("0.0.0.0 must lead here, or the key is not checked: %s", got.stderr)
		}
		t.Skipf("NOT TESTED: 0.0.0.0 does not lead here: %s", got.stderr)
	}
	if last := s.got[len(s.got)-1]; last.Auth != "" {
		t.Errorf("another host got %q, want no key", last.Auth)
	}
}

func TestSend(t *testing.T) {
	t.Parallel()
	const path = "/v1/tenants/default/events"
	s := newServer(t, map[string][]answer{"POST " + path: always(202, `{"id":"evt_1","deliveries":1}`)})
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		out   string
		body  string
		key   string
	}{
		"exact bytes": {
			args: []string{"-d", `{"order": 42.0, "x":"<&>"}`}, out: "evt_1 accepted, 1 delivery\n",
			body: `{"type":"order.paid","payload":{"order": 42.0, "x":"<&>"}}`,
		},
		"stdin, delay, key": {
			stdin: "[1]\n", args: []string{"-d", "-", "--delay", "1d", "--idempotency-key", "k", "--quiet"}, out: "evt_1\n",
			body: "{\"type\":\"order.paid\",\"delay\":\"1d\",\"payload\":[1]\n}", key: "k",
		},
		"no delay, as the API takes it": {
			args: []string{"-d", "1", "--delay", "0"}, out: "evt_1 accepted, 1 delivery\n",
			body: `{"type":"order.paid","delay":"0s","payload":1}`,
		},
		"not JSON": {
			args: []string{"-d", "hi", "--content-type", "text/plain", "--json"}, out: `{"id":"evt_1","deliveries":1}` + "\n",
			body: `{"type":"order.paid","content_type":"text/plain","payload_base64":"aGk="}`,
		},
	} {
		got := runWith([]string{"BREAKWATER_URL=" + s.URL, "BREAKWATER_API_KEY=bw_test"}, tc.stdin, append([]string{"send", "order.paid"}, tc.args...)...)
		if got.code != 0 || got.stdout != tc.out {
			t.Errorf("%s: exit %d, stdout %q, want %q (%s)", name, got.code, got.stdout, tc.out, got.stderr)
		}
		last := s.got[len(s.got)-1]
		if diff := cmp.Diff(seen{"POST", path, tc.body, tc.key, "Bearer bw_test"}, last); diff != "" {
			t.Errorf("%s: request (-want +got):\n%s", name, diff)
		}
	}
}

func TestSendMany(t *testing.T) {
	t.Parallel()
	accepted, refused := answer{202, `{"id":"evt_1","deliveries":2}`}, answer{503, `{"detail":"busy"}`}
	s := newServer(t, map[string][]answer{"POST /v1/tenants/default/events": {accepted, refused, accepted}})
	start := time.Now()
	got := s.run("send", "a", "--count=3", "--rate=20/s", "--idempotency-key=k")
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("3 events at 20/s took %v, want at least 100ms", took)
	}
	if got.code != 7 || !strings.HasPrefix(got.stdout, "2 of 3 accepted, 4 deliveries, in ") || !strings.Contains(got.stderr, "first: busy") {
		t.Errorf("exit %d, stdout %q, stderr %q; want 7, 2 of 3 and the cause", got.code, got.stdout, got.stderr)
	}
	for i, r := range s.got {
		if want := fmt.Sprintf("k-%d", i+1); r.Key != want {
			t.Errorf("event %d had key %q, want %q", i, r.Key, want)
		}
	}
}

func TestSendWait(t *testing.T) {
	t.Parallel()
	list := func(statuses ...string) answer {
		items := make([]string, len(statuses))
		for i, status := range statuses {
			items[i] = fmt.Sprintf(`{"id":"dlv_%d","endpoint":"ep_%d","status":%q,"last":{"status_code":200,"latency_ms":41.2}}`, i, i, status)
		}
		return answer{200, `{"data":[` + strings.Join(items, ",") + `],"next_cursor":null}`}
	}
	for name, tc := range map[string]struct {
		polls []answer
		code  int
		want  string
	}{
		"delivered": {[]answer{list("pending", "pending"), list("delivered", "pending"), list("delivered", "delivered")}, 0, "ep_0 delivered 200 in 41 ms\nep_1 delivered 200 in 41 ms\n"},
		"dead":      {[]answer{list("delivered", "dead")}, 1, "ep_0 delivered 200 in 41 ms\nep_1 dead 200 in 41 ms\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, map[string][]answer{
				"POST /v1/tenants/default/events":                 always(202, `{"id":"evt_1","deliveries":2}`),
				"GET /v1/tenants/default/events/evt_1/deliveries": tc.polls,
			})
			got := s.run("send", "a", "--wait")
			if got.code != tc.code || got.stdout != "evt_1 accepted, 2 deliveries\n"+tc.want {
				t.Errorf("exit %d, stdout %q (%s)", got.code, got.stdout, got.stderr)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{
		"POST /v1/tenants/default/events":                 always(202, `{"id":"evt_1","deliveries":1}`),
		"GET /v1/tenants/default/events/evt_1/deliveries": always(200, `{"data":[{"id":"dlv_1","status":"pending"}]}`),
	})
	signals := s.interruptAfter(2) // once accepted, once looked at
	var stdout, stderr bytes.Buffer
	code := cli.Run(cli.Host{
		Args: []string{"send", "a", "--wait", "--url", s.URL}, Stdout: &stdout, Stderr: &stderr, Signals: signals,
	})
	if code != 130 || !strings.Contains(stderr.String(), "breakwater inspect evt_1") {
		t.Errorf("exit %d, stderr %q; want 130 and how to go on watching", code, stderr.String())
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{
		"POST /v1/tenants/acme/endpoints":             always(201, `{"id":"ep_1","secret":"whsec_x","url":"http://h/"}`),
		"GET /v1/tenants/acme/endpoints":              always(200, `{"data":[{"id":"ep_1","status":"active","types":["a","b.*"],"url":"http://h/","uid":null}],"next_cursor":null}`),
		"DELETE /v1/tenants/acme/endpoints/ep_1":      always(200, `{"cancelled":0}`),
		"POST /v1/tenants/acme/endpoints/ep_1/pause":  always(200, `{}`),
		"POST /v1/tenants/acme/endpoints/ep_1/resume": always(200, `{}`),
		"POST /v1/tenants/acme/endpoints/ep_2/pause":  always(404, `{"detail":"no such endpoint"}`),
	})
	run := func(args ...string) result { return s.run(append([]string{"--tenant=acme", "endpoints"}, args...)...) }

	got := run("create", "http://h/", "--types=a,b.*", "--uid=u", "--preset=quick", "--header=K=v=w", "--signature=stripe:X-Sig", "--signature=standard")
	if got.code != 0 || got.stdout != "endpoint  ep_1\nsecret    whsec_x (shown once)\n" {
		t.Errorf("create: exit %d, %q (%s)", got.code, got.stdout, got.stderr)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(s.got[0].Body), &body); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"url": "http://h/", "uid": "u", "types": []any{"a", "b.*"}, "policy": map[string]any{"preset": "quick"},
		"headers":    map[string]any{"K": "v=w"},
		"signatures": []any{map[string]any{"scheme": "stripe", "header": "X-Sig"}, map[string]any{"scheme": "standard"}},
	}
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("create sent (-want +got):\n%s", diff)
	}
	if got := run("list"); got.stdout != "ID    STATUS  TYPES  URL        UID\nep_1  active  a,b.*  http://h/  –\n" {
		t.Errorf("list:\n%s", got.stdout)
	}
	if got := run("list", "--quiet"); got.stdout != "ep_1\n" {
		t.Errorf("list --quiet: %q", got.stdout)
	}
	if got := run("delete", "ep_1"); got.code != 0 || got.stdout != "ep_1 deleted\n" {
		t.Errorf("delete: exit %d, %q", got.code, got.stdout)
	}
	if got := run("pause", "ep_1", "ep_2"); got.code != 7 || got.stdout != "ep_1 paused\n" || !strings.Contains(got.stderr, "ep_2: no such endpoint") {
		t.Errorf("pause of two, one unknown: exit %d, %q, %q; want 7", got.code, got.stdout, got.stderr)
	}
	if got := run("pause", "ep_2", "ep_2"); got.code != 3 {
		t.Errorf("pause of two unknown: exit %d, want 3", got.code)
	}
	run("resume", "../../x")
	if last := s.got[len(s.got)-1]; last.Path != "/v1/tenants/acme/endpoints/..%2F..%2Fx/resume" {
		t.Errorf("an id must stay one path segment, got %s", last.Path)
	}
	s.run("--tenant=../x", "endpoints", "list")
	if last := s.got[len(s.got)-1]; !strings.HasPrefix(last.Path, "/v1/tenants/..%2Fx/endpoints") {
		t.Errorf("a tenant must stay one path segment, got %s", last.Path)
	}
}

func TestListFollowsCursors(t *testing.T) {
	t.Parallel()
	page := func(n int, next string) answer {
		items := strings.TrimSuffix(strings.Repeat(`{"id":"dlv_1","status":"pending","view":"held","endpoint":"ep_1","type":"a","attempts":3},`, n), ",")
		return answer{200, `{"data":[` + items + `],"next_cursor":` + next + `}`}
	}
	s := newServer(t, map[string][]answer{"GET /v1/tenants/default/deliveries": {page(250, `"c1"`), page(50, `"c2"`)}})
	got := s.run("deliveries", "list", "--limit=300", "--status=dead,held", "--since=24h")
	if rows := strings.Count(got.stdout, "\n") - 1; rows != 300 || !strings.Contains(got.stderr, "there are more") {
		t.Errorf("%d rows, stderr %q; want 300 and a hint at more", rows, got.stderr)
	}
	want := []string{
		"/v1/tenants/default/deliveries?limit=250&since=24h&status=dead&status=held",
		"/v1/tenants/default/deliveries?cursor=c1&limit=50&since=24h&status=dead&status=held",
	}
	if diff := cmp.Diff(want, []string{s.got[0].Path, s.got[1].Path}); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestListPassesEmptyPages goes on where the server has looked enough.
func TestListPassesEmptyPages(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{"GET /v1/tenants/default/deliveries": {
		{200, `{"data":[],"next_cursor":"c1"}`},
		{200, `{"data":[{"id":"dlv_1","status":"delivered"}],"next_cursor":"c2"}`},
		{200, `{"data":[],"next_cursor":null}`},
	}})
	got := s.run("deliveries", "list", "--limit=300", "--status=delivered")
	if rows := strings.Count(got.stdout, "\n") - 1; rows != 1 || len(s.got) != 3 || strings.Contains(got.stderr, "there are more") {
		t.Errorf("%d rows by %d requests, stderr %q; want 1 by 3, and no more", rows, len(s.got), got.stderr)
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{
		"GET /v1/tenants/default/dead-letters":              always(200, `{"data":[{"id":"dlv_1","status":"dead","reason":"exhausted","endpoint":"ep_1","type":"a","attempts":8,"last":{"status_code":0,"reason":"timeout"}}]}`),
		"GET /v1/tenants/default/deliveries/dlv_1/attempts": always(200, `{"data":[{"id":"att_1","number":1,"kind":"first","class":"down","reason":"unavailable","status_code":503,"latency_ms":12.6}]}`),
		"GET /v1/tenants/default/deliveries/dlv_1":          always(200, `{"id":"dlv_1"}`),
		"POST /v1/tenants/default/deliveries/dlv_1/retry":   always(202, `{"id":"dlv_1"}`),
		"GET /v1/keys":          always(200, `{"data":[{"id":"key_1","prefix":"bw_abc","scope":"admin","name":"n","last_used_at":null}]}`),
		"POST /v1/keys":         always(201, `{"id":"key_2","key":"bw_new"}`),
		"DELETE /v1/keys/key_1": always(204, ""),
		"POST /v1/tenants":      always(201, `{"id":"ten_1"}`),
		"GET /readyz":           always(503, `{"status":"failing","reasons":["store does not answer"]}`),
		"GET /livez":            always(200, ``),
	})
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"dead":     {[]string{"dead", "list"}, 0, "ID     STATUS          ENDPOINT  TYPE  ATTEMPTS  LAST     DUE\ndlv_1  dead:exhausted  ep_1      a     8         timeout  –\n"},
		"attempts": {[]string{"deliveries", "attempts", "dlv_1"}, 0, "ID     NUMBER  KIND   STARTED  CLASS  REASON       STATUS  LATENCY  NEXT\natt_1  1       first  –        down   unavailable  503     13ms     –\n"},
		"get":      {[]string{"deliveries", "get", "dlv_1"}, 0, "{\n  \"id\": \"dlv_1\"\n}\n"},
		"retry":    {[]string{"deliveries", "retry", "dlv_1"}, 0, "dlv_1 will be sent\n"},
		"keys":     {[]string{"keys", "list"}, 0, "ID     PREFIX  SCOPE  TENANT  NAME  LAST-USED  EXPIRES\nkey_1  bw_abc  admin  –       n     –          –\n"},
		"key":      {[]string{"keys", "create", "--scope=admin"}, 0, "bw_new\n"},
		"revoke":   {[]string{"keys", "revoke", "key_1"}, 0, "key_1 revoked\n"},
		"tenant":   {[]string{"tenants", "create", "--uid=u"}, 0, "ten_1\n"},
		"alive":    {[]string{"health"}, 0, "ok\n"},
		"unready":  {[]string{"health", "--ready"}, 6, ""},
		"json":     {[]string{"dead", "list", "--json"}, 0, `{"data":[{"id":"dlv_1","status":"dead","reason":"exhausted","endpoint":"ep_1","type":"a","attempts":8,"last":{"status_code":0,"reason":"timeout"}}],"next_cursor":null}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := s.run(tc.args...)
			if got.code != tc.code || got.stdout != tc.want {
				t.Errorf("exit %d, want %d; stdout\n%s\nwant\n%s(%s)", got.code, tc.code, got.stdout, tc.want, got.stderr)
			}
		})
	}
}

func TestKeyScopes(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{"POST /v1/keys": always(201, `{"id":"key_2","key":"bw_new"}`)})
	s.run("--tenant=acme", "keys", "create", "--scope=tenant:send", "--name=n", "--expires=2030-01-02T03:04:05Z")
	if want := `{"name":"n","scope":"tenant:send","tenant":"acme","expires_at":"2030-01-02T03:04:05Z"}`; s.got[0].Body != want {
		t.Errorf("sent %s, want %s", s.got[0].Body, want)
	}
	s.run("keys", "create", "--scope=admin:read", "--name=n")
	if want := `{"name":"n","scope":"admin:read"}`; s.got[1].Body != want {
		t.Errorf("sent %s, want %s", s.got[1].Body, want)
	}
}

func TestConfigPrint(t *testing.T) {
	t.Parallel()
	got := runWith([]string{"BREAKWATER_ADMIN_KEY=bw_" + strings.Repeat("x", 51)}, "", "config", "print", "--json", "--store-batch=7")
	var settings []struct{ Key, Value, Origin string }
	if err := json.Unmarshal([]byte(got.stdout), &settings); err != nil || got.code != 0 {
		t.Fatalf("exit %d: %v (%s)", got.code, err, got.stderr)
	}
	shown := map[string]string{}
	for _, s := range settings {
		shown[s.Key] = s.Value + " " + s.Origin
	}
	if shown["admin_key"] != "*** BREAKWATER_ADMIN_KEY" || shown["store.batch"] != "7 --store-batch" {
		t.Errorf("admin_key %q, store.batch %q", shown["admin_key"], shown["store.batch"])
	}
	if strings.Contains(got.stdout, "xxxxx") {
		t.Error("config print shows a secret")
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	stdin, hold := io.Pipe() // a command that is stuck
	defer hold.Close()
	signals, exited := make(chan os.Signal, 2), make(chan int, 1)
	signals <- os.Interrupt
	signals <- os.Interrupt
	go cli.Run(cli.Host{
		Args: []string{"send", "a", "-d", "-"}, Stdin: stdin, Stdout: io.Discard, Stderr: io.Discard,
		Signals: signals, Exit: func(code int) { exited <- code },
	})
	select {
	case code := <-exited:
		if code != 130 {
			t.Errorf("exit %d, want 130", code)
		}
	case <-time.After(time.Minute):
		t.Error("the second signal was ignored")
	}
}
