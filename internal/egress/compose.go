package egress

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

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
	for _, f := range h.req.Header {
		if h.carries(f.Name) {
			to = append(to, f)
		}
	}
	return to
}

// poolKeyOf returns where a checked URL leads.
func poolKeyOf(tenant hook.ID, u *url.URL) poolKey {
	key := poolKey{tenant: tenant, secure: u.Scheme == "https", address: u.Host}
	switch {
	case u.Port() != "":
	case key.secure:
		key.address += ":443"
	default:
		key.address += ":80"
	}
	return key
}

// invalidField reports whether a header could smuggle in another one, by a line
// break in its value for instance.
func invalidField(f Field) bool {
	return !httpguts.ValidHeaderFieldName(f.Name) || !httpguts.ValidHeaderFieldValue(f.Value)
}
