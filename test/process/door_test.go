package process_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestClientsThatDoNotRead: an address that asks for much and reads nothing has
// its own share of the connections, and others are served meanwhile.
func TestClientsThatDoNotRead(t *testing.T) {
	t.Parallel()
	const strangers = 16 // at a time, twice as many as there are places for them
	s := serve(t, "--listen-max-connections", "32", "--listen-max-connections-per-address", "8")
	host := strings.TrimPrefix(s.url, "http://")
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: time.Minute}
	request := strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", 500)
	// Whoever has not asked yet makes room for the next one, so it takes some
	// until all places are busy.
	eventually(t, 60*time.Second, "strangers are turned away", func() bool {
		for range strangers {
			c, err := dialer.DialContext(t.Context(), "tcp", host)
			if err != nil {
				t.Fatalf("connect from a second loopback address: %v", err)
			}
			t.Cleanup(func() { _ = c.Close() })
			// What does not fit is written while the test goes on: nobody reads.
			go func() { _, _ = io.WriteString(c, request) }()
		}
		return strings.Contains(s.log.String(), "listen.max_connections_per_address")
	})

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("request %d of another address = %v, %v", i, answer, err)
		}
		if err == nil {
			_ = answer.Body.Close()
		}
		cancel()
	}
	s.publish("door.x", 3)
}
