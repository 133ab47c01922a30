package cli_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/cli"
)

// TestSinkFlagsAreDocumented: the page about the sink names every flag that
// --help shows, and none that does not exist.
func TestSinkFlagsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/sink.md")
	if err != nil {
		t.Fatal(err)
	}
	help := runWith(nil, "", "sink", "--help").stdout
	own, _, _ := strings.Cut(help, "Global Flags:")
	_, own, _ = strings.Cut(own, "\nFlags:")
	flags := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`).FindAllStringSubmatch(own, -1) {
		flags[m[1]] = true
	}
	if len(flags) < 25 {
		t.Fatalf("only %d flags in:\n%s", len(flags), help)
	}
	table := regexp.MustCompile("(?m)^\\| `--([\\w-]+)`").FindAllStringSubmatch(string(page), -1)
	documented := map[string]bool{"help": true}
	for _, m := range table {
		documented[m[1]] = true
		if !flags[m[1]] {
			t.Errorf("docs/sink.md has a row for --%s, which does not exist", m[1])
		}
	}
	for name := range flags {
		if !documented[name] {
			t.Errorf("docs/sink.md has no row for --%s", name)
		}
	}
}

// TestSinkTellsOfEachRequest: what arrived is seen at once, and counts alone with
// --quiet.
func TestSinkTellsOfEachRequest(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--secret=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": `(?m)^\d\d:\d\d:\d\d\.\d{3} \d{3} "/a/b" order\.paid evt_1 signature bad attempt 3$`,
		"--quiet": `(?m)^\d\d:\d\d:\d\d in 1 ok 1 fail 0`,
		"--json":  `(?m)^\{"t":.*"webhook_id":"evt_1","attempt":3,"type":"order\.paid","path":"/a/b","status":200,.*\}$`,
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			signals, out, told, ended := make(chan os.Signal, 1), &heard{}, &heard{}, make(chan int, 1)
			go func() {
				ended <- cli.Run(cli.Host{Args: []string{"sink", "--listen=127.0.0.1:0", flag}, Stdout: out, Stderr: told, Signals: signals})
			}()
			told.await(t, "listening on http://")
			url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(told.String())
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/a/b", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Webhook-Id": {"evt_1"}, "Breakwater-Attempt": {"3"}, "Breakwater-Type": {"order.paid"}, "Webhook-Signature": {"v1,AAAA"}, "Webhook-Timestamp": {"1"}}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			for !regexp.MustCompile(want).MatchString(out.String()) {
				time.Sleep(10 * time.Millisecond) // the test's own limit ends it
				if t.Context().Err() != nil {
					t.Fatal(out.String())
				}
			}
			signals <- os.Interrupt
			if code := <-ended; code != 0 && code != 130 {
				t.Errorf("exit %d", code)
			}
		})
	}
	if got := runWith(nil, "", "sink", "--json", "--log=x"); got.code != 2 {
		t.Errorf("--json with --log: exit %d", got.code)
	}
}
