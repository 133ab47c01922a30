package sign_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/sign"
)

// foreign is a request that we signed, in the hands of somebody else's library.
type foreign struct {
	Name   string            `json:"name"`
	Secret string            `json:"secret"` // what the receiver verifies with
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`
	OK     bool              `json:"ok"`
}

// foreignRequests are signed now: the libraries look at the clock.
func foreignRequests(t *testing.T) []foreign {
	t.Helper()
	now := time.Now()
	a, b, pair := parse(t, keyA), parse(t, keyB), parse(t, pairE)
	all := []hook.Signature{standard, ed25519, stripe}
	request := func(name string, secret, body string, ok bool, at time.Time, signatures []hook.Signature, secrets ...sign.Secret) foreign {
		h := http.Header{}
		newSigner(t, signatures, secrets...).Sign(h.Set, vectorID, at, []byte(body))
		flat := map[string]string{}
		for key := range h {
			flat[strings.ToLower(key)] = h.Get(key)
		}
		return foreign{name, secret, flat, body, ok}
	}
	only := []hook.Signature{standard}

	requests := []foreign{
		request("good", keyA, body1, true, now, only, a),
		request("good, empty body", keyA, "", true, now, only, a),
		request("good, UTF-8", keyA, body3, true, now, only, a),
		request("rotation, receiver has the old key", keyA, body1, true, now, only, b, a),
		request("rotation, receiver has the new key", keyB, body1, true, now, only, b, a),
		request("among other schemes", keyA, body1, true, now, all, a, pair),
		request("almost too old", keyA, body1, true, now.Add(-4*time.Minute), only, a),
		request("too old", keyA, body1, false, now.Add(-6*time.Minute), only, a),
		request("another key", keyB, body1, false, now, only, a),
		request("v1a only", keyA, body1, false, now, []hook.Signature{ed25519}, pair),
	}
	tamper := func(name string, change func(*foreign)) {
		r := request(name, keyA, body1, false, now, only, a)
		change(&r)
		requests = append(requests, r)
	}
	tamper("body altered", func(r *foreign) { r.Body = strings.Replace(body1, "4200", "4201", 1) })
	tamper("id altered", func(r *foreign) { r.Header["webhook-id"] += "X" })
	tamper("timestamp altered", func(r *foreign) { r.Header["webhook-timestamp"] = strconv.FormatInt(now.Unix()+1, 10) })
	tamper("signature altered", func(r *foreign) {
		r.Header["webhook-signature"] = "v1," + otherFirst(strings.TrimPrefix(r.Header["webhook-signature"], "v1,"))
	})
	return requests
}

// otherFirst changes the first character, whatever it is: the time signed
// decides, and one signature in 64 begins with any given one.
func otherFirst(base64 string) string {
	if base64[0] == 'A' {
		return "B" + base64[1:]
	}
	return "A" + base64[1:]
}

func TestOfficialGoLibraryAgrees(t *testing.T) {
	t.Parallel()
	for _, r := range foreignRequests(t) {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			wh, err := standardwebhooks.NewWebhook(r.Secret)
			if err != nil {
				t.Fatal(err)
			}
			h := http.Header{}
			for name, value := range r.Header {
				h.Set(name, value)
			}
			if err := wh.Verify([]byte(r.Body), h); (err == nil) != r.OK {
				t.Errorf("Verify = %v, want ok %v", err, r.OK)
			}
		})
	}
}

// npmPackage is the official JavaScript library.
const npmPackage = "standardwebhooks@1.1.1"

// verifyJS prints one line of JSON for each request: its name and the verdict.
const verifyJS = `
const { Webhook } = require("standardwebhooks");
const requests = JSON.parse(require("fs").readFileSync(0, "utf8"));
const verdicts = requests.map((r) => {
  try {
    new Webhook(r.secret).verify(r.body, r.header);
    return "";
  } catch (err) {
    return String(err.message) || "failed";
  }
});
process.stdout.write(JSON.stringify(verdicts));
`

func TestOfficialJavaScriptLibraryAgrees(t *testing.T) {
	t.Parallel()
	dir := installNPM(t)
	requests := foreignRequests(t)
	input, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "verify.js")
	if err := os.WriteFile(script, []byte(verifyJS), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	node := exec.CommandContext(ctx, "node", script)
	node.Dir, node.Stdin = dir, bytes.NewReader(input)
	var stderr bytes.Buffer
	node.Stderr = &stderr
	output, err := node.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, stderr.String())
	}
	var verdicts []string
	if err := json.Unmarshal(output, &verdicts); err != nil || len(verdicts) != len(requests) {
		t.Fatalf("node answered %q: %v", output, err)
	}
	for i, r := range requests {
		if (verdicts[i] == "") != r.OK {
			t.Errorf("%s: JavaScript says %q, want ok %v", r.Name, verdicts[i], r.OK)
		}
	}
}

// installNPM puts the package into a directory of its own. Without Node or the
// package the test is skipped, or failed in CI and with BREAKWATER_REQUIRE_NODE=1.
func installNPM(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: starts processes")
	}
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			withoutNode(t, tool+" is not installed")
		}
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "install", npmPackage, "--prefix", dir,
		"--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--fetch-retries", "0")
	npm.Dir = dir
	npm.WaitDelay = time.Second
	if output, err := npm.CombinedOutput(); err != nil {
		withoutNode(t, fmt.Sprintf("npm cannot install %s: %v\n%s", npmPackage, err, output))
	}
	return dir
}

func withoutNode(t *testing.T, why string) {
	t.Helper()
	ci, _ := strconv.ParseBool(os.Getenv("CI"))
	if os.Getenv("BREAKWATER_REQUIRE_NODE") == "1" || ci {
		t.Fatalf("the JavaScript library must be checked here, but %s", why)
	}
	t.Skipf("NOT VERIFIED with the JavaScript library: %s", why)
}
