package egress

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// follow sends the request and, where the request allows it, goes where the
// answers point. Each hop passes the same rules as the first one; an answer
// that cannot be followed is the result.
func (h *hop) follow() Result {
	u, err := h.client.knownURL(h.req.URL)
	if err != nil {
		return failed(&reasonError{hook.BlockedAddress, err})
	}
	h.url = u
	for hops := 0; ; hops++ {
		res := h.try()
		if !h.req.FollowRedirects || hops >= h.req.MaxHops {
			return res
		}
		next, err := h.next(&res)
		if err != nil {
			return failed(&reasonError{hook.BlockedAddress, err})
		}
		if next == nil {
			return res
		}
		if !strings.EqualFold(next.Host, h.url.Host) {
			// For all later hops: coming back does not bring them back.
			h.dropped = h.req.DropOnHostChange
		}
		h.url = next
	}
}

// next returns where an answer points, nil when it is not to be followed, and
// an error when it leads where no delivery may go.
func (h *hop) next(res *Result) (*url.URL, error) {
	target, ok := h.location(res)
	if !ok {
		return nil, nil
	}
	next, err := h.client.parseURL(target.String())
	if bad, ok := errors.AsType[*URLError](err); ok && bad.Blocked {
		return nil, err
	}
	return next, nil // nil for what is not a URL of ours at all
}

// location reads the answer's target. Only 307 and 308 repeat the method and
// the body, and what was sent over TLS stays on TLS.
func (h *hop) location(res *Result) (*url.URL, bool) {
	if res.Status != http.StatusTemporaryRedirect && res.Status != http.StatusPermanentRedirect {
		return nil, false
	}
	given, err := url.Parse(res.Header.Get("Location"))
	if err != nil || *given == (url.URL{}) {
		return nil, false
	}
	target := h.url.ResolveReference(given)
	target.Fragment, target.RawFragment = "", "" // never sent
	return target, h.url.Scheme == "http" || target.Scheme == "https"
}
