package relay_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/lab/bench/relay"
)

// TestForwards: every event, alone or in a batch, reaches all endpoints of its
// kind, byte for byte.
func TestForwards(t *testing.T) {
	t.Parallel()
	for name, standard := range map[string]bool{"own client": false, "standard client": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testForwards(t, standard)
		})
	}
}

func testForwards(t *testing.T, standard bool) {
	t.Helper()
	var mu sync.Mutex
	got := map[string]int{}
	arrived := make(chan struct{}, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got[r.URL.Path+" "+string(body)]++
		mu.Unlock()
		arrived <- struct{}{}
	}))
	t.Cleanup(receiver.Close)
	url := start(t, relay.Config{Listen: "127.0.0.1:0", Target: receiver.URL, Groups: 3, Fanout: 2, Standard: standard})

	event := func(group, n int) string { return fmt.Sprintf(`{"type":"bench.g%06d","payload":{"n":"%d"}}`, group, n) }
	for _, body := range []string{event(2, 1), `{"events":[` + event(0, 2) + "," + event(1, 3) + "," + event(0, 4) + "]}"} {
		if status := post(t, url, body); status != http.StatusAccepted {
			t.Errorf("status %d for %s", status, body)
		}
	}
	for range 8 {
		select {
		case <-arrived:
		case <-time.After(time.Minute):
			t.Fatal("not everything has arrived")
		}
	}
	want := map[string]int{}
	for group, numbers := range map[int][]int{0: {2, 4}, 1: {3}, 2: {1}} {
		for _, n := range numbers {
			for f := range 2 {
				want[fmt.Sprintf("/%d/%d %s", group, f, event(group, n))] = 1
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what arrived (-want +got):\n%s", diff)
	}
}

func TestRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	url := start(t, relay.Config{Listen: "127.0.0.1:0", Target: "http://127.0.0.1:1", Groups: 1, Fanout: 1})
	for _, body := range []string{"", "{}", `{"type":"bench.g000001"}`, `{"type":"bench.g-1"}`, `{"type":"bench.g`} {
		if status := post(t, url, body); status != http.StatusBadRequest {
			t.Errorf("status %d for %q, want 400", status, body)
		}
	}
	if _, err := relay.New(relay.Config{Groups: 1, Fanout: 1}); err == nil {
		t.Error("a relay without a target")
	}
}

func start(t *testing.T, cfg relay.Config) (url string) {
	t.Helper()
	up, done := make(chan string, 1), make(chan error, 1)
	cfg.OnListen = func(url string) { up <- url }
	r, err := relay.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	select {
	case url = <-up:
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	return url
}

func post(t *testing.T, url, body string) int {
	t.Helper()
	answer, err := http.Post(url+"/v1/tenants/default/events", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}
