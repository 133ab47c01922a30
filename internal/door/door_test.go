package door_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/door"
)

// street is a listener whose clients come by pipe, from any address.
type street struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newStreet() *street { return &street{conns: make(chan net.Conn), done: make(chan struct{})} }

func (s *street) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *street) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

func (s *street) Addr() net.Addr { return &net.TCPAddr{} }

type walker struct {
	net.Conn
	from string
}

func (w walker) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(w.from))
}

func (s *street) dial(from string) net.Conn {
	client, server := net.Pipe()
	s.conns <- walker{server, from}
	return client
}

// house serves handler behind a door until the test ends.
func house(t *testing.T, cfg door.Config, h http.HandlerFunc) (*street, *door.Door) {
	t.Helper()
	s := newStreet()
	d, err := door.New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ConnState: d.State, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(d) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return s, d
}

// ask sends a request and returns its status, 0 when the connection was closed.
func ask(c net.Conn) int {
	go func() { _, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	return r.StatusCode
}

func TestBoundPerAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		hold := make(chan struct{})
		s, d := house(t, door.Config{
			Max: 100, PerAddress: 2, Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		}, func(http.ResponseWriter, *http.Request) { <-hold })
		busy := make(chan int, 8)
		use := func(from string) {
			go func() { busy <- ask(s.dial(from)) }()
			synctest.Wait()
		}
		use("[2001:db8::1]:1")
		use("[2001:db8::2]:1")
		if got := ask(s.dial("[2001:db8::3]:1")); got != 503 {
			t.Errorf("third of one network = %d, want 503", got)
		}
		use("[2001:db8:0:1::1]:1") // another network
		for range 3 {
			use("10.0.0.1:1")
		}
		if d.Turned() != 1 || strings.Count(log.String(), "listen.max_connections_per_address") != 1 {
			t.Errorf("turned away %d, log: %s", d.Turned(), log.String())
		}
		close(hold)
		for range 6 {
			if got := <-busy; got != 200 {
				t.Errorf("one inside = %d", got)
			}
		}
	})
}

// TestIdleOnesMakeRoom: clients that hold connections and ask nothing do not
// keep others out.
func TestIdleOnesMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, d := house(t, door.Config{Max: 3, PerAddress: 3}, func(http.ResponseWriter, *http.Request) {})
		silent := s.dial("192.0.2.1:1")
		synctest.Wait()
		between := s.dial("192.0.2.2:1")
		if got := ask(between); got != 200 {
			t.Fatalf("first request = %d", got)
		}
		for i := range 20 {
			if got := ask(s.dial("192.0.2.3:1")); got != 200 {
				t.Fatalf("client %d = %d", i, got)
			}
			time.Sleep(time.Millisecond)
		}
		if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the silent one = %v, want its connection closed", err)
		}
		if d.Turned() != 0 {
			t.Errorf("%d were turned away", d.Turned())
		}
	})
}

// TestUnreadAnswersEnd: clients that ask and do not read leave again, and the
// bound holds until then.
func TestUnreadAnswersEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 3)
		s, _ := house(t, door.Config{Max: 3, PerAddress: 3}, func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 1<<20))
			ended <- err
		})
		for range 3 {
			c := s.dial("192.0.2.1:1")
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		synctest.Wait()
		if got := ask(s.dial("192.0.2.9:1")); got != 503 {
			t.Errorf("one too many = %d, want 503", got)
		}
		time.Sleep(16 * time.Second)
		for range 3 {
			select {
			case err := <-ended:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("write = %v, want its deadline", err)
				}
			default:
				t.Fatal("an answer that nobody reads still waits")
			}
		}
		if got := ask(s.dial("192.0.2.9:1")); got != 200 {
			t.Errorf("after they were closed = %d, want 200", got)
		}
	})
}

// TestProgressExtendsTheDeadline reads slowly, for longer than the patience.
func TestProgressExtendsTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 4 << 20
		s, _ := house(t, door.Config{Max: 3, PerAddress: 3}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, size))
		})
		c := s.dial("192.0.2.1:1")
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		began, got, buf := time.Now(), 0, make([]byte, 64<<10)
		for {
			n, err := io.ReadFull(c, buf)
			if got += n; err != nil {
				break
			}
			time.Sleep(2 * time.Second)
		}
		if got < size || time.Since(began) < time.Minute {
			t.Errorf("read %d bytes in %v, want all %d", got, time.Since(began), size)
		}
	})
}

// TestFewAreToldWhy: those who are turned away hold a connection until they have
// heard why, so there are few of them at a time. The others are closed at once.
func TestFewAreToldWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most, crowd = 16, 40
		hold := make(chan struct{})
		s, d := house(t, door.Config{Max: most, PerAddress: most}, func(http.ResponseWriter, *http.Request) { <-hold })
		busy := make(chan int, most)
		for range most {
			go func() { busy <- ask(s.dial("192.0.2.1:1")) }()
			synctest.Wait()
		}
		var clients []net.Conn
		for range crowd {
			clients = append(clients, s.dial("192.0.2.2:1"))
		}
		synctest.Wait()
		told := 0
		for _, c := range clients {
			if n, _ := c.Read(make([]byte, 8)); n > 0 {
				told++
			}
			_ = c.Close()
		}
		if told != most/8 || d.Turned() != crowd {
			t.Errorf("%d of %d were told why, want %d; %d were turned away", told, crowd, most/8, d.Turned())
		}
		close(hold)
		for range most {
			<-busy
		}
	})
}

func TestRoom(t *testing.T) {
	t.Parallel()
	for descriptors, want := range map[uint64]int{0: 8, 16: 8, 60: 22, 256: 96, 1024: 480, 20_000: 9968, 1 << 20: 16_384, 1 << 63: 16_384} {
		if got := door.Room(descriptors); got != want {
			t.Errorf("Room(%d) = %d, want %d", descriptors, got, want)
		}
	}
	for all, want := range map[int]int{1: 1, 8: 4, 22: 5, 480: 120} {
		if got := door.Share(all); got != want {
			t.Errorf("Share(%d) = %d, want %d", all, got, want)
		}
	}
	if door.Descriptors() == 0 {
		t.Error("no descriptors")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]door.Config{"no room": {PerAddress: 1}, "nobody": {Max: 1}} {
		if _, err := door.New(newStreet(), cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
