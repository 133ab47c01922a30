package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// Handler sees one request and says with which status to answer. It must not
// keep path or body.
type Handler func(path, body []byte) (status int)

// Receiver is the destination of a benchmark.
type Receiver struct {
	listener net.Listener
	handle   Handler

	mu    sync.Mutex
	conns map[net.Conn]bool
	done  bool
	wg    sync.WaitGroup
}

// Listen opens a port of the loopback address. Serve answers.
func Listen(ctx context.Context, handle Handler) (*Receiver, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for deliveries: %w", err)
	}
	return &Receiver{listener: listener, handle: handle, conns: make(map[net.Conn]bool)}, nil
}

// URL returns the receiver's address, without a path.
func (r *Receiver) URL() string { return "http://" + r.listener.Addr().String() }

// Serve answers until Close, and returns when every connection has ended.
func (r *Receiver) Serve() error {
	defer r.wg.Wait()
	for {
		conn, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept delivery connection: %w", err)
		}
		if !r.keep(conn) {
			_ = conn.Close()
			return nil
		}
		r.wg.Go(func() {
			defer r.drop(conn)
			r.converse(conn)
		})
	}
}

// Close ends Serve and every connection.
func (r *Receiver) Close() {
	_ = r.listener.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = true
	for conn := range r.conns {
		_ = conn.Close()
	}
}

func (r *Receiver) keep(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done {
		r.conns[conn] = true
	}
	return !r.done
}

func (r *Receiver) drop(conn net.Conn) {
	_ = conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, conn)
}

// converse answers the requests of one connection. A peer that breaks off or
// speaks nonsense is not answered.
func (r *Receiver) converse(conn net.Conn) {
	in := newReader(conn)
	for {
		head, err := in.head()
		if err != nil {
			return
		}
		path, err := pathOf(head)
		if err != nil {
			return
		}
		f, err := framingOf(head)
		if err != nil {
			return
		}
		kept := [64]byte{} // reading the body moves the head
		path = kept[:copy(kept[:], path)]
		body, err := in.read(f)
		if err != nil {
			return
		}
		if _, err := conn.Write(answerOf(r.handle(path, body))); err != nil {
			return
		}
	}
}

// pathOf reads "POST /some/path HTTP/1.1".
func pathOf(head []byte) ([]byte, error) {
	_, rest, found := bytes.Cut(head, []byte(" "))
	path, _, ended := bytes.Cut(rest, []byte(" "))
	if !found || !ended {
		return nil, errHead
	}
	return path, nil
}

var answerOK = []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

// answerOf returns a complete answer. The usual one costs nothing.
func answerOf(status int) []byte {
	if status == http.StatusOK {
		return answerOK
	}
	return []byte("HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\nContent-Length: 0\r\n\r\n")
}
