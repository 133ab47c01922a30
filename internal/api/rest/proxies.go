package rest

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the blocks of addresses whose X-Forwarded-For is believed.
type Proxies []netip.Prefix

func (ps Proxies) trust(a netip.Addr) bool {
	return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
}

// client returns the address that the trusted proxies in front of this server
// saw: the rightmost one that is not theirs. What stands left of it was
// written by the client itself. It is invalid when the peer is no such proxy
// or named nobody.
func (ps Proxies) client(r *http.Request) netip.Addr {
	if len(ps) == 0 || !ps.trust(peerAddr(r.RemoteAddr)) {
		return netip.Addr{}
	}
	var found netip.Addr
	for _, line := range slices.Backward(r.Header["X-Forwarded-For"]) {
		for line != "" {
			var hop string
			if i := strings.LastIndexByte(line, ','); i >= 0 {
				line, hop = line[:i], line[i+1:]
			} else {
				line, hop = "", line
			}
			addr := hopAddr(strings.TrimSpace(hop))
			if !addr.IsValid() {
				return found
			}
			if found = addr; !ps.trust(addr) {
				return found
			}
		}
	}
	return found
}

// hopAddr reads an address with or without a port.
func hopAddr(s string) netip.Addr {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
		return bare(a)
	}
	return peerAddr(s)
}

// peerAddr reads the address of "address:port".
func peerAddr(s string) netip.Addr {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.Addr{}
	}
	return bare(ap.Addr())
}

// bare spells an address in the one way that tables of addresses use.
func bare(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
