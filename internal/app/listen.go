package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
)

// port is something a server listens on. Without a listener it was not asked for.
type port struct {
	net.Listener

	addr atomic.Pointer[net.TCPAddr] // nil: it does not listen yet
}

// ports are all that a server listens on.
type ports struct{ api, metrics, pprof port }

func (p *ports) all() []*port { return []*port{&p.api, &p.metrics, &p.pprof} }

// own is what this server listens on: never a destination.
func (p *ports) own() (own []netip.AddrPort) {
	for _, port := range p.all() {
		if addr := port.addr.Load(); addr != nil {
			own = append(own, addr.AddrPort())
		}
	}
	return own
}

// listen takes all ports, or none.
func (a *App) listen(ctx context.Context) error {
	for _, p := range []struct {
		*port
		at, doing string
	}{
		{&a.ports.api, a.opts.Listen, "listen on " + a.opts.Listen},
		{&a.ports.metrics, a.opts.MetricsListen, "listen for metrics"},
		{&a.ports.pprof, a.opts.PprofListen, "listen for pprof"},
	} {
		if p.at == "" {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.at)
		if err != nil {
			a.ports.close()
			return fmt.Errorf("%s: %w", p.doing, err)
		}
		p.Listener = l
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			p.port.addr.Store(tcp)
		}
	}
	return nil
}

// close gives the ports up. Those that were served are closed already.
func (p *ports) close() {
	for _, port := range p.all() {
		if port.Listener != nil {
			_ = port.Close() // given up in any case
		}
	}
}
