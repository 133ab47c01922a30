package egress_test

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
)

// heldFor returns how long a read on c lasts when the peer says nothing.
func heldFor(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	start := time.Now()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read: %v, want the deadline", err)
	}
	return time.Since(start)
}

func pipe(t *testing.T) *egress.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return egress.NewConn(ours)
}

func TestConnLimits(t *testing.T) {
	t.Parallel()
	first, second := make(chan struct{}), make(chan struct{})
	for name, tc := range map[string]struct {
		use  func(*egress.Conn)
		want time.Duration
	}{
		"armed": {func(c *egress.Conn) {
			c.Arm(in(time.Second), first)
		}, time.Second},
		"armed again to the idle limit": {func(c *egress.Conn) {
			c.Arm(in(time.Second), first)
			c.Rearm(in(time.Minute), first)
		}, time.Minute},
		"who has left does not touch the next holder": {func(c *egress.Conn) {
			c.Arm(in(time.Second), first)
			c.Arm(in(3*time.Second), second)
			c.Rearm(in(time.Hour), first)
		}, 3 * time.Second},
		"cut short": {func(c *egress.Conn) {
			c.Arm(in(time.Second), first)
			c.Rearm(time.Unix(1, 0), first)
		}, 0},
		"a late cut does not touch the next holder": {func(c *egress.Conn) {
			c.Arm(in(time.Second), first)
			c.Arm(in(3*time.Second), second)
			c.Rearm(time.Unix(1, 0), first)
		}, 3 * time.Second},
		"a deadline beyond the limit is cut": {func(c *egress.Conn) {
			c.Arm(in(time.Second), first)
			_ = c.SetReadDeadline(in(5 * time.Second))
		}, time.Second},
		"no deadline is cut as well": {func(c *egress.Conn) {
			c.Arm(in(time.Second), first)
			_ = c.SetDeadline(time.Time{})
		}, time.Second},
		"an earlier deadline is kept": {func(c *egress.Conn) {
			c.Arm(in(time.Second), first)
			_ = c.SetReadDeadline(in(time.Millisecond))
		}, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := pipe(t)
				tc.use(c)
				if got := heldFor(t, c); got != tc.want {
					t.Errorf("held for %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func in(d time.Duration) time.Time { return time.Now().Add(d) }

// A peer that does not read would otherwise hold a closing TLS connection for
// the five seconds TLS grants itself.
func TestConnLimitsTheGoodbyeOfTLS(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := pipe(t)
		c.Arm(in(time.Second), nil)
		if err := c.SetWriteDeadline(in(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err := c.Write([]byte("x"))
		if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != time.Second {
			t.Errorf("write held for %v (%v), want 1s", took, err)
		}
	})
}

func TestConnIsFoundBelowTLS(t *testing.T) {
	t.Parallel()
	c := pipe(t)
	once := tls.Client(c, &tls.Config{ServerName: "a.test"})
	twice := tls.Client(once, &tls.Config{ServerName: "b.test"})
	for name, layer := range map[string]net.Conn{"plain": c, "TLS": once, "TLS in TLS": twice} {
		if egress.ConnOf(layer) != c {
			t.Errorf("%s: not found", name)
		}
	}
	other, _ := net.Pipe()
	defer other.Close()
	if egress.ConnOf(other) != nil || egress.ConnOf(nil) != nil {
		t.Error("found where there is none")
	}
}
