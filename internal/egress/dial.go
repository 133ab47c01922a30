package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Resolver looks up the addresses of a name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	// maxDials bounds the addresses tried for one attempt: whoever owns a name
	// must not make us knock on a thousand doors.
	maxDials = 8
	// minDial is the least time one address gets when several share what is
	// left of the connect budget.
	minDial = 2 * time.Second
)

// dialer opens connections to judged addresses only. Names are resolved here
// and not by the standard dialer, so that all answers can be judged before the
// first of them is used.
type dialer struct {
	guard    *guard
	resolver Resolver
	tcp      net.Dialer
}

func newDialer(g *guard, r Resolver) *dialer {
	return &dialer{
		guard:    g,
		resolver: r,
		tcp: net.Dialer{
			Control: g.control, // never set ControlContext too: it would win
			// The deadlines of conn find dead peers sooner than probes do.
			KeepAlive: -1,
		},
	}
}

// permit is asked before an address is dialled, and may wait: that takes nothing
// from the budget. Its error ends the dial.
type permit func(netip.AddrPort) error

// dial opens a connection within the attempt's budget for it. TLS shares the
// budget: what is left limits the connection until somebody arms that anew.
func (d *dialer) dial(ctx context.Context, a *attempt, address string, may permit) (*conn, error) {
	left := a.connect
	targets, err := d.resolve(ctx, a, address, &left)
	if err != nil {
		return nil, err
	}
	tcp, err := d.connect(ctx, a, targets, may, &left)
	if err != nil {
		return nil, err
	}
	a.enter(stageDialled)
	c := newConn(tcp)
	c.arm(earlier(time.Now().Add(left), a.deadline), nil)
	return c, nil
}

// resolve is targets within the budget.
func (d *dialer) resolve(ctx context.Context, a *attempt, address string, left *time.Duration) ([]netip.AddrPort, error) {
	start := time.Now()
	ctx, cancel := context.WithDeadline(ctx, earlier(start.Add(*left), a.deadline))
	defer cancel()
	targets, err := d.targets(ctx, a, address)
	*left -= time.Since(start)
	return targets, err
}

// targets returns the judged addresses of a host. One forbidden answer refuses
// them all: mixing a public with a private address is how a name is made to
// pass a check and then lead inside.
func (d *dialer) targets(ctx context.Context, a *attempt, address string) ([]netip.AddrPort, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &BlockedError{Rule: "unreadable address"}
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, &BlockedError{Rule: "unreadable port"}
	}
	addrs, err := d.lookup(ctx, a, host)
	if err != nil {
		return nil, err
	}
	targets := make([]netip.AddrPort, len(addrs))
	for i, addr := range addrs {
		targets[i] = netip.AddrPortFrom(addr.Unmap(), uint16(port))
		if err := d.guard.judge(targets[i]); err != nil {
			return nil, err
		}
	}
	return targets, nil
}

// lookup returns at least one address or an error that says whether the name
// has none or could not be asked for.
func (d *dialer) lookup(ctx context.Context, a *attempt, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	a.enter(stageResolving)
	start := time.Now()
	addrs, err := d.resolver.LookupNetIP(ctx, "ip", host)
	a.dns.Store(int64(time.Since(start)))
	switch dns, isDNS := errors.AsType[*net.DNSError](err); {
	case isDNS && dns.IsNotFound, is[*net.AddrError](err):
		return nil, &reasonError{hook.DNSNXDomain, fmt.Errorf("look up host: %w", err)}
	case err != nil && isLocalFault(err):
		return nil, &reasonError{hook.LocalError, fmt.Errorf("look up host: %w", err)}
	case err != nil:
		return nil, &reasonError{hook.DNSError, fmt.Errorf("look up host: %w", err)}
	case len(addrs) == 0:
		return nil, &reasonError{hook.DNSNXDomain, errors.New("look up host: no addresses")}
	}
	return addrs, nil
}

// connect tries the addresses one after the other, in the resolver's order of
// preference, and shares the time that is left between them.
func (d *dialer) connect(ctx context.Context, a *attempt, targets []netip.AddrPort, may permit, left *time.Duration) (net.Conn, error) {
	targets = targets[:min(len(targets), maxDials)]
	var best error
	for i, target := range targets {
		a.enter(stageWaiting)
		if err := may(target); err != nil {
			return nil, err
		}
		a.enter(stageConnecting)
		start := time.Now()
		limit := earlier(start.Add(*left), a.deadline)
		c, err := d.connectOne(ctx, target, limit, len(targets)-i)
		took := time.Since(start)
		*left -= took
		a.tcp.Add(int64(took))
		if err == nil {
			return c, nil
		}
		// The first error says most, unless it only says that this machine has
		// no route for one family of addresses.
		if best == nil || ReasonOf(best) == hook.Unreachable {
			best = err
		}
		if ctx.Err() != nil || !time.Now().Before(limit) || ReasonOf(err) == hook.LocalError {
			break
		}
	}
	return nil, best
}

func (d *dialer) connectOne(ctx context.Context, target netip.AddrPort, limit time.Time, left int) (net.Conn, error) {
	if left > 1 {
		share := max(time.Until(limit)/time.Duration(left), minDial)
		limit = earlier(limit, time.Now().Add(share))
	}
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	network := "tcp4"
	if target.Addr().Is6() {
		network = "tcp6"
	}
	c, err := d.tcp.DialContext(ctx, network, target.String())
	if isTimeout(err) {
		return nil, &reasonError{hook.ConnectTimeout, fmt.Errorf("connect: %w", err)}
	}
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return c, nil
}

// dialProxy connects to the operator's proxy, which is then the guard: addresses
// cannot be judged here because the proxy resolves the names.
func dialProxy(ctx context.Context, network, address string) (net.Conn, error) {
	a := attemptFrom(ctx)
	if a == nil {
		return nil, &BlockedError{Rule: "dial outside of an attempt"}
	}
	limit := earlier(time.Now().Add(a.connect), a.deadline)
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	a.enter(stageConnecting)
	start := time.Now()
	tcp, err := (&net.Dialer{}).DialContext(ctx, network, address)
	a.tcp.Store(int64(time.Since(start)))
	if err != nil {
		return nil, &reasonError{hook.LocalError, fmt.Errorf("connect to proxy: %w", err)}
	}
	a.enter(stageDialled)
	c := newConn(tcp)
	c.arm(limit, nil)
	return c, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
