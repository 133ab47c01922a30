package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/lab/bench/wire"
)

func request(path, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// TestClientSpeaksToNetHTTP sends bodies of many sizes over one connection to a
// server of the standard library, which answers with a length or in chunks.
func TestClientSpeaksToNetHTTP(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/flushed" { // many chunks
			for part := range bytes.SplitAfterSeq(body, []byte("5")) {
				_, _ = w.Write(part)
				_ = http.NewResponseController(w).Flush()
			}
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	conn, err := wire.Dial(t.Context(), strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, size := range []int{0, 1, 100, 2047, 2048, 2049, 8 << 10, 100 << 10, 3} {
		body := strings.Repeat("0123456789", size/10+1)[:size]
		for path, want := range map[string]int{"/whole": 202, "/flushed": 200} {
			status, got, err := conn.Do(request(path, body))
			if err != nil || status != want || string(got) != body {
				t.Fatalf("%s with %d bytes: status %d, %d bytes back, error %v", path, size, status, len(got), err)
			}
		}
	}
}

func TestClientStopsWithItsContext(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := wire.Dial(ctx, strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	failed := make(chan error, 1)
	go func() {
		_, _, err := conn.Do(request("/", ""))
		failed <- err
	}()
	cancel()
	select {
	case err := <-failed:
		if err == nil {
			t.Error("a request that nobody answered succeeded")
		}
	case <-time.After(time.Minute):
		t.Fatal("the request goes on after its context ended")
	}
}

func TestClientRefusesNonsense(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"no status":    "HTTP\r\n\r\n",
		"odd status":   "HTTP/1.1 abc\r\n\r\n",
		"odd length":   "HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n",
		"odd chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"ends early":   "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab",
		"huge length":  "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
		"no end of it": "HTTP/1.1 200 OK\r\nContent-Le",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}))
			t.Cleanup(server.Close)
			conn, err := wire.Dial(t.Context(), strings.TrimPrefix(server.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if status, body, err := conn.Do(request("/", "")); err == nil {
				t.Errorf("got %d %q and no error", status, body)
			}
		})
	}
}

// TestReceiverSpeaksToNetHTTP posts with the client of the standard library,
// over several connections, with and without a length.
func TestReceiverSpeaksToNetHTTP(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := map[string]int{}
	receiver, err := wire.Listen(t.Context(), func(path, body []byte) int {
		mu.Lock()
		defer mu.Unlock()
		got[string(path)+" "+string(body[:min(len(body), 3)])] += len(body)
		if string(path) == "/dead" {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- receiver.Serve() }()

	transport := &http.Transport{} // its own: the end of other tests closes idle connections of the default one
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	post := func(path string, body io.Reader, want int) {
		answer, err := client.Post(receiver.URL()+path, "application/json", body)
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != want {
			t.Errorf("%s: status %d, error %v", path, answer.StatusCode, err)
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				post("/a", strings.NewReader("abc"), http.StatusOK)
				post("/b", strings.NewReader(strings.Repeat("b", 70_000)), http.StatusOK)
				post("/dead", strings.NewReader(""), http.StatusServiceUnavailable)
				post("/chunked", io.MultiReader(strings.NewReader("chu"), strings.NewReader("nks")), http.StatusOK)
			}
		})
	}
	wg.Wait()
	receiver.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	want := map[string]int{"/a abc": 200 * 3, "/b bbb": 200 * 70_000, "/dead ": 0, "/chunked chu": 200 * 6}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what arrived (-want +got):\n%s", diff)
	}
	if _, err := client.Get(receiver.URL()); err == nil {
		t.Error("the receiver answers after Close")
	} else if errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
