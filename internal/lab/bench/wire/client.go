package wire

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"
)

// dialTimeout is long: hundreds of connections are opened at the same moment.
const dialTimeout = 10 * time.Second

// Conn is one connection of a publisher. It serves one request at a time.
type Conn struct {
	r    reader
	stop func() bool
}

// Dial connects to an address. When ctx ends, a request in progress fails.
func Dial(ctx context.Context, address string) (*Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return &Conn{r: newReader(conn), stop: stop}, nil
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.stop()
	return c.r.conn.Close()
}

// Do sends a complete request and returns the answer. The body is valid until
// the next call.
func (c *Conn) Do(request []byte) (status int, body []byte, err error) {
	if _, err := c.r.conn.Write(request); err != nil {
		return 0, nil, fmt.Errorf("send request: %w", err)
	}
	head, err := c.r.head()
	if err != nil {
		return 0, nil, fmt.Errorf("read answer: %w", err)
	}
	if status, err = statusOf(head); err != nil {
		return 0, nil, err
	}
	f, err := framingOf(head)
	if err != nil {
		return 0, nil, err
	}
	if body, err = c.r.read(f); err != nil {
		return 0, nil, fmt.Errorf("read answer: %w", err)
	}
	return status, body, nil
}

// statusOf reads "HTTP/1.1 202 Accepted".
func statusOf(head []byte) (int, error) {
	const at = len("HTTP/1.1 ")
	if len(head) < at+3 {
		return 0, fmt.Errorf("%w: %q", errHead, head)
	}
	status, err := strconv.Atoi(string(head[at : at+3]))
	if err != nil {
		return 0, fmt.Errorf("%w: %q", errHead, head[:at+3])
	}
	return status, nil
}
