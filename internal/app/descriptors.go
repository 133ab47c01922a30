package app

import (
	"errors"
	"net"
	"syscall"
)

// relieved is a listener that has something closed when the process has no
// descriptor left for who wants to be heard. The server that uses it tries again.
type relieved struct {
	net.Listener

	relieve func()
}

// Accept implements net.Listener.
func (l relieved) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		l.relieve()
	}
	return c, err
}
