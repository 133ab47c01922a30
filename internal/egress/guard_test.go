package egress_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// refusedIPv4 holds at least the first and the last address of every block
// that is closed by default.
var refusedIPv4 = []string{
	"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255",
	"127.0.0.1", "127.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.255.255",
	"172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.255", "192.0.2.0", "192.0.2.255",
	"192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.0.0", "192.168.255.255",
	"192.175.48.1", "198.18.0.0", "198.19.255.255", "198.51.100.7", "203.0.113.0", "203.0.113.255",
	"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
	"168.63.129.16", "100.100.100.200", "192.0.0.192",
}

var refusedIPv6 = []string{
	"::", "::1", "::ffff:7f00:1", "0:0:0:0:0:ffff:a9fe:a9fe", "::127.0.0.1", "::ffff:10.0.0.1",
	"64:ff9b::a9fe:a9fe", "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2002:808:808::1",
	"2001:0:7f00:1::", "2001:1ff:ffff::1", "2001:db8::1", "3fff::1", "3fff:fff::1",
	"fe80::1", "febf::1", "fec0::1", "fc00::1", "fdff::1", "fd00:ec2::254", "fd20:ce::254",
	"100::1", "5f00::1", "ff02::1", "2620:4f:8000::1", "1000::1", "4000::1",
}

var publicAddresses = []string{
	"100.63.255.255", "100.128.0.1", "172.32.0.1", "172.15.255.255", "192.0.1.1", "198.20.0.1", "198.17.255.255",
	"223.255.255.255", "8.8.8.8", "1.1.1.1", "11.0.0.1", "126.255.255.255", "128.0.0.1", "168.63.129.17",
	"2606:4700:4700::1111", "2001:200::1", "2a00:1450::1", "::ffff:8.8.8.8", "2620:4f:8001::1",
}

func urlOf(addr string, port uint16) string {
	return "http://" + net.JoinHostPort(addr, strconv.Itoa(int(port))) + "/"
}

// wantRefused tries an address in every way in: as an endpoint, planted in the
// store, and behind a name.
func wantRefused(t *testing.T, cfg egress.Config, addr string, port uint16) {
	t.Helper()
	cfg.Resolver = resolver(func(context.Context, string) ([]netip.Addr, error) {
		a, err := netip.ParseAddr(addr)
		return []netip.Addr{a}, err
	})
	c := mustNew(t, cfg)
	literal := urlOf(strings.ReplaceAll(addr, "%", "%25"), port)
	var urlErr *egress.URLError
	if _, err := c.CheckURL(literal); !errors.As(err, &urlErr) || !urlErr.Blocked {
		t.Errorf("CheckURL(%s) = %v, want blocked", literal, err)
	}
	wantReason(t, send(t, c, literal, nil), hook.BlockedAddress)
	wantReason(t, send(t, c, fmt.Sprintf("http://name.test:%d/", port), nil), hook.BlockedAddress)
}

func TestSpecialIPv4AddressesAreRefused(t *testing.T) {
	t.Parallel()
	canary := newCanary(t, "127.0.0.1:0")
	for _, addr := range refusedIPv4 {
		t.Run(addr, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, egress.Config{}, addr, canary.addr.Port())
			wantRefused(t, egress.Config{}, addr, 80)
		})
	}
}

func TestNamesOfThisMachineAreRefused(t *testing.T) {
	t.Parallel()
	canary := newCanary(t, "127.0.0.1:0")
	local := resolver(func(_ context.Context, host string) ([]netip.Addr, error) {
		if strings.Contains(strings.ToLower(host), "localhost") {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		return nil, &net.DNSError{IsNotFound: true}
	})
	c := mustNew(t, egress.Config{Resolver: local})
	for _, host := range []string{"localhost", "LOCALHOST.", "a.localhost", "0", "127.1"} {
		res := send(t, c, fmt.Sprintf("http://%s:%d/", host, canary.addr.Port()), nil)
		wantReason(t, res, hook.BlockedAddress)
	}
}

func TestPublicAddressesPass(t *testing.T) {
	t.Parallel()
	c := mustNew(t, egress.Config{})
	for _, addr := range publicAddresses {
		if _, err := c.CheckURL(urlOf(addr, 443)); err != nil {
			t.Errorf("%s: %v, want it to pass", addr, err)
		}
	}
}

func TestSpecialIPv6AddressesAreRefused(t *testing.T) {
	t.Parallel()
	for _, addr := range append(refusedIPv6, "fe80::1%lo", "2606:4700::1%eth0", "::1%1") {
		t.Run(addr, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, egress.Config{}, addr, 8080)
		})
	}
}

// Whatever the blocks, an IPv4 address is judged alike in its plain and in its
// mapped form.
func TestMappedFormsAreJudgedAlike(t *testing.T) {
	t.Parallel()
	c := mustNew(t, egress.Config{
		AllowCIDR: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("::ffff:192.168.0.0/112")},
		DenyCIDR:  []netip.Prefix{netip.MustParsePrefix("::ffff:8.0.0.0/104")},
	})
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom([]byte{0, 8, 10, 100, 127, 169, 172, 192, 198, 203, 223, 224, 255}).Draw(t, "first")
		rest := rapid.SliceOfN(rapid.Byte(), 3, 3).Draw(t, "rest")
		v4 := netip.AddrFrom4([4]byte{first, rest[0], rest[1], rest[2]})
		_, plain := c.CheckURL(urlOf(v4.String(), 80))
		_, mapped := c.CheckURL(urlOf(netip.AddrFrom16(v4.As16()).String(), 80))
		if (plain == nil) != (mapped == nil) {
			t.Fatalf("%v: plain %v, mapped %v", v4, plain, mapped)
		}
		if first == 8 && plain == nil {
			t.Fatalf("%v passes although its block is denied", v4)
		}
	})
}

func TestRebindingReachesNothing(t *testing.T) {
	t.Parallel()
	canary := newCanary(t, "127.0.0.1:0")
	target := fmt.Sprintf("http://rebind.test:%d/", canary.addr.Port())
	for name, answers := range map[string][]string{
		"private":            {"127.0.0.1"},
		"public and private": {"8.8.8.8", "127.0.0.1"},
		"private last of v6": {"2606:4700:4700::1111", "8.8.8.8", "::ffff:127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustNew(t, egress.Config{Resolver: resolveTo(answers...)})
			if _, err := c.CheckURL(target); err != nil {
				t.Fatalf("creation looked the name up: %v", err)
			}
			start := time.Now()
			wantReason(t, send(t, c, target, nil), hook.BlockedAddress)
			if took := time.Since(start); took > soon {
				t.Errorf("took %v: something was dialled", took)
			}
		})
	}
}

// The address is judged once more on the socket itself: here it becomes one of
// our own between the first look and the second.
func TestAddressIsJudgedAgainAtConnect(t *testing.T) {
	t.Parallel()
	canary := newCanary(t, "127.0.0.1:0")
	var looks atomic.Int64
	c := newClient(t, func(cfg *egress.Config) {
		cfg.Resolver = resolveTo("127.0.0.1")
		cfg.Self = func() []netip.AddrPort {
			if looks.Add(1) == 1 {
				return nil
			}
			return []netip.AddrPort{canary.addr}
		}
	})
	wantReason(t, send(t, c, urlOf("name.test", canary.addr.Port()), nil), hook.BlockedAddress)
	if n := looks.Load(); n != 2 {
		t.Errorf("judged %d times, want 2", n)
	}
}

func TestFailedLookupIsNotLeave(t *testing.T) {
	t.Parallel()
	c := newClient(t, func(cfg *egress.Config) {
		cfg.Resolver = resolver(func(context.Context, string) ([]netip.Addr, error) {
			// Addresses that come with an error are not to be used.
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, &net.DNSError{Err: "server misbehaving", IsTemporary: true}
		})
	})
	canary := newCanary(t, "127.0.0.1:0")
	wantReason(t, send(t, c, fmt.Sprintf("http://sick.test:%d/", canary.addr.Port()), nil), hook.DNSError)
}

func TestHarmfulPortsAreRefused(t *testing.T) {
	t.Parallel()
	c := mustNew(t, egress.Config{Dev: true, Resolver: resolveTo("127.0.0.1")})
	for _, port := range []uint16{1, 22, 25, 81, 1023, 2049, 3306, 5432, 6379, 9200, 11211, 27017} {
		for _, host := range []string{"name.test", "127.0.0.1"} {
			target := urlOf(host, port)
			var urlErr *egress.URLError
			if _, err := c.CheckURL(target); !errors.As(err, &urlErr) || !urlErr.Blocked {
				t.Errorf("CheckURL(%s) = %v, want blocked", target, err)
			}
			wantReason(t, send(t, c, target, nil), hook.BlockedAddress)
		}
	}
	for _, port := range []uint16{80, 443, 1024, 3000, 8080, 8443, 9093, 65535} {
		if _, err := c.CheckURL(urlOf("127.0.0.1", port)); err != nil {
			t.Errorf("port %d: %v", port, err)
		}
	}
	for _, target := range []string{"http://a.test:99999/", "http://a.test:0/", "http://a.test:x/", "http://a.test:-1/"} {
		if _, err := c.CheckURL(target); err == nil {
			t.Errorf("CheckURL(%s) passes", target)
		}
	}
}

func TestOperatorPortsReplaceTheRule(t *testing.T) {
	t.Parallel()
	c := mustNew(t, egress.Config{Ports: []uint16{22, 6379}})
	for port, pass := range map[uint16]bool{22: true, 6379: true, 80: false, 443: false, 8080: false} {
		if _, err := c.CheckURL(urlOf("8.8.8.8", port)); (err == nil) != pass {
			t.Errorf("port %d: %v, want pass %v", port, err, pass)
		}
	}
}

func TestNoDeliveryToOurselves(t *testing.T) {
	t.Parallel()
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	canary := newCanary(t, "0.0.0.0:0")
	port := canary.addr.Port()
	self := func(addr string) func() []netip.AddrPort {
		return func() []netip.AddrPort {
			return []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr(addr), port)}
		}
	}
	targets := map[string][]string{
		"127.0.0.1":        {"127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0", "64:ff9b::7f00:1"},
		"0.0.0.0":          {"127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::"},
		"::":               {"127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::"},
		"::ffff:127.0.0.1": {"127.0.0.1"},
	}
	for _, a := range interfaceAddresses(t) {
		targets["::"] = append(targets["::"], a)
		targets[a] = append(targets[a], a)
	}
	for own, list := range targets {
		for _, addr := range list {
			wantRefused(t, egress.Config{AllowCIDR: everything, Dev: true, AllowMetadata: true, Self: self(own)}, addr, port)
		}
	}
	c := mustNew(t, egress.Config{Dev: true, Self: self("127.0.0.1")})
	for _, other := range []string{urlOf("127.0.0.1", 8099), urlOf("10.0.0.1", port)} {
		if _, err := c.CheckURL(other); err != nil {
			t.Errorf("CheckURL(%s) = %v, but that is not us", other, err)
		}
	}
}

// TestAddressesOfTheMachine: other services of this machine are no
// destinations, not even on its public address.
func TestAddressesOfTheMachine(t *testing.T) {
	t.Parallel()
	interfaces := func() ([]net.Addr, error) {
		return []net.Addr{
			&net.IPNet{IP: net.ParseIP("8.8.4.4"), Mask: net.CIDRMask(24, 32)},
			&net.IPNet{IP: net.ParseIP("2a00:1450::7"), Mask: net.CIDRMask(64, 128)},
		}, nil
	}
	for _, addr := range []string{"8.8.4.4", "::ffff:8.8.4.4", "2a00:1450::7", "64:ff9b::808:404"} {
		wantRefused(t, egress.Config{Interfaces: interfaces}, addr, 8443)
		wantRefused(t, egress.Config{Interfaces: interfaces, Dev: true}, addr, 8443)
	}
	c := mustNew(t, egress.Config{Interfaces: interfaces})
	for _, neighbour := range []string{"8.8.4.5", "2a00:1450::8"} {
		if _, err := c.CheckURL(urlOf(neighbour, 8443)); err != nil {
			t.Errorf("CheckURL(%s) = %v, but that is another machine", neighbour, err)
		}
	}
	named := mustNew(t, egress.Config{Interfaces: interfaces, AllowCIDR: []netip.Prefix{netip.MustParsePrefix("8.8.4.0/24")}})
	if _, err := named.CheckURL(urlOf("8.8.4.4", 8443)); err != nil {
		t.Errorf("allowed by name: %v", err)
	}
	if _, err := named.CheckURL(urlOf("2a00:1450::7", 8443)); err == nil {
		t.Error("the other address of the machine is open too")
	}
}

// TestUnreadableInterfaces: a destination that cannot be judged is not refused
// for good, and not sent to.
func TestUnreadableInterfaces(t *testing.T) {
	t.Parallel()
	c := mustNew(t, egress.Config{Interfaces: func() ([]net.Addr, error) { return nil, errors.New("too many open files") }})
	wantReason(t, send(t, c, urlOf("8.8.4.4", 8443), nil), hook.LocalError)
}

func interfaceAddresses(t *testing.T) []string {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range list {
		if ip, ok := netip.AddrFromSlice(a.(*net.IPNet).IP); ok && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			out = append(out, ip.Unmap().String())
		}
	}
	return out
}

func TestOperatorOpensPrivateTargets(t *testing.T) {
	t.Parallel()
	prefixes := func(list ...string) (out []netip.Prefix) {
		for _, p := range list {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	for name, tc := range map[string]struct {
		cfg        egress.Config
		pass, fail []string
	}{
		"one block": {
			cfg:  egress.Config{AllowCIDR: prefixes("10.0.0.0/8")},
			pass: []string{"10.1.2.3", "8.8.8.8"},
			fail: []string{"192.168.0.1", "169.254.169.254", "127.0.0.1"},
		},
		"everything but metadata": {
			cfg:  egress.Config{AllowCIDR: prefixes("0.0.0.0/0", "::/0")},
			pass: []string{"10.1.2.3", "127.0.0.1", "::1", "fd12::1", "64:ff9b::8.8.8.8"},
			fail: []string{
				"169.254.169.254", "fe80::1", "fd00:ec2::254", "168.63.129.16", "100.100.100.200",
				"64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::169.254.169.254", "::ffff:169.254.169.254",
			},
		},
		"metadata by its own key": {
			cfg:  egress.Config{AllowMetadata: true},
			pass: []string{"169.254.169.254", "fd00:ec2::254", "168.63.129.16"},
			fail: []string{"10.0.0.1", "127.0.0.1", "fd00:ec2::255"},
		},
		"deny wins over all": {
			cfg: egress.Config{
				AllowCIDR: prefixes("0.0.0.0/0"), AllowMetadata: true, Dev: true,
				DenyCIDR: prefixes("10.5.0.0/16", "169.254.169.254/32", "8.8.0.0/16", "2606:4700::/32"),
			},
			pass: []string{"10.4.0.1", "169.254.1.1", "8.9.0.1"},
			fail: []string{"10.5.0.1", "169.254.169.254", "8.8.8.8", "::ffff:8.8.8.8", "2606:4700::1"},
		},
		"dev": {
			cfg:  egress.Config{Dev: true},
			pass: []string{"127.0.0.1", "::1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "fd12::1"},
			fail: []string{"169.254.169.254", "fe80::1", "fd00:ec2::254", "0.0.0.0", "224.0.0.1", "100.64.0.1"},
		},
		"NAT64 opens no private address": {
			cfg:  egress.Config{AllowCIDR: prefixes("64:ff9b::/96")},
			pass: []string{"64:ff9b::8.8.8.8"},
			fail: []string{"64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustNew(t, tc.cfg)
			for _, addr := range tc.pass {
				if _, err := c.CheckURL(urlOf(addr, 80)); err != nil {
					t.Errorf("%s: %v, want it to pass", addr, err)
				}
			}
			for _, addr := range tc.fail {
				wantRefused(t, tc.cfg, addr, 80)
			}
		})
	}
}

func TestOpenedTargetIsDelivered(t *testing.T) {
	t.Parallel()
	e := newEvil(t, answering(ok200))
	wantReason(t, send(t, mustNew(t, egress.Config{}), e.url(), nil), hook.BlockedAddress)
	wantStatus(t, send(t, mustNew(t, egress.Config{Dev: true}), e.url(), nil), 200)
	wantStatus(t, send(t, newClient(t, nil), e.url(), nil), 200)
}

func TestRefusalTellsNothingOfTheNetwork(t *testing.T) {
	t.Parallel()
	open := newCanary(t, "127.0.0.1:0")
	closed := newClosed(t)
	c := mustNew(t, egress.Config{Resolver: resolveTo("127.0.0.1")})
	timed := func(target string, best *time.Duration) egress.Result {
		start := time.Now()
		res := send(t, c, target, nil)
		*best = min(*best, time.Since(start))
		return res
	}
	for _, host := range []string{"127.0.0.1", "name.test"} {
		tookOpen, tookClosed := time.Hour, time.Hour
		var resOpen, resClosed egress.Result
		// In turns, and on a busy machine for longer: the quickest of each count.
		for n := 0; n < 20 || n < 2000 && (tookOpen-tookClosed).Abs() > 5*time.Millisecond; n++ {
			resOpen = timed(urlOf(host, open.addr.Port()), &tookOpen)
			resClosed = timed(urlOf(host, closed.Port()), &tookClosed)
		}
		wantReason(t, resOpen, hook.BlockedAddress)
		if diff := cmp.Diff(resOpen, resClosed, cmpopts.IgnoreFields(egress.Result{}, "Err")); diff != "" {
			t.Errorf("%s: open and closed port differ:\n%s", host, diff)
		}
		if d := (tookOpen - tookClosed).Abs(); d > 5*time.Millisecond {
			t.Errorf("%s: open and closed port differ by %v", host, d)
		}
		if resOpen.Text != "destination is not allowed" {
			t.Errorf("text = %q", resOpen.Text)
		}
	}
}
