//go:build !unix

package egress

import "time"

// newProbe returns a function that reports whether nothing has arrived on a
// connection. Without a way to look it listens for a moment; that it may take a
// byte does not matter, because a connection that is not silent is closed.
func newProbe(c *conn) func() bool {
	return func() bool {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		_ = c.SetReadDeadline(time.Time{}) // back to the limit of the holder
		return isTimeout(err)
	}
}
