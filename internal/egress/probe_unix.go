//go:build unix

package egress

import "syscall"

// newProbe returns a function that reports whether nothing has arrived on a
// connection. It looks without waiting and without taking anything.
func newProbe(c *conn) func() bool {
	tcp, ok := c.Conn.(syscall.Conn)
	if !ok {
		return func() bool { return false }
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return func() bool { return false }
	}
	var (
		one  [1]byte
		seen error
	)
	peek := func(fd uintptr) bool {
		for {
			_, _, seen = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
			if seen != syscall.EINTR {
				return true
			}
		}
	}
	return func() bool {
		return raw.Read(peek) == nil && (seen == syscall.EAGAIN || seen == syscall.EWOULDBLOCK)
	}
}
