package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"code.dny.dev/ssrf"
)

// BlockedError is a destination that the rules refuse. Its text names the
// address and the rule, so it belongs in the operator's log only: a tenant who
// could read it would have a map of our network.
type BlockedError struct {
	Addr netip.AddrPort
	Rule string
}

func (e *BlockedError) Error() string {
	if e.Addr == (netip.AddrPort{}) {
		return "destination refused: " + e.Rule
	}
	return fmt.Sprintf("destination %s refused: %s", e.Addr, e.Rule)
}

// metadata lists what serves credentials to whoever can reach it: link-local
// addresses, and the cloud services that hide outside of them. No registry of
// special addresses knows the latter, and opening a private range must never
// open them by accident.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fd00:ec2::254/128"),  // AWS over IPv6
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud over IPv6
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure's host service, a public address
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud, in the shared range
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
}

// devRanges are opened by Config.Dev.
var devRanges = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("::1/128"),
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("fc00::/7"),
}

// blockedPorts are ports from 1024 on where a POST can do harm: databases,
// caches, brokers, file servers, remote shells and cluster agents. Kept in
// ascending order.
var blockedPorts = []uint16{
	1433,       // SQL Server
	1521,       // Oracle
	2049,       // NFS
	2181,       // ZooKeeper
	2375, 2376, // Docker
	2379, 2380, // etcd
	3306,       // MySQL
	3389,       // remote desktop
	4369,       // Erlang port mapper
	4444,       // remote shells
	5432, 5433, // Postgres
	5671, 5672, // AMQP
	5900, 5901, // VNC
	5984,       // CouchDB
	5985, 5986, // WinRM
	6000,       // X11
	6379, 6380, // Redis
	7000, 7001, // Cassandra between nodes
	8086,       // InfluxDB
	8500,       // Consul
	9042,       // Cassandra
	9092,       // Kafka
	9200, 9300, // Elasticsearch
	10250, 10255, // kubelet
	11211,               // memcached
	15672,               // RabbitMQ management
	26379,               // Redis Sentinel
	27017, 27018, 27019, // MongoDB
}

// guard judges concrete addresses. It is safe for concurrent use and never
// changes after newGuard.
type guard struct {
	deny          []netip.Prefix
	allowMetadata bool
	ports         []uint16 // nil: the built-in rule
	self          func() []netip.AddrPort
	own           *ownAddresses
	allow         []netip.Prefix
	registry      *ssrf.Guardian
}

func newGuard(cfg Config) (*guard, error) {
	allow, err := plainPrefixes(cfg.AllowCIDR)
	if err != nil {
		return nil, fmt.Errorf("read allowed blocks: %w", err)
	}
	deny, err := plainPrefixes(cfg.DenyCIDR)
	if err != nil {
		return nil, fmt.Errorf("read denied blocks: %w", err)
	}
	if cfg.Dev {
		allow = append(allow, devRanges...)
	}
	if cfg.AllowMetadata {
		allow = append(allow, metadata...)
	}
	interfaces := cfg.Interfaces
	if interfaces == nil {
		interfaces = net.InterfaceAddrs
	}
	isV4 := func(p netip.Prefix) bool { return p.Addr().Is4() }
	isV6 := func(p netip.Prefix) bool { return p.Addr().Is6() }
	return &guard{
		deny:          deny,
		allowMetadata: cfg.AllowMetadata,
		ports:         slices.Clone(cfg.Ports),
		self:          cfg.Self,
		own:           &ownAddresses{read: interfaces},
		allow:         allow,
		registry: ssrf.New(
			ssrf.WithAnyPort(), // the port rule is ours
			ssrf.WithAllowedV4Prefixes(slices.DeleteFunc(slices.Clone(allow), isV6)...),
			ssrf.WithAllowedV6Prefixes(slices.DeleteFunc(slices.Clone(allow), isV4)...),
		),
	}, nil
}

// plainPrefixes turns IPv4 blocks written in IPv6 form into IPv4 ones. A
// prefix in that form contains no IPv4 address, so a deny list with one in it
// would fail open.
func plainPrefixes(in []netip.Prefix) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(in))
	for _, p := range in {
		if !p.IsValid() {
			return nil, fmt.Errorf("invalid block %v", p)
		}
		if p.Addr().Is4In6() {
			if p.Bits() < 96 {
				return nil, fmt.Errorf("block %v mixes IPv4 and IPv6", p)
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// judge returns a *BlockedError unless a connection to ap is allowed, or another
// error when it cannot tell. The order matters: ourselves, denied blocks, metadata and the machine come before
// the registry because the registry looks at the allowed blocks first.
func (g *guard) judge(ap netip.AddrPort) error {
	addr := ap.Addr()
	switch {
	case !addr.IsValid():
		return &BlockedError{ap, "not an address"}
	case addr.Zone() != "":
		// A zoned address is in no prefix at all: every list below would miss it.
		return &BlockedError{ap, "address with a zone"}
	}
	addr = addr.Unmap()
	ap = netip.AddrPortFrom(addr, ap.Port())
	local, err := g.own.has(addr)
	if err != nil {
		return err
	}
	switch {
	case g.isSelf(ap, local):
		return &BlockedError{ap, "own listen address"}
	case contains(g.deny, addr):
		return &BlockedError{ap, "denied block"}
	case !g.allowMetadata && contains(metadata, addr):
		return &BlockedError{ap, "link-local or metadata address"}
	case local && !contains(g.allow, addr):
		return &BlockedError{ap, "address of this machine"}
	case !g.portAllowed(ap.Port()):
		return &BlockedError{ap, "port"}
	}
	if v4, ok := embeddedIPv4(addr); ok {
		// Reached only in effect when the operator opened such a range: what a
		// translator makes of the address has to be allowed as well.
		if err := g.judge(netip.AddrPortFrom(v4, ap.Port())); err != nil {
			return err
		}
	}
	if err := g.registry.SafeAddr(addr); err != nil {
		return &BlockedError{ap, "special-purpose address"}
	}
	return nil
}

// refuses reports whether ap is forbidden as far as can be told now; the dial
// judges again.
func (g *guard) refuses(ap netip.AddrPort) bool {
	_, blocked := errors.AsType[*BlockedError](g.judge(ap))
	return blocked
}

// control is the last look before connect(2), at the address the kernel is
// about to use. It has the form of net.Dialer.Control.
func (g *guard) control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return &BlockedError{Rule: "network " + network}
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &BlockedError{Rule: "unreadable address"}
	}
	return g.judge(ap)
}

func (g *guard) portAllowed(port uint16) bool {
	if len(g.ports) > 0 {
		return slices.Contains(g.ports, port)
	}
	if port == 80 || port == 443 {
		return true
	}
	_, blocked := slices.BinarySearch(blockedPorts, port)
	return port >= 1024 && !blocked
}

// isSelf reports whether a connection to ap would end at this process, which
// could deliver to itself in a loop. local says that the address is one of this
// machine's.
func (g *guard) isSelf(ap netip.AddrPort, local bool) bool {
	if g.self == nil {
		return false
	}
	for _, own := range g.self() {
		if own.Port() != ap.Port() {
			continue
		}
		addr := own.Addr().Unmap().WithZone("")
		// Connecting to 0.0.0.0 reaches the local host.
		if addr == ap.Addr() || ap.Addr().IsUnspecified() {
			return true
		}
		if local && (!addr.IsValid() || addr.IsUnspecified()) {
			return true
		}
	}
	return false
}

func contains(list []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}

var (
	nat64        = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour    = netip.MustParsePrefix("2002::/16")
	v4Compatible = netip.MustParsePrefix("::/96")
)

// embeddedIPv4 returns the IPv4 address that a translator or tunnel takes out
// of an IPv6 address. The obsolete ::a.b.c.d form shares its block with :: and
// ::1, which are not IPv4 addresses.
func embeddedIPv4(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	switch {
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case nat64.Contains(addr),
		v4Compatible.Contains(addr) && !addr.IsUnspecified() && !addr.IsLoopback():
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return netip.Addr{}, false
}
