package egress_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

func TestCheckURLNormalises(t *testing.T) {
	t.Parallel()
	c := mustNew(t, egress.Config{})
	for in, want := range map[string]string{
		"https://example.com":                   "https://example.com",
		"HTTPS://EXAMPLE.com/Path?Q=1":          "https://example.com/Path?Q=1",
		"https://example.com:/x":                "https://example.com/x",
		"https://example.com:08443/x":           "https://example.com:8443/x",
		"https://bücher.example/ö?q=ü&a=<b>":    "https://xn--bcher-kva.example/%C3%B6?q=%C3%BC&a=%3Cb%3E",
		"https://faß.example/":                  "https://xn--fa-hia.example/",
		"https://ＥＸＡＭＰＬＥ.com/":                  "https://example.com/",
		"https://а.example/":                    "https://xn--80a.example/", // Cyrillic
		"https://under_score.example/":          "https://under_score.example/",
		"https://example.com./":                 "https://example.com./",
		"https://example.com/a%2Fb?c=%20":       "https://example.com/a%2Fb?c=%20",
		"https://8.8.8.8:443/":                  "https://8.8.8.8:443/",
		"https://[2606:4700:4700:0:0:0:0:1111]": "https://[2606:4700:4700::1111]",
		"https://intranet/":                     "https://intranet/",
		"https://1and1.example/":                "https://1and1.example/",
	} {
		got, err := c.CheckURL(in)
		if err != nil || got != want {
			t.Errorf("CheckURL(%q) = %q, %v, want %q", in, got, err, want)
			continue
		}
		if again, err := c.CheckURL(got); err != nil || again != got {
			t.Errorf("CheckURL(%q) = %q, %v: not stable", got, again, err)
		}
	}
}

func TestCheckURLBoundsTheStoredForm(t *testing.T) {
	t.Parallel()
	if got, err := newClient(t, nil).CheckURL("https://example.com/" + strings.Repeat("ü", 400)); err == nil {
		t.Errorf("CheckURL made %d bytes of it", len(got))
	}
}

// wantBad expects a URL to be refused at creation, and when it was planted in
// the store without a lookup or a connection.
func wantBad(t *testing.T, c *egress.Client, raw, message string) {
	t.Helper()
	got, err := c.CheckURL(raw)
	var urlErr *egress.URLError
	if !errors.As(err, &urlErr) || !strings.Contains(urlErr.Message, message) {
		t.Errorf("CheckURL(%q) = %q, %v, want an error with %q", raw, got, err, message)
	}
	wantReason(t, send(t, c, raw, nil), hook.BlockedAddress)
}

func TestOtherScriptsHideNoAddress(t *testing.T) {
	t.Parallel()
	canary := newCanary(t, "127.0.0.1:0")
	c := mustNew(t, egress.Config{Resolver: resolveTo("127.0.0.1")})
	for _, host := range []string{
		"①②⑦.⓪.⓪.①", "１２７.０.０.１", "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "𝟏𝟐𝟕.𝟎.𝟎.𝟏", "１２７。⓪.0．１",
	} {
		raw := fmt.Sprintf("http://%s:%d/", host, canary.addr.Port())
		var urlErr *egress.URLError
		if _, err := c.CheckURL(raw); !errors.As(err, &urlErr) {
			t.Errorf("CheckURL(%q) = %v, want it refused", raw, err)
		}
		wantReason(t, send(t, c, raw, nil), hook.BlockedAddress)
	}
	// Names that only look like local ones are shown for what they are.
	for _, host := range []string{"lоcalhost", "exаmple.com"} {
		got, err := c.CheckURL("http://" + host + "/")
		if err != nil || !strings.Contains(got, "xn--") {
			t.Errorf("CheckURL(%q) = %q, %v, want punycode", host, got, err)
		}
	}
	wantReason(t, send(t, c, fmt.Sprintf("http://lоcalhost:%d/", canary.addr.Port()), nil), hook.BlockedAddress)
}

func TestNumericSpellingsAreRefused(t *testing.T) {
	t.Parallel()
	canary := newCanary(t, "127.0.0.1:0")
	// A resolver that reads them as the C library does.
	c := mustNew(t, egress.Config{Resolver: resolveTo("127.0.0.1")})
	for _, host := range []string{
		"127.1", "2130706433", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "0X7F.1", "127.0.0.1.", "0", "00", "1.2.3.4.5",
		"256.256.256.256", "127.0.0.0x1", "99999999999999999999999", "a.0x1", "a.08",
	} {
		wantBad(t, c, fmt.Sprintf("http://%s:%d/", host, canary.addr.Port()), "host name or an address")
	}
	wantBad(t, c, fmt.Sprintf("http://%%31%%32%%37.0.0.1:%d/", canary.addr.Port()), "not a valid URL")
}

func TestSchemesAndShapesAreChecked(t *testing.T) {
	t.Parallel()
	c := newClient(t, nil)
	for raw, message := range map[string]string{
		"":                          "must not be empty",
		"gopher://example.com/":     "must use http or https",
		"file:///etc/passwd":        "must use http or https",
		"unix:/run/x.sock":          "must use http or https",
		"ftp://example.com/":        "must use http or https",
		"//example.com/":            "must use http or https",
		"example.com/hook":          "must use http or https",
		`http:\\example.com`:        "must have the form",
		"http:example.com":          "must have the form",
		"http:///example.com":       "must have the form",
		"http://":                   "must have the form",
		"http://:80/":               "must have the form",
		"http:/example.com":         "must have the form",
		"https://example.com/#frag": "fragment",
		"https://example.com/#":     "fragment",
		"https://[example.com]/":    "",
		"https://[127.0.0.1]/":      "",
		"https://exa..mple.com/":    "host name",
		"https://.example.com/":     "host name",
		"https://exa,mple.com/":     "host name",
		"https://" + strings.Repeat("a", 64) + ".test/":      "host name",
		"https://" + strings.Repeat("a.", 127) + "test/":     "host name",
		"https://example.com/" + strings.Repeat("a", 2048):   "at most 2048",
		"https://xn--" + strings.Repeat("ü", 70) + ".test/x": "host name",
	} {
		wantBad(t, c, raw, message)
	}
}

func TestUserinfoAndControlCharactersAreRefused(t *testing.T) {
	t.Parallel()
	c := newClient(t, nil)
	for raw, message := range map[string]string{
		"http://example.com@10.0.0.1/":        "user name",
		"http://user:pw@example.com/":         "user name",
		"http://@example.com/":                "user name",
		"http://exa\tmple.com/":               "control characters",
		"http://example.com/\r\nEvil: 1":      "control characters",
		"http://example.com/a b":              "control characters",
		" http://example.com/":                "control characters",
		"http://example.com/\x00":             "control characters",
		"http://example.com/\x7f":             "control characters",
		"http://example.com/\u2028x":          "control characters",
		"http://example.com/\u202egro.elpmax": "control characters",
		"http://example.com/\xff":             "UTF-8",
		"http://exa%00mple.com/":              "not a valid URL",
		"http://exa%0dmple.com/":              "not a valid URL",
		"http://exa%20mple.com/":              "",
		"http://example.com\\@10.0.0.1/":      "not a valid URL",
	} {
		wantBad(t, c, raw, message)
	}
}

func TestRequireHTTPS(t *testing.T) {
	t.Parallel()
	canary := newCanary(t, "127.0.0.1:0")
	c := newClient(t, func(cfg *egress.Config) { cfg.RequireHTTPS = true })
	wantBad(t, c, canary.url(), "must use https")
	if _, err := c.CheckURL("https://example.com/"); err != nil {
		t.Error(err)
	}
}

func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{
		"https://example.com/a?b#c", "http://①②⑦.⓪.⓪.①/", "http://[::ffff:7f00:1]:80/", "http://u:p@h/", "http:a", "http://0x7f.1/",
	} {
		f.Add(seed)
	}
	c := mustNew(f, egress.Config{})
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := c.CheckURL(raw)
		if err != nil {
			var urlErr *egress.URLError
			if !errors.As(err, &urlErr) || urlErr.Message == "" {
				t.Fatalf("CheckURL(%q) = %v, want a *URLError with a message", raw, err)
			}
			return
		}
		u, err := url.Parse(got)
		if err != nil || u.User != nil || u.Fragment != "" || u.Opaque != "" || u.Host != strings.ToLower(u.Host) {
			t.Fatalf("CheckURL(%q) = %q (%v)", raw, got, err)
		}
		for i := range len(got) {
			if got[i] <= ' ' || got[i] >= 0x7f {
				t.Fatalf("CheckURL(%q) = %q with byte %#x in it", raw, got, got[i])
			}
		}
		if again, err := c.CheckURL(got); err != nil || again != got {
			t.Fatalf("CheckURL(%q) = %q, then %q, %v", raw, got, again, err)
		}
	})
}
