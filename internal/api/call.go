package api

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// call is what the API knows about the request being served. It is made by
// serve and filled in by admit, before any handler sees it.
type call struct {
	id     string     // request id
	peer   string     // address and port
	client netip.Addr // as trusted proxies tell it; invalid: the peer
	now    time.Time
	route  *route
	path   string       // of the request, objects as the client named them
	key    *hook.APIKey // nil on routes that need none
	tenant hook.ID      // of the path; 0: every tenant the key may see
	query  url.Values
	hops   int // of a request that is itself a delivery
	// release gives back what the answer holds; nil: nothing.
	release func()
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// callBy returns the call that is answered through w. Handlers of our own find
// it there: a value in the context costs a copy of the whole request.
func callBy(w http.ResponseWriter) *call {
	if a, ok := w.(*answer); ok {
		return &a.call
	}
	return &call{}
}

// callOf returns the call of a request that huma serves. It hands its handlers
// nothing but a context, so this is the one value that travels in it.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// oneTenant returns the tenant of a route that needs exactly one.
func (c *call) oneTenant() (hook.ID, error) {
	if c.tenant == 0 {
		return 0, errTenantRequired
	}
	return c.tenant, nil
}

// letGo gives back what the answer held.
func (c *call) letGo() {
	if c.release != nil {
		c.release()
	}
}

// remote returns the address of the client: the peer's, unless the peer is a
// proxy that the operator trusts to tell it. Headers of others are not
// believed: they would let a client escape the limit on bad keys.
func (c *call) remote() netip.Addr {
	if c.client.IsValid() {
		return c.client
	}
	return peerAddr(c.peer)
}
