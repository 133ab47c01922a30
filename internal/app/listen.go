package app

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
)

// ports are what a server listens on. Those that were not asked for are nil.
type ports struct{ api, metrics, pprof net.Listener }

// listen takes all ports, or none.
func (a *App) listen(ctx context.Context) error {
	for _, p := range []struct {
		addr, doing string
		listener    *net.Listener
		known       *atomic.Pointer[net.TCPAddr]
	}{
		{a.opts.Listen, "listen on " + a.opts.Listen, &a.ports.api, &a.listener},
		{a.opts.MetricsListen, "listen for metrics", &a.ports.metrics, &a.metricsListener},
		{a.opts.PprofListen, "listen for pprof", &a.ports.pprof, &a.pprofListener},
	} {
		if p.addr == "" {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.addr)
		if err != nil {
			a.ports.close()
			return fmt.Errorf("%s: %w", p.doing, err)
		}
		*p.listener = l
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			p.known.Store(tcp)
		}
	}
	return nil
}

// close gives the ports up. Those that were served are closed already.
func (p *ports) close() {
	for _, l := range []net.Listener{p.api, p.metrics, p.pprof} {
		if l != nil {
			_ = l.Close() // given up in any case
		}
	}
}
