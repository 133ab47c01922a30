package rest

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Call is what the server knows about the request being served. It is made by
// serve and filled in by admit, before any handler sees it.
type Call struct {
	ID     string // request id
	Now    time.Time
	Key    *hook.APIKey // nil on routes that need none
	Tenant hook.ID      // of the path; 0: every tenant the key may see
	Hops   int          // of a request that is itself a delivery

	peer   string     // address and port
	client netip.Addr // as trusted proxies tell it; invalid: the peer
	route  *route
	path   string // of the request, objects as the client named them
	query  url.Values
	// claim is that of a request under an idempotency key; nil: there is none.
	// repeated tells that another request has it.
	claim    *hook.Claim
	repeated bool
	// release gives back what the answer holds; nil: nothing.
	release func()
}

type callKey struct{}

func withCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallBy returns the call that is answered through w. Handlers of our own find
// it there: a value in the context costs a copy of the whole request.
func CallBy(w http.ResponseWriter) *Call {
	if a, ok := w.(*answer); ok {
		return &a.call
	}
	return &Call{}
}

// callOf returns the call of a request that huma serves. It hands its handlers
// nothing but a context, so this is the one value that travels in it.
func callOf(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c
	}
	return &Call{}
}

// OneTenant returns the tenant of a route that needs exactly one.
func (c *Call) OneTenant() (hook.ID, error) {
	if c.Tenant == 0 {
		return 0, errTenantRequired
	}
	return c.Tenant, nil
}

// letGo gives back what the answer held.
func (c *Call) letGo() {
	if c.release != nil {
		c.release()
	}
}

// remote returns the address of the client: the peer's, unless the peer is a
// proxy that the operator trusts to tell it. Headers of others are not
// believed: they would let a client escape the limit on bad keys.
func (c *Call) remote() netip.Addr {
	if c.client.IsValid() {
		return c.client
	}
	return peerAddr(c.peer)
}
