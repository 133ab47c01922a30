package receiver_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	sender "github.com/breakwaterhq/breakwater/internal/sign"
	"github.com/breakwaterhq/breakwater/test/program"
)

// snippet is a program in docs/receiving.md.
type snippet struct {
	heading string   // of the section it is in
	needs   string   // the program that runs it
	port    string   // that it has in the document
	files   []string // what its code blocks are, in their order
	command []string // PORT stands for the port that it gets here
}

var snippets = map[string]snippet{
	"go":           {"Go", "go", "9006", []string{"main.go"}, []string{"./main"}},
	"go signature": {"Go, the signature only", "go", "9003", []string{"main.go"}, []string{"./main"}},
	"go, official": {"Go, with the official library", "go", "9004", []string{"main.go"}, []string{"./main"}},
	"node":         {"Node.js", "node", "9001", []string{"verify.mjs", "server.mjs"}, []string{"node", "server.mjs"}},
	"python":       {"Python", "python3", "9002", []string{"verify.py", "server.py"}, []string{"python3", "server.py"}},
	"php":          {"PHP", "php", "9005", []string{"verify.php", "hook.php"}, []string{"php", "-S", "127.0.0.1:PORT", "hook.php"}},
}

var codeBlock = regexp.MustCompile("(?ms)^```(go|js|python|php)\n(.*?)^```$")

// TestSnippets runs every program of docs/receiving.md against the signer that
// signs deliveries. Without its language a program is not tested, or the test fails in CI.
func TestSnippets(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: starts processes")
	}
	page, err := os.ReadFile("../docs/receiving.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for name, s := range snippets {
		blocks := s.blocks(t, string(page))
		found += len(blocks)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(s.needs); err != nil {
				missing(t, s.needs)
			}
			url := s.start(t, blocks)
			for what, r := range signedRequests(t) {
				if got := r.send(t, url); (got/100 == 2) != r.good || !r.good && got != http.StatusUnauthorized {
					t.Errorf("%s: answer %d, want 2xx %v, else 401", what, got, r.good)
				}
			}
		})
	}
	if all := len(codeBlock.FindAllString(string(page), -1)); all != found {
		t.Errorf("docs/receiving.md has %d blocks of code, of which %d are run", all, found)
	}
}

func missing(t *testing.T, tool string) {
	t.Helper()
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		t.Fatalf("%s is not installed: scripts/install-%s does it where it may", tool, tool)
	}
	t.Skipf("NOT TESTED: %s is not installed", tool)
}

// blocks returns the code of the section.
func (s *snippet) blocks(t *testing.T, page string) []string {
	t.Helper()
	_, section, ok := strings.Cut(page, "\n### "+s.heading+"\n")
	section, _, _ = strings.Cut(section, "\n##")
	var out []string
	for _, m := range codeBlock.FindAllStringSubmatch(section, -1) {
		out = append(out, m[2])
	}
	if !ok || len(out) != len(s.files) || !strings.Contains(section, s.port) {
		t.Fatalf("section %q: found %v, %d blocks, want %d and port %s", s.heading, ok, len(out), len(s.files), s.port)
	}
	return out
}

// start runs the program on a free port and returns its address.
func (s *snippet) start(t *testing.T, blocks []string) string {
	t.Helper()
	dir, port := t.TempDir(), strings.TrimPrefix(program.Address(), "127.0.0.1:")
	for i, file := range s.files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(strings.ReplaceAll(blocks[i], s.port, port)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s.needs == "go" { // from here, so that imports are those of this module
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "main"), filepath.Join(dir, "main.go"))
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	startProgram(t, dir, port, strings.Split(strings.ReplaceAll(strings.Join(s.command, "\n"), "PORT", port), "\n")...)
	return "http://127.0.0.1:" + port + "/hook"
}

// startProgram runs a server until the test ends, and returns when it listens.
func startProgram(t *testing.T, dir, port string, command ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, command[0], command[1:]...)
	server.Dir, server.Env = dir, append(os.Environ(), "WEBHOOK_SECRET="+keyA)
	var output bytes.Buffer
	server.Stdout, server.Stderr = &output, &output
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	t.Cleanup(func() {
		cancel()
		<-ended
		if t.Failed() {
			t.Logf("%v wrote:\n%s", command, output.String())
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			conn.Close()
			return server
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%v ended: %v", command, err)
		default:
		}
	}
	t.Fatalf("%v does not listen", command)
	return nil
}

// outbound is a request as Breakwater sends it.
type outbound struct {
	header http.Header
	body   string
	good   bool
}

func (r *outbound) send(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = r.header.Clone()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// signNow signs with the product's signer.
func signNow(t *testing.T, id string, at time.Time, payload string, keys ...string) *outbound {
	t.Helper()
	var secrets []sender.Secret
	for _, key := range keys {
		secret, err := sender.ParseSecret(key)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, secret)
	}
	signer, err := sender.NewSigner([]hook.Signature{{Scheme: hook.SchemeStandard}}, secrets)
	if err != nil {
		t.Fatal(err)
	}
	r := &outbound{header: http.Header{"Content-Type": {"application/json"}}, body: payload, good: true}
	signer.Sign(r.header.Set, id, at, []byte(payload))
	return r
}

// signedRequests are good and bad ones.
func signedRequests(t *testing.T) map[string]*outbound {
	t.Helper()
	now := time.Now()
	all := map[string]*outbound{
		"right":                 signNow(t, "evt_1", now, body, keyA),
		"again":                 signNow(t, "evt_1", now, body, keyA),
		"rotation, new first":   signNow(t, "evt_2", now, body, keyB, keyA),
		"rotation, old first":   signNow(t, "evt_3", now, body, keyA, keyB),
		"empty body":            signNow(t, "evt_4", now, "", keyA),
		"not JSON, not ASCII":   signNow(t, "evt_5", now, "{\"a\":\"hé\"}\n", keyA),
		"four minutes old":      signNow(t, "evt_6", now.Add(-4*time.Minute), body, keyA),
		"another secret":        signNow(t, "evt_7", now, body, keyB),
		"ten minutes old":       signNow(t, "evt_8", now.Add(-10*time.Minute), body, keyA),
		"ten minutes ahead":     signNow(t, "evt_9", now.Add(10*time.Minute), body, keyA),
		"body altered":          signNow(t, "evt_10", now, body, keyA),
		"id altered":            signNow(t, "evt_11", now, body, keyA),
		"no signature":          signNow(t, "evt_12", now, body, keyA),
		"nothing but a version": signNow(t, "evt_13", now, body, keyA),
		"no id":                 signNow(t, "evt_14", now, body, keyA),
		"timestamp not ASCII":   signNow(t, "evt_15", now, body, keyA),
		"another version":       signNow(t, "evt_16", now, body, keyA),
	}
	for name, r := range all {
		switch r.good = false; name {
		case "body altered":
			r.body = strings.Replace(r.body, "4200", "4201", 1)
		case "id altered":
			r.header.Set("webhook-id", "evt_99")
		case "no signature":
			r.header.Del("webhook-signature")
		case "nothing but a version":
			r.header.Set("webhook-signature", "v1, v1,")
		case "no id":
			r.header.Del("webhook-id")
		case "timestamp not ASCII":
			r.header.Set("webhook-timestamp", fmt.Sprint(now.Unix(), "\xb2"))
		case "another version":
			r.header.Set("webhook-signature", strings.Replace(r.header.Get("webhook-signature"), "v1,", "v9,", 1))
		case "another secret", "ten minutes old", "ten minutes ahead":
		default:
			r.good = true
		}
	}
	return all
}
