package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

func redirectTo(status int, location string) string {
	return fmt.Sprintf("HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status, location)
}

func following(hops int) func(*egress.Request) {
	return func(r *egress.Request) { r.FollowRedirects, r.MaxHops = true, hops }
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	canary := newCanary(t, "127.0.0.1:0")
	for _, status := range []int{301, 302, 303, 307, 308} {
		e := newEvil(t, answering(redirectTo(status, canary.url())))
		res := send(t, newClient(t, nil), e.url(), nil)
		wantStatus(t, res, status)
		if got := res.Header.Get("Location"); got != canary.url() {
			t.Errorf("location = %q, want it kept", got)
		}
	}
}

func TestOnlyRepeatableRedirectsAreFollowed(t *testing.T) {
	t.Parallel()
	canary := newCanary(t, "127.0.0.1:0")
	for _, status := range []int{300, 301, 302, 303, 304, 305, 306} {
		e := newEvil(t, answering(redirectTo(status, canary.url())))
		wantStatus(t, send(t, newClient(t, nil), e.url(), following(3)), status)
	}
}

// visits records requests in the order of their arrival.
type visits struct {
	mu   sync.Mutex
	list []visit
}

type visit struct {
	path, body string
	header     http.Header
}

func (v *visits) serve(answer func(path string) string) func(net.Conn) {
	return func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			req, body, err := readRequest(r)
			if err != nil {
				return
			}
			v.mu.Lock()
			v.list = append(v.list, visit{req.URL.Path, string(body), req.Header})
			v.mu.Unlock()
			if _, err := io.WriteString(c, answer(req.URL.Path)); err != nil {
				return
			}
		}
	}
}

func (v *visits) paths() (out []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, one := range v.list {
		out = append(out, one.path)
	}
	return out
}

func TestFollowKeepsMethodAndBody(t *testing.T) {
	t.Parallel()
	var v visits
	e := newEvil(t, v.serve(func(path string) string {
		switch path {
		case "/hook":
			return redirectTo(307, "two?x=1#frag")
		case "/two":
			return redirectTo(308, "/three")
		default:
			return ok200
		}
	}))
	wantStatus(t, send(t, newClient(t, nil), e.url(), following(2)), 200)
	if got := v.paths(); !slices.Equal(got, []string{"/hook", "/two", "/three"}) {
		t.Fatalf("visited %v", got)
	}
	for _, one := range v.list {
		if one.body != `{"n":1}` || one.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s got body %q, headers %v", one.path, one.body, one.header)
		}
	}
}

func TestTooManyHopsEndTheTrip(t *testing.T) {
	t.Parallel()
	var v visits
	e := newEvil(t, v.serve(func(path string) string { return redirectTo(307, path+"x") }))
	wantStatus(t, send(t, newClient(t, nil), e.url(), following(3)), 307)
	if got := v.paths(); !slices.Equal(got, []string{"/hook", "/hookx", "/hookxx", "/hookxxx"}) {
		t.Errorf("visited %v, want the first and 3 hops", got)
	}
}

func TestHopsAreGuarded(t *testing.T) {
	t.Parallel()
	canary := newCanary(t, "127.0.0.2:0")
	narrow := func(c *egress.Config) {
		c.DenyCIDR = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
		c.Resolver = resolveTo("127.0.0.2")
	}
	for _, location := range []string{
		canary.url(),
		fmt.Sprintf("http://inside.test:%d/", canary.addr.Port()),
		"http://169.254.169.254/latest",
		"//127.0.0.2:" + strconv.Itoa(int(canary.addr.Port())),
		"http://127.0.0.1:22/",
	} {
		e := newEvil(t, answering(redirectTo(308, location)))
		res := send(t, newClient(t, narrow), e.url(), following(3))
		wantReason(t, res, hook.BlockedAddress)
		if res.RemoteAddr != "" || res.Status != 0 {
			t.Errorf("%s: result %+v says too much", location, res)
		}
	}
}

func TestBadLocationsEndTheTrip(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"", "gopher://example.com/", "http://u:p@127.0.0.1/", "http://%zz/", "http://2130706433/"} {
		e := newEvil(t, answering(redirectTo(307, location)))
		wantStatus(t, send(t, newClient(t, nil), e.url(), following(3)), 307)
	}
}

func TestNeverFromTLSToPlain(t *testing.T) {
	t.Parallel()
	canary := newCanary(t, "127.0.0.1:0")
	ca := newAuthority(t)
	_, url := newEvilTLS(t, tlsConfig(ca.issue(t, nil)), answering(redirectTo(307, canary.url())))
	c := newClient(t, func(cfg *egress.Config) { cfg.CAFile = ca.file })
	wantStatus(t, send(t, c, url, following(3)), 307)
}

func TestPrivateHeadersStayBehindAtAnotherHost(t *testing.T) {
	t.Parallel()
	var v visits
	var first, second *evil
	second = newEvil(t, v.serve(func(string) string { return redirectTo(307, first.url()+"/back") }))
	first = newEvil(t, v.serve(func(path string) string {
		switch path {
		case "/hook":
			return redirectTo(307, "/same")
		case "/same":
			return redirectTo(307, second.url())
		default:
			return ok200
		}
	}))
	given := []egress.Field{{"Authorization", "secret"}, {"Webhook-Id", "evt_1"}, {"x-acme-signature", "t=1"}}
	before := slices.Clone(given)
	res := send(t, newClient(t, nil), first.url(), func(r *egress.Request) {
		following(5)(r)
		r.Header = given
		r.DropOnHostChange = []string{"authorization", "X-Acme-Signature"}
	})
	wantStatus(t, res, 200)
	if !slices.Equal(given, before) {
		t.Errorf("the caller's headers were changed: %v", given)
	}
	var got []string
	for _, one := range v.list {
		got = append(got, fmt.Sprintf("%s %t %t %s", one.path, one.header.Get("Authorization") != "",
			one.header.Get("X-Acme-Signature") != "", one.header.Get("Webhook-Id")))
	}
	want := []string{
		"/hook true true evt_1",
		"/same true true evt_1",
		"/hook false false evt_1",      // at the other host
		"/hook/back false false evt_1", // coming home does not bring them back
	}
	if !slices.Equal(got, want) {
		t.Errorf("arrived:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
