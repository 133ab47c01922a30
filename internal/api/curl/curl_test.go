package curl_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/api/curl"
)

// fake stands for curl: it writes down its arguments, and what it is given to read
// when it is told to.
const fake = `#!/bin/sh
for a; do printf '%s\0' "$a" >> "$OUT/args"; done
case "$*" in *'--data-binary @-') cat > "$OUT/stdin";; esac
`

// run gives a command to a shell and returns what curl would have got.
func run(t testing.TB, command string) (args []string, stdin []byte) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "curl"), []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte(command), 0o600); err != nil {
		t.Fatal(err)
	}
	sh := exec.CommandContext(t.Context(), "sh", script)
	sh.Dir, sh.Env = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "OUT=" + dir}
	if out, err := sh.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s\n%s", err, out, command)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if base := filepath.Base(name); !slices.Contains([]string{"args", "curl", "script", "stdin"}, base) {
			t.Fatalf("the command made %s", base)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "args"))
	if err != nil {
		t.Fatal(err)
	}
	stdin, _ = os.ReadFile(filepath.Join(dir, "stdin")) // not there: nothing was read
	return strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00"), stdin
}

// check runs the command of a request and compares what curl gets.
func check(t testing.TB, url, value string, body []byte) {
	t.Helper()
	command := curl.Command(&curl.Request{URL: url, Header: []curl.Field{{"Content-Type", value}}, Body: body})
	for _, r := range command {
		if r != '\n' && (r < ' ' || r == 0x7f) {
			t.Fatalf("the command holds %q", r)
		}
	}
	args, stdin := run(t, command)
	if len(args) != 10 || strings.Join(args[:5], " ") != "-sS -i -X POST --globoff" || args[6] != "-H" || !strings.HasPrefix(args[7], "Content-Type: ") {
		t.Fatalf("arguments %q", args)
	}
	switch args[8] {
	case "--data-raw":
		if args[9] != string(body) {
			t.Fatalf("body %q, want %q", args[9], body)
		}
	case "--data-binary":
		if args[9] != "@-" || !bytes.Equal(stdin, body) {
			t.Fatalf("body %q by %q, want %q", stdin, args[9], body)
		}
	default:
		t.Fatalf("arguments %q", args)
	}
}

var bodies = []string{
	`{"a":"b"}`, "", "'", `'; touch pwned; '`, "`touch pwned`", "$(touch pwned)", `\`, `\'`, `'\''`, "@/etc/passwd", "@-", "a\nb\n", "\n", "-", "--", "!!", "%s%n",
	"a\x00b", "\x1b[201~touch pwned\n", "\xff\xfe", "\r\n", "\t", "\u202egnp", "é漢😀", "\u0085", "*", "~", "<(x)", `"`, "EOF", strings.Repeat("x", 200_000),
}

func TestCommandsSendTheBodyAsItIs(t *testing.T) {
	t.Parallel()
	for _, body := range bodies {
		check(t, "https://example.com/hook?a=[1-9]&b={x,y}'", "text/plain; a='b'", []byte(body))
	}
}

func TestCommandOfATextIsReadable(t *testing.T) {
	t.Parallel()
	got := curl.Command(&curl.Request{
		URL: "https://example.com/hook", Header: []curl.Field{{"Content-Type", "application/json"}, {"Webhook-Id", "evt_1"}}, Body: []byte(`{"it's":1}`),
	})
	want := `curl -sS -i -X POST --globoff 'https://example.com/hook' \
  -H 'Content-Type: application/json' \
  -H 'Webhook-Id: evt_1' \
  --data-raw '{"it'\''s":1}'
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func FuzzCommand(f *testing.F) {
	for _, body := range bodies {
		f.Add("https://example.com/"+body[:min(len(body), 50)], body[:min(len(body), 50)], []byte(body))
	}
	f.Fuzz(func(t *testing.T, url, value string, body []byte) {
		if len(url)+len(value) > 10_000 || len(body) > 500_000 {
			return
		}
		check(t, url, value, body)
	})
}
