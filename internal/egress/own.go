package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ownFor is how long the addresses of the machine are believed: they change,
// but reading them takes longer than everything else that is judged.
const ownFor = 5 * time.Second

// ownAddresses are those of the machine's interfaces. Services that listen
// there rely on it that only their neighbours come from this machine; a
// delivery is a stranger that does.
type ownAddresses struct {
	read func() ([]net.Addr, error)

	mu    sync.Mutex
	known []netip.Addr
	at    time.Time // when they were read; zero: never
}

// has reports whether addr belongs to this machine. When the interfaces cannot
// be read, for want of a descriptor perhaps, what was known counts on; when
// they never could, nobody can say that addr is not ours.
func (o *ownAddresses) has(addr netip.Addr) (bool, error) {
	if addr.IsLoopback() || addr.IsUnspecified() {
		return true, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); o.at.IsZero() || now.Sub(o.at) >= ownFor {
		list, err := o.read()
		switch {
		case err == nil:
			o.known, o.at = addressesOf(list), now
		case o.at.IsZero():
			return false, fmt.Errorf("read the addresses of this machine: %w", err)
		}
	}
	return slices.Contains(o.known, addr), nil
}

func addressesOf(list []net.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		ipNet, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if ip, ok := netip.AddrFromSlice(ipNet.IP); ok {
			out = append(out, ip.Unmap())
		}
	}
	return out
}
