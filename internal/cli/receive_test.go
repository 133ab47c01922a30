package cli_test

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/cli"
	"github.com/breakwaterhq/breakwater/receiver"
)

const (
	goodSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	sentAt      = 1_700_000_000
)

func signed(body string) string {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(goodSecret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "evt_1.%d.%s", sentAt, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func TestVerify(t *testing.T) {
	t.Parallel()
	const body = `{"b":"<x>, y: \"z\"","a":1.0}`
	headers := fmt.Sprintf("webhook-id: evt_1\nWebhook-Timestamp: %d\r\nwebhook-signature: v1,AAAA %s\n", sentAt, signed(body))
	const wrote = "body differs: signature matches when the JSON is written in another way"
	for name, tc := range map[string]struct {
		secrets, headers, body string
		args                   []string
		code                   int
		want                   string
	}{
		"right":             {want: "ok, key 1 of 1\n"},
		"second key":        {secrets: otherSecret + "\n" + goodSecret + "\n", want: "ok, key 2 of 2\n"},
		"as JSON":           {headers: fmt.Sprintf(`{"webhook-id":"evt_1","webhook-timestamp":%d,"webhook-signature":[%q]}`, sentAt, signed(body)), code: 8, want: "timestamp must be Unix seconds"},
		"as JSON text":      {headers: fmt.Sprintf(`{"webhook-id":"evt_1","webhook-timestamp":"%d","webhook-signature":[%q]}`, sentAt, signed(body)), want: "ok"},
		"of curl":           {headers: "> POST /hook HTTP/1.1\n> " + strings.ReplaceAll(strings.TrimSpace(headers), "\n", "\n> ") + "\n>\n", want: "ok"},
		"document":          {args: []string{"--json"}, want: `{"id":"evt_1","key":1,"keys":1,"ok":true,"timestamp":"2023-11-14T22:13:20Z","type":""}`},
		"brief":             {args: []string{"--quiet"}, want: "ok\n"},
		"old":               {args: []string{"--at", fmt.Sprint(sentAt + 412)}, code: 8, want: "timestamp 412 s old (limit 300 s); the signature is right: for a request of that time use --at 2023-11-14T22:13:20Z"},
		"old and wrong":     {args: []string{"--at", fmt.Sprint(sentAt + 412)}, body: "x", code: 8, want: "timestamp 412 s old (limit 300 s); and no signature matches"},
		"old, allowed":      {args: []string{"--at", fmt.Sprint(sentAt + 412), "--tolerance", "10m"}, want: "ok"},
		"ahead":             {args: []string{"--at", "2023-11-14T22:00:00Z"}, code: 8, want: "timestamp 800 s ahead (limit 300 s): is the clock right?"},
		"no id":             {headers: "webhook-timestamp: 1\n", code: 8, want: "headers incomplete: webhook-id is missing"},
		"no signature":      {headers: "webhook-id: evt_1\n", code: 8, want: "headers incomplete: webhook-signature is missing"},
		"newline":           {body: body + "\n", code: 8, want: "body differs: signature matches with trailing newline removed\n"},
		"newline, document": {body: body + "\n", args: []string{"--json"}, code: 8, want: `{"detail":"body differs: signature matches with trailing newline removed","ok":false,"rule":"signature"}`},
		"white space":       {body: " " + body + "\n", code: 8, want: "body differs: signature matches with white space around it removed"},
		"mark":              {body: "\ufeff" + body, code: 8, want: "body differs: signature matches with the byte order mark removed"},
		"base64":            {body: base64.StdEncoding.EncodeToString([]byte(body)), code: 8, want: "body differs: signature matches with the body decoded from base64"},
		"indented":          {body: "{\n  \"b\": \"<x>, y: \\\"z\\\"\",\n  \"a\": 1.0\n}", code: 8, want: wrote},
		"one byte":          {body: strings.Replace(body, "1.0", "2.0", 1), code: 8, want: "signature differs: no secret of 1 fits these headers and 29 bytes of body"},
		"empty":             {body: "\x00", code: 8, want: "body differs: it is empty"},
		"wrong secret":      {secrets: otherSecret, code: 8, want: "signature differs: no secret of 1"},
		"needs public key":  {headers: strings.ReplaceAll(headers, "v1,", "v1a,"), code: 8, want: "signature differs: it is of version v1a, which needs the public key"},
		"needs secret":      {secrets: "whpk_" + base64.StdEncoding.EncodeToString(make([]byte, 32)), code: 8, want: "signature differs: it is of version v1, which needs the secret"},
		"no version":        {headers: strings.ReplaceAll(headers, "v1,", ""), code: 8, want: "signature differs: webhook-signature must hold v1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := func(name, text, otherwise string) string {
				path := filepath.Join(dir, name)
				if text == "" {
					text = otherwise
				}
				if err := os.WriteFile(path, []byte(strings.TrimSuffix(text, "\x00")), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			args := []string{
				"verify", "--secret-file", file("s", tc.secrets, goodSecret), "--headers", file("h", tc.headers, headers), "--body", file("b", tc.body, body), "--at", fmt.Sprint(sentAt + 1),
			}
			got := runWith(nil, "", append(args, tc.args...)...)
			if got.code != tc.code || !strings.HasPrefix(got.stdout, tc.want) || got.stderr != "" {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d and %q", got.code, got.stdout, got.stderr, tc.code, tc.want)
			}
		})
	}
	// A body that was sent indented, and written anew by what parsed it.
	for name, was := range map[string]string{
		"compact": `{"a":"x, y: z","b":[1,2]}`, "spaced": `{"a": "x, y: z", "b": [1, 2]}`, "indented": "{\n  \"a\": \"x, y: z\",\n  \"b\": [\n    1,\n    2\n  ]\n}",
		"escaped": `{"a":"\u003cx\u003e"}`,
	} {
		dir := t.TempDir()
		var value any
		if err := json.Unmarshal([]byte(was), &value); err != nil {
			t.Fatal(err)
		}
		anew, _ := json.MarshalIndent(value, "", " ")
		if name == "escaped" {
			anew = []byte(`{ "a":"<x>" }`)
		}
		for file, text := range map[string]string{
			"s": goodSecret, "b": string(anew), "h": fmt.Sprintf("webhook-id: evt_1\nwebhook-timestamp: %d\nwebhook-signature: %s\n", sentAt, signed(was)),
		} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := runWith(nil, "", "verify", "--secret-file", dir+"/s", "--headers", dir+"/h", "--body", dir+"/b", "--at", fmt.Sprint(sentAt))
		if got.code != 8 || !strings.HasPrefix(got.stdout, wrote) {
			t.Errorf("%s: exit %d, %s%s", name, got.code, got.stdout, got.stderr)
		}
	}
}

// TestListen: events reach a server of one's own with a signature that its library
// takes, with a key that may only read.
func TestListen(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	key := strings.TrimSpace(l.run(0, "keys", "create", "--scope", "tenant:read").stdout)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := append([]string{"XDG_CONFIG_HOME=" + dir, "BREAKWATER_API_KEY_FILE=" + dir + "/key"}, l.environ...)

	// The first event is there before anybody listens.
	l.run(0, "send", "order.made", "-d", `{"order": 41}`)
	l.run(0, "send", "user.made")
	type arrival struct {
		path, kind, body string
		header           http.Header
	}
	arrivals := make(chan arrival, 100)
	var status atomic.Int32
	status.Store(204)
	mine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrivals <- arrival{r.URL.Path, r.Header.Get("Webhook-Type"), string(body), r.Header}
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(mine.Close)
	port := mine.URL[strings.LastIndex(mine.URL, ":")+1:]

	signals, ended := make(chan os.Signal, 1), make(chan int, 1)
	out, err := &heard{}, &heard{}
	go func() {
		ended <- cli.Run(cli.Host{
			Args: []string{"listen", port, "--path", "/hook", "--types", "order.*", "--last", "5"}, Environ: environ, Stdout: out, Stderr: err, Signals: signals,
		})
	}()
	out.await(t, "order.made")
	status.Store(500)
	l.run(0, "send", "user.made")
	l.run(0, "send", "order.paid", "-d", `{"order":42}`)
	out.await(t, "→ order.paid 500 ")
	l.run(0, "send", "order.text", "-d", "hi", "--content-type", "text/plain")
	out.await(t, "→ order.text ")
	mine.Close()
	l.run(0, "send", "order.lost")
	out.await(t, "→ order.lost refused ")
	err.await(t, "nothing listens at 127.0.0.1:"+port+": start your server")
	signals <- os.Interrupt
	if code := <-ended; code != 130 {
		t.Errorf("ended with %d: %s", code, err)
	}
	shows(t, out.String(), `^secret whsec_\S+\n→ order\.made 204 \d+ms evt_\w+\n→ order\.paid 500 \d+ms evt_\w+\n→ order\.text 500 \d+ms evt_\w+\n→ order\.lost refused \d+ms evt_\w+\n$`)

	secret := strings.TrimPrefix(strings.SplitN(out.String(), "\n", 2)[0], "secret ")
	v, failed := receiver.New(receiver.Config{Secrets: []string{secret}, Tolerance: time.Hour})
	if failed != nil {
		t.Fatal(failed)
	}
	for _, want := range []arrival{{kind: "order.made", body: `{"order": 41}`}, {kind: "order.paid", body: `{"order":42}`}, {kind: "order.text", body: "hi"}} {
		a := <-arrivals
		if _, err := v.Verify(a.header, []byte(a.body)); err != nil || a.path != "/hook" || a.kind != want.kind || a.body != want.body {
			t.Errorf("%s %s %q: %v, want %s %q", a.path, a.kind, a.body, err, want.kind, want.body)
		}
	}
	if len(arrivals) > 0 {
		t.Errorf("it was sent %d more", len(arrivals))
	}

	// The secret stays the same, and is nobody else's.
	file := filepath.Join(dir, "breakwater", "listen.secret")
	info, failed := os.Stat(file)
	kept, _ := os.ReadFile(file)
	if failed != nil || info.Mode().Perm() != 0o600 || strings.TrimSpace(string(kept)) != secret {
		t.Errorf("%s: %v, %q, want %q", file, failed, kept, secret)
	}
	reader, writer := io.Pipe()
	go func() {
		ended <- cli.Run(cli.Host{Args: []string{"listen", "http://127.0.0.1:1/x", "--json"}, Environ: environ, Stdout: writer, Stderr: err, Signals: signals})
	}()
	line, _ := bufio.NewReader(reader).ReadString('\n')
	if line != fmt.Sprintf(`{"secret":%q,"url":"http://127.0.0.1:1/x"}`+"\n", secret) {
		t.Errorf("the second time: %s", line)
	}
	signals <- os.Interrupt
	if code := <-ended; code != 130 {
		t.Errorf("ended with %d", code)
	}
}
