package egress

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// compose writes the head of the request, in the order of the standard
// transport: what is always there, then the caller's headers by name.
func (x *exchange) compose(h *hop, fixed string) error {
	x.fields = h.appendFields(x.fields[:0])
	if slices.ContainsFunc(x.fields, invalidField) {
		return errors.New("write request: invalid header")
	}
	slices.SortStableFunc(x.fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })

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
		out = append(out, f.Name...)
		out = append(out, ": "...)
		out = append(out, strings.Trim(f.Value, " \t")...)
		out = append(out, "\r\n"...)
	}
	out = append(out, "\r\n"...)
	x.out = out
	return nil
}

// appendFields appends all headers of the caller that are sent.
func (h *hop) appendFields(to []Field) []Field {
	for _, f := range h.req.Fields {
		if h.carries(f.Name) {
			to = append(to, f)
		}
	}
	for name, values := range h.req.Header {
		if !h.carries(name) {
			continue
		}
		for _, value := range values {
			to = append(to, Field{name, value})
		}
	}
	return to
}

// targetOf returns where a checked URL leads.
func targetOf(tenant hook.ID, u *url.URL) target {
	t := target{tenant: tenant, secure: u.Scheme == "https", address: u.Host}
	switch {
	case u.Port() != "":
	case t.secure:
		t.address += ":443"
	default:
		t.address += ":80"
	}
	return t
}

func invalidField(f Field) bool { return !isToken(f.Name) || notHeaderValue(f.Value) }

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
