package torture_test

import (
	"net"
	"sync"
	"testing"
)

// proxy is the network between one node and its database.
type proxy struct {
	target string // a unix socket
	addr   string

	mu    sync.Mutex
	cond  *sync.Cond
	state network
	conns map[net.Conn]bool
	bytes int64 // that may still pass before everything is cut; < 0: no such limit
}

type network int

const (
	connected network = iota
	cut               // connections end, new ones are refused
	silent            // nothing arrives, nothing ends
)

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: target, addr: listener.Addr().String(), conns: make(map[net.Conn]bool), bytes: -1}
	p.cond = sync.NewCond(&p.mu)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		p.set(cut)
	})
	return p
}

// set changes the state of the network.
func (p *proxy) set(state network) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state
	if state == cut {
		p.closeAll()
	}
	p.cond.Broadcast()
}

// cutAfter ends all connections once, when so many more bytes have passed: in
// the middle of a message, of a transaction, or between the two.
func (p *proxy) cutAfter(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes = bytes
}

func (p *proxy) closeAll() {
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
}

func (p *proxy) serve(down net.Conn) {
	up, err := net.Dial("unix", p.target)
	if err != nil || !p.keep(down, up) {
		_ = down.Close()
		if up != nil {
			_ = up.Close()
		}
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.copy(up, down) })
	wg.Go(func() { p.copy(down, up) })
	wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, down)
	delete(p.conns, up)
}

// keep notes a pair of connections, unless the network is cut.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == cut {
		return false
	}
	for _, conn := range conns {
		p.conns[conn] = true
	}
	return true
}

// copy passes bytes on, as far as the network lets it.
func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if pass := p.pass(n); pass > 0 {
			if _, err := to.Write(buf[:pass]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while the network is silent and returns how many of n bytes may
// go on.
func (p *proxy) pass(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.state == silent {
		p.cond.Wait()
	}
	if p.state == cut {
		return 0
	}
	if p.bytes < 0 || int64(n) < p.bytes {
		if p.bytes >= 0 {
			p.bytes -= int64(n)
		}
		return n
	}
	n, p.bytes = int(p.bytes), -1
	p.closeLater()
	return n
}

// closeLater ends all connections after what may pass has passed.
func (p *proxy) closeLater() {
	go func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closeAll()
	}()
}
