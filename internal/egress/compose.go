package egress

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// field is a header with its values.
type field struct {
	name   string
	values []string
}

// compose writes the head of the request, in the order of the standard
// transport: what is always there, then the caller's headers by name.
func (x *exchange) compose(h *hop, fixed string) error {
	x.fields = x.fields[:0]
	for name, values := range h.req.Header {
		if !h.carries(name) {
			continue
		}
		if !isToken(name) || slices.ContainsFunc(values, notHeaderValue) {
			return errors.New("write request: invalid header")
		}
		x.fields = append(x.fields, field{name, values})
	}
	slices.SortFunc(x.fields, func(a, b field) int { return strings.Compare(a.name, b.name) })

	out := x.out[:0]
	out = append(out, "POST "...)
	out = append(out, h.url.RequestURI()...)
	out = append(out, " HTTP/1.1\r\nHost: "...)
	out = append(out, h.url.Host...)
	out = append(out, "\r\n"...)
	out = append(out, fixed...)
	out = append(out, "Content-Length: "...)
	out = strconv.AppendInt(out, int64(len(h.req.Body)), 10)
	out = append(out, "\r\n"...)
	for _, f := range x.fields {
		for _, value := range f.values {
			out = append(out, f.name...)
			out = append(out, ": "...)
			out = append(out, strings.Trim(value, " \t")...)
			out = append(out, "\r\n"...)
		}
	}
	out = append(out, "\r\n"...)
	x.out = out
	return nil
}

// targetOf returns where a checked URL leads.
func targetOf(u *url.URL) target {
	t := target{secure: u.Scheme == "https", address: u.Host}
	switch {
	case u.Port() != "":
	case t.secure:
		t.address += ":443"
	default:
		t.address += ":80"
	}
	return t
}

// isToken reports whether s may be the name of a header.
func isToken(s string) bool {
	for i := range len(s) {
		if !tokenChars[s[i]] {
			return false
		}
	}
	return s != ""
}

var tokenChars = func() (set [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		set[c] = true
	}
	return set
}()

// notHeaderValue reports whether s has a control character in it: with a line
// break in a value, a header could smuggle in another one.
func notHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return true
		}
	}
	return false
}
