package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// MaxURLLength bounds the URL of an endpoint, in bytes.
const MaxURLLength = 2048

// URLError is a URL that breaks a rule. Message names the rule and follows the
// name of a field: "must use http or https".
type URLError struct {
	Message string
	// Blocked is set when the URL is well formed but leads where no delivery
	// may go.
	Blocked bool
}

func (e *URLError) Error() string { return "url " + e.Message }

var errTooLong = badURL(fmt.Sprintf("must be at most %d bytes long", MaxURLLength))

func badURL(message string) error     { return &URLError{Message: message} }
func blockedURL(message string) error { return &URLError{Message: message, Blocked: true} }

// CheckURL validates the URL of an endpoint and returns the form to store and
// show: lower case and punycode host, escaped path and query. Errors are
// *URLError. Names are not resolved: this is an early answer for people, the
// defence is at dial.
func (c *Client) CheckURL(raw string) (string, error) {
	u, err := c.parseURL(raw)
	if err != nil {
		return "", err
	}
	stored := u.String()
	if len(stored) > MaxURLLength { // escaping makes it longer
		return "", errTooLong
	}
	return stored, nil
}

// parseURL applies every rule that needs no lookup. Send calls it as well, so
// that a URL which got into the store in some other way is refused all the same.
func (c *Client) parseURL(raw string) (*url.URL, error) {
	if err := checkCharacters(raw); err != nil {
		return nil, err
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, badURL("is not a valid URL")
	}
	if err := c.checkShape(u, raw); err != nil {
		return nil, err
	}
	u.RawQuery = escapeQuery(u.RawQuery)
	port, err := portOf(u)
	if err != nil {
		return nil, err
	}
	if u.Host, err = c.checkHost(u, port); err != nil {
		return nil, err
	}
	return u, nil
}

// maxKnown bounds the URLs that are remembered; past it, memory starts anew.
const maxKnown = 10_000

// knownURL is parseURL for a URL that is sent to again and again. What it
// allowed once it allows always: its rules do not change, and addresses are
// judged when a connection is opened.
func (c *Client) knownURL(raw string) (*url.URL, error) {
	if u, ok := c.known.Load(raw); ok {
		return u.(*url.URL), nil
	}
	u, err := c.parseURL(raw)
	if err != nil {
		return nil, err
	}
	if c.knownCount.Add(1) > maxKnown {
		c.known.Clear()
		c.knownCount.Store(1)
	}
	c.known.Store(raw, u)
	return u, nil
}

func checkCharacters(raw string) error {
	switch {
	case raw == "":
		return badURL("must not be empty")
	case len(raw) > MaxURLLength:
		return errTooLong
	case !utf8.ValidString(raw):
		return badURL("must be valid UTF-8")
	case strings.ContainsFunc(raw, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }):
		return badURL("must not contain spaces or control characters")
	}
	return nil
}

func (c *Client) checkShape(u *url.URL, raw string) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return badURL("must use http or https")
	case u.Scheme == "http" && c.requireHTTPS:
		return badURL("must use https")
	case u.Opaque != "", u.Hostname() == "":
		return badURL("must have the form https://host/path")
	case u.User != nil:
		return badURL("must not contain a user name or password")
	case strings.Contains(raw, "#"):
		return badURL("must not contain a fragment")
	}
	return nil
}

// portOf returns the port that the URL leads to.
func portOf(u *url.URL) (uint16, error) {
	text := u.Port()
	if text == "" {
		if u.Scheme == "https" {
			return 443, nil
		}
		return 80, nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, badURL("must have a port between 1 and 65535")
	}
	return uint16(port), nil
}

// checkHost returns the host, with its port if the URL names one, in the form
// that is stored. Addresses, and the one name that always means an address,
// are judged here.
func (c *Client) checkHost(u *url.URL, port uint16) (string, error) {
	host, err := asciiHost(u.Hostname())
	if err != nil {
		return "", err
	}
	if !c.guard.portAllowed(port) {
		return "", blockedURL(fmt.Sprintf("must not use port %d", port))
	}
	switch addr, err := netip.ParseAddr(host); {
	case err == nil:
		if c.guard.refuses(netip.AddrPortFrom(addr, port)) {
			return "", blockedURL("must not lead to this address")
		}
		if addr.Is6() {
			host = "[" + addr.String() + "]"
		}
	case strings.HasPrefix(u.Host, "["):
		return "", badURL("must have an IPv6 address between brackets")
	case !isName(host):
		return "", badURL("must have a host name or an address in its usual notation")
	case isLocalhost(host):
		if c.guard.refuses(netip.AddrPortFrom(loopback, port)) {
			return "", blockedURL("must not lead to this address")
		}
	}
	if u.Port() == "" {
		return host, nil
	}
	return host + ":" + strconv.Itoa(int(port)), nil
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// asciiHost returns a host in lower case and punycode. Other scripts have
// digits and dots of their own, so an address may only show up afterwards.
func asciiHost(host string) (string, error) {
	if strings.IndexFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return strings.ToLower(host), nil
	}
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return "", badURL("must have a valid host name")
	}
	return ascii, nil
}

// isName reports whether host is made of DNS labels and cannot be taken for an
// address: some resolvers read 127.1, 0x7f000001 and 2130706433 as 127.0.0.1,
// so names that end in a number are none.
func isName(host string) bool {
	host = strings.TrimSuffix(host, ".")
	if host == "" || len(host) > 253 {
		return false
	}
	last := ""
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, notLabelChar) {
			return false
		}
		last = label
	}
	_, err := strconv.ParseUint(last, 0, 64)
	isNumber := err == nil || errors.Is(err, strconv.ErrRange)
	return !isNumber && strings.ContainsFunc(last, func(r rune) bool { return r < '0' || r > '9' })
}

func notLabelChar(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

func isLocalhost(host string) bool {
	host = strings.TrimSuffix(host, ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// escapeQuery escapes what may not stand in a request line. Package url does
// that for the path only.
func escapeQuery(query string) string {
	if strings.IndexFunc(query, notQueryChar) < 0 {
		return query
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; notQueryChar(rune(c)) {
			b.WriteString(string([]byte{'%', hex[c>>4], hex[c&15]}))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func notQueryChar(r rune) bool {
	return r >= utf8.RuneSelf || r == '"' || r == '<' || r == '>'
}
