package transfer_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/cli"
)

type result struct {
	code           int
	stdout, stderr string
}

// host is a server and the command line that talks to it.
type host struct {
	t       *testing.T
	environ []string
}

func (h *host) run(stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := cli.Run(cli.Host{
		Args: args, Environ: h.environ, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Signals: make(chan os.Signal),
	})
	return result{code, stdout.String(), stderr.String()}
}

// must runs a command that has to work and returns what it printed.
func (h *host) must(stdin string, args ...string) string {
	h.t.Helper()
	got := h.run(stdin, args...)
	if got.code != 0 {
		h.t.Fatalf("%v: exit %d\n%s%s\n%s", args, got.code, got.stdout, got.stderr, stdin)
	}
	return got.stdout
}

var listening = regexp.MustCompile(`listening on (http://127\.0\.0\.1:\d+)`)

// serve starts a server that ends with the test.
func serve(t *testing.T) *host {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	stdout, greeting := io.Pipe()
	signals, done := make(chan os.Signal, 2), make(chan int, 1)
	var log bytes.Buffer
	go func() {
		code := cli.Run(cli.Host{
			Args:   []string{"serve", "--dev", "--listen=127.0.0.1:0", "--data-dir=" + dir},
			Stdout: greeting, Stderr: &log, Signals: signals,
		})
		greeting.Close()
		done <- code
	}()
	t.Cleanup(func() {
		signals <- os.Interrupt
		if code := <-done; code != 0 || t.Failed() {
			t.Logf("the server ended with %d:\n%s", code, &log)
		}
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if url := listening.FindStringSubmatch(lines.Text()); url != nil {
			go func() { _, _ = io.Copy(io.Discard, stdout) }()
			h := &host{t, []string{"BREAKWATER_URL=" + url[1], "BREAKWATER_DATA_DIR=" + dir}}
			h.await()
			return h
		}
	}
	t.Fatal("the server did not start")
	return nil
}

func (h *host) await() {
	h.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got := h.run("", "health", "--ready")
		if got.code == 0 {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("not ready: %s", got.stderr)
		}
	}
}

// draw makes a configuration up.
type draw struct{ *rand.Rand }

func (d draw) pick(from ...string) string { return from[d.IntN(len(from))] }

func (d draw) maybe(line string) string {
	if d.IntN(2) == 0 {
		return ""
	}
	return line
}

// words are texts that YAML could mistake for something else.
func (d draw) words() string {
	return d.pick(`"a"`, `"yes"`, `"1e3"`, `"null"`, `"~"`, `"# no comment"`, `"a: b"`, `" x "`, `"*"`, `"0x10"`, `"2026-11-18"`, `"ä ☃ \"q\" 'q'"`, `"- a"`, `"{}"`, `"***x"`, `"two  spaces"`)
}

func (d draw) document() string {
	var b strings.Builder
	b.WriteString("version: 1\npolicies:\n")
	policies := []string{"default"}
	for i := range d.IntN(3) {
		fmt.Fprintf(&b, "  - name: policy-%d\n    policy: {preset: %s%s}\n%s", i, d.pick("default", "full-5", "quick"),
			d.maybe(fmt.Sprintf(", retry: {max_attempts: %d}", 2+d.IntN(9))), d.maybe("    description: "+d.words()+"\n"))
		policies = append(policies, fmt.Sprint("policy-", i))
	}
	b.WriteString("tenants:\n  - uid: default\n")
	tenants := []string{"default"}
	for i := range d.IntN(3) {
		uid := fmt.Sprint("tenant.", i)
		tenants = append(tenants, uid)
		fmt.Fprintf(&b, "  - uid: %s\n    name: %s\n%s%s%s    endpoints:\n", uid, d.words(),
			d.maybe("    policy: {preset: "+d.pick(policies...)+"}\n"),
			d.maybe(fmt.Sprintf("    limits: {max_pending: %d, events_per_second: %g}\n", d.IntN(1000), d.Float64()*10)),
			d.maybe("    metadata: {a: "+d.words()+", b: "+d.words()+"}\n"))
		for j := range d.IntN(4) {
			fmt.Fprintf(&b, "      - uid: ep-%d\n        url: http://127.0.0.1:%d/hook?a=b\n", j, 9000+d.IntN(100))
			for _, line := range []string{
				"description: " + d.words(), "types: [order.*, " + d.pick("a.b", "c") + "]", "policy: {preset: " + d.pick(policies...) + "}",
				"signatures: [{scheme: standard}, {scheme: stripe, header: X-Sig}]", "body: " + d.pick("envelope", "slack", "cloudevents"), "filter: 'payload.total > 100'", "trace_context: forward",
				"headers: {X-One: one, X-Two: " + d.pick("two", "2.0") + "x}", "metadata: {k: " + d.words() + "}", "status: " + d.pick("active", "paused", "disabled"),
			} {
				b.WriteString(d.maybe("        " + line + "\n"))
			}
		}
		b.WriteString("    event_types:\n")
		for j := range d.IntN(3) {
			fmt.Fprintf(&b, "      - type: order.t%d\n", j)
			schema, example := d.pick("true", "{type: object, properties: {a: {enum: [null, 1, '1']}}}", "{type: object, additionalProperties: {}}"), d.pick("{a: null}", "{}", "{a: 1}")
			for _, line := range []string{"description: " + d.words(), "schema: " + schema, "example: " + example} {
				b.WriteString(d.maybe("        " + line + "\n"))
			}
		}
	}
	b.WriteString("alert_channels:\n")
	for i := range d.IntN(3) {
		fmt.Fprintf(&b, "  - name: channel %d by %s%s%s", i, d.pick(
			"chat\n    kind: slack\n    url: https://chat.example.com/hooks/secret\n",
			"webhook\n    kind: webhook\n    url: http://127.0.0.1:9999/alerts\n    headers: {X-A: b}\n    operational_events: ['storm.*']\n",
			"mail\n    kind: email\n    to: [ops@example.com]\n"),
			d.maybe("    tenant: "+d.pick(tenants...)+"\n"), d.maybe("    min_severity: page\n    send_resolved: false\n    rules: [retry_storm]\n"))
	}
	return b.String()
}

// fillIn puts values where an export has none: headers, and the path of a chat's URL.
var fillIn = strings.NewReplacer("***'\n", "v'\n", "/***\n", "/v\n")

// TestExportedConfigurationComesBack: what one server exports makes another one the
// same, whatever that had before, and a second time there is nothing to do.
func TestExportedConfigurationComesBack(t *testing.T) {
	t.Parallel()
	first, second := serve(t), serve(t)
	for seed := range uint64(8) {
		made := draw{rand.New(rand.NewPCG(seed, 17))}.document()
		first.must(made, "import", "-", "--prune", "--yes", "--with-secrets")
		exported := first.must("", "export")
		again := first.must(exported, "import", "-", "--prune", "--yes")
		if again != "+0 ~0 -0\n" {
			t.Fatalf("seed %d: importing what was just exported changes\n%s%s", seed, again, exported)
		}
		// What is hidden has to be filled in by a person.
		second.must(fillIn.Replace(exported), "apply", "-", "--prune", "--yes", "--with-secrets", "--quiet")
		if diff := cmp.Diff(exported, second.must("", "export")); diff != "" {
			t.Fatalf("seed %d: the other server exports something else (-first +second):\n%s", seed, diff)
		}
	}
}

const small = `version: 1
tenants:
  - uid: acme
    endpoints:
      - uid: orders
        url: http://127.0.0.1:9001/
        headers: {X-Key: one}
      - uid: bills
        url: http://127.0.0.1:9002/
`

// TestImport walks through what a person does with a file.
func TestImport(t *testing.T) {
	t.Parallel()
	h := serve(t)
	step := func(name, file string, code int, want string, args ...string) {
		t.Helper()
		got := h.run(file, append([]string{"import", "-"}, args...)...)
		if got.code != code || got.stdout != want {
			t.Fatalf("%s: exit %d, printed\n%s%swant exit %d and\n%s", name, got.code, got.stdout, got.stderr, code, want)
		}
	}
	const all = "+ tenant acme\n+ endpoint acme/orders\n+ endpoint acme/bills\n+3 ~0 -0\n"
	step("dry run", small, 0, all, "--dry-run")
	step("first run", small, 0, all)
	step("second run", small, 0, "+0 ~0 -0\n")
	step("hidden values", small, 0, "~ endpoint acme/orders: headers\n+0 ~1 -0\n", "--with-secrets")
	step("one header less, one more", strings.Replace(small, "X-Key: one", "X-Other: two", 1), 0, "~ endpoint acme/orders: headers\n+0 ~1 -0\n")
	step("a field that is left out", strings.Replace(small, "        headers: {X-Key: one}\n", "        description: d\n", 1), 0, "~ endpoint acme/orders: description, headers\n+0 ~1 -0\n")
	step("status", strings.Replace(small, "        headers: {X-Key: one}\n", "        status: paused\n", 1), 0, "~ endpoint acme/orders: description, status\n+0 ~1 -0\n")
	step("partly", strings.ReplaceAll(small, "headers: {X-Key: one}", "types: [a b]")+"      - uid: new\n        url: http://127.0.0.1:9003/\n", 7,
		"~ endpoint acme/orders: types\n+ endpoint acme/new\n+1 ~1 -0\n")
	less := "version: 1\ntenants:\n  - uid: default\n  - uid: acme\n    endpoints: [{uid: orders, url: 'http://127.0.0.1:9001/'}]\n"
	const gone = "- endpoint acme/new\n- endpoint acme/bills\n+0 ~0 -2\n"
	step("what the file lacks stays", less, 0, "+0 ~0 -0\n")
	step("prune asks", less, 2, gone, "--prune")
	step("prune, dry", less, 0, gone, "--prune", "--dry-run")
	step("prune", less, 0, gone, "--prune", "--yes")
	step("a section that is left out is left alone", "version: 1\ntenants: [{uid: default}, {uid: acme}]\n", 0, "+0 ~0 -0\n", "--prune", "--yes")
	step("the default tenant stays", "version: 1\ntenants: []\n", 0, "- endpoint acme/orders\n- tenant acme\n+0 ~0 -2\n", "--prune", "--yes")
}

// TestSecretsTravelWhenAsked: with --with-secrets an endpoint keeps its secrets on the
// way, without it none is in the file.
func TestSecretsTravelWhenAsked(t *testing.T) {
	t.Parallel()
	from, to := serve(t), serve(t)
	from.must("version: 1\ntenants: [{uid: acme, endpoints: [{uid: e, url: 'http://127.0.0.1:9001/', signatures: [{scheme: standard_ed25519}, {scheme: standard}]}]}]\n", "import", "-")
	if plain := from.must("", "export"); strings.Contains(plain, "whsec_") || strings.Contains(plain, "whsk_") {
		t.Errorf("secrets without --with-secrets:\n%s", plain)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	from.must("", "export", "--with-secrets", "--tenant", "acme", "-o", file)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	raw, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(raw), "whsec_") || !strings.Contains(string(raw), "whsk_") {
		t.Fatalf("%v:\n%s", err, raw)
	}
	to.must("", "import", file)
	if got := to.must("", "import", file); got != "+0 ~0 -0\n" {
		t.Errorf("second import: %s", got)
	}
	if got := to.must("", "export", "--with-secrets", "--tenant", "acme"); got != string(raw) {
		t.Errorf("the secrets changed on the way:\n%s\n%s", raw, got)
	}
	// A secret of the file that the endpoint does not have becomes its newest.
	changed := strings.Replace(string(raw), "whsec_", "whsec_AAAA", 1)
	if got := to.must(changed, "import", "-"); got != "~ endpoint acme/e: secrets\n+0 ~1 -0\n" {
		t.Errorf("another secret: %s", got)
	}
}

func TestEventsAndDeadLettersAsLines(t *testing.T) {
	t.Parallel()
	h := serve(t)
	h.must("version: 1\ntenants: [{uid: acme, endpoints: []}]\n", "import", "-")
	const n = 300 // more than a page
	h.must("", "send", "order.paid", "--tenant=acme", fmt.Sprint("--count=", n), `-d={"order":1}`, "--quiet")
	h.must("", "send", "other", `-d="x"`)
	for name, tc := range map[string]struct {
		args []string
		want int
	}{
		"all tenants":  {[]string{"--what=events"}, n + 1},
		"one tenant":   {[]string{"--what=events", "--tenant=acme"}, n},
		"the future":   {[]string{"--what=events", "--since=2100-01-01T00:00:00Z"}, 0},
		"dead letters": {[]string{"--what=dead", "--since=1h"}, 0},
	} {
		got := h.must("", append([]string{"export"}, tc.args...)...)
		if lines := strings.Count(got, "\n"); lines != tc.want {
			t.Errorf("%s: %d lines, want %d", name, lines, tc.want)
		}
		if tc.want > 1 && strings.Count(got, `"payload":{"order":1}`) != n {
			t.Errorf("%s: payloads are missing:\n%.500s", name, got)
		}
	}
}
