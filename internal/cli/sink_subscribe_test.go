package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/cli"
)

// TestSinkSubscribes: three commands from nothing to an event that is delivered and
// whose signature was checked; a sink that comes again is the same endpoint.
func TestSinkSubscribes(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(t.TempDir(), "data")
	banner, stop := startServer(t, dataDir)
	defer stop()
	environ := []string{"BREAKWATER_URL=" + regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(banner), "BREAKWATER_DATA_DIR=" + dataDir}
	waitReady(t, environ)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	endpoints := map[string]bool{}
	for _, types := range []string{"order.*", "order.*,bill.sent"} {
		signals, out, told, ended := make(chan os.Signal, 1), &heard{}, &heard{}, make(chan int, 1)
		go func() {
			ended <- cli.Run(cli.Host{
				Args: []string{"sink", "--listen", address, "--subscribe", types}, Environ: environ, Stdout: out, Stderr: told, Signals: signals,
			})
		}()
		told.await(t, "sink listening on http://"+address)
		if got := runWith(environ, "", "send", "order.paid", "-d", `{"order":42}`); got.code != 0 || !strings.Contains(got.stdout, "1 delivery") {
			t.Fatalf("send: exit %d\n%s%s", got.code, got.stdout, got.stderr)
		}
		out.await(t, ` 200 "/" order.paid evt_`)
		if s := out.String(); !strings.Contains(s, "signature ok") {
			t.Errorf("the sink says %s", s)
		}
		endpoints[regexp.MustCompile(`ep_\w+`).FindString(told.String())] = true
		signals <- os.Interrupt
		<-ended
	}
	if len(endpoints) != 1 {
		t.Errorf("endpoints %v, want the same one twice", endpoints)
	}
	if got := runWith(environ, "", "endpoints", "list", "--json"); strings.Count(got.stdout, `"ep_`) != 1 || !strings.Contains(got.stdout, "bill.sent") {
		t.Errorf("endpoints: %s", got.stdout)
	}
	for name, args := range map[string][]string{
		"no port of its own": {"--listen=127.0.0.1:0", "--subscribe=a"},
		"no type":            {"--listen=" + address, "--subscribe=a b"},
	} {
		if got := runWith(environ, "", append([]string{"sink"}, args...)...); got.code != 2 && got.code != 5 {
			t.Errorf("%s: exit %d\n%s", name, got.code, got.stderr)
		}
	}
}
