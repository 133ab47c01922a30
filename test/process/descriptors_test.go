package process_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// everywhere is a receiver that every loopback address leads to, so that it looks
// like many hosts. It counts the connections that are open.
type everywhere struct {
	port int
	open atomic.Int64
	got  atomic.Int64 // requests
}

func receiveEverywhere(t *testing.T) *everywhere {
	t.Helper()
	e := &everywhere{}
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	e.port = listener.Addr().(*net.TCPAddr).Port
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) { e.got.Add(1) }),
		ConnState: func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				e.open.Add(1)
			case http.StateClosed:
				e.open.Add(-1)
			default:
			}
		},
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return e
}

// fresh asks for an answer on a connection of its own.
func fresh(t *testing.T, url string) error {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := c.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// TestIdleConnectionsLeaveTheAPIReachable: a process that may have few descriptors
// delivers to more hosts than it has descriptors for. The connections that stay
// idle afterwards leave room for whoever asks the API.
func TestIdleConnectionsLeaveTheAPIReachable(t *testing.T) {
	t.Parallel()
	const descriptors, hosts = 60, 60
	r := receiveEverywhere(t)
	s := serveWith(t, descriptors, "--egress-idle-timeout", "10m", "--dispatch-max-in-flight", "16")
	for i := range hosts {
		s.endpoint(fmt.Sprintf("http://127.0.1.%d:%d/", i+1, r.port), nil)
	}
	for round := 1; round <= 3; round++ {
		s.publish("many.x", 1)
		eventually(t, 2*time.Minute, "all hosts have the event", func() bool { return r.got.Load() >= int64(round*hosts) })
		eventually(t, time.Minute, "a quarter of the descriptors is idle at most", func() bool { return r.open.Load() <= descriptors/4 })
		for i := range 10 {
			if err := fresh(t, s.url+"/livez"); err != nil {
				t.Fatalf("round %d, request %d: %v", round, i, err)
			}
		}
	}
}

// TestClientsLeaveDescriptors: however many clients come, and from wherever, some
// descriptors are kept back. Those who hold connections get no more than the share
// of the API, and what was accepted is delivered to new hosts meanwhile.
func TestClientsLeaveDescriptors(t *testing.T) {
	t.Parallel()
	const descriptors, hosts = 80, 10
	r := receiveEverywhere(t)
	s := serveWith(t, descriptors, "--dispatch-max-in-flight", "16")
	for i := range hosts {
		s.endpoint(fmt.Sprintf("http://127.0.2.%d:%d/", i+1, r.port), nil)
	}
	s.api(http.MethodPost, "/events", object{"type": "later.x", "payload": 1, "delay": "10s"}, nil)
	request := strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", 500)
	var clients []net.Conn
	t.Cleanup(func() {
		for _, c := range clients {
			_ = c.Close()
		}
	})
	most := 0
	eventually(t, 2*time.Minute, "clients are turned away, and the event arrives", func() bool {
		for i := range 20 {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 3, byte(1+i))}, Timeout: time.Minute}
			c, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatalf("connect from another loopback address: %v", err)
			}
			clients = append(clients, c)
			go func() { _, _ = io.WriteString(c, request) }()
		}
		for ; len(clients) > 300; clients = clients[1:] { // turned away long ago
			_ = clients[0].Close()
		}
		used, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(used))
		return strings.Contains(s.log.String(), "connection turned away") && r.got.Load() >= hosts
	})
	t.Logf("%d of %d descriptors in use at most", most, descriptors)
	if most > descriptors*9/10 {
		t.Errorf("%d of %d descriptors in use: nothing is kept back for the store and deliveries", most, descriptors)
	}
}
