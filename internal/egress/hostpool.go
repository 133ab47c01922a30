package egress

import (
	"net/netip"
	"slices"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// hostPool is what the pool knows about one address. All of it is used with the
// pool's lock held.
type hostPool struct {
	address netip.AddrPort
	open    int     // being opened, in use or idle
	busy    int     // those without the idle ones
	idle    []*wire // whoever became idle first comes first
	tenants map[hook.ID]share
	waiting []*waiter
}

// share is what one tenant has of a host. A tenant that has nothing and wants
// nothing has none.
type share struct{ busy, waiting int }

// waiter is a request that waits for a connection.
type waiter struct {
	key  poolKey
	turn chan *wire
}

// keptPart is the part of a host's connections that is kept for tenants that have
// few of them: whoever comes when another one has the rest need not wait until
// its requests end.
const keptPart = 8

// allows reports whether a tenant may use one more of the connections to a host,
// of which there are at most so many. As long as others use or want some as well,
// it may have half of them; and half of what is left of those that are kept.
func (at *hostPool) allows(tenant hook.ID, most int) bool {
	own, has := at.tenants[tenant]
	free := most - at.busy
	if 2*own.busy < free {
		return true
	}
	alone := len(at.tenants) == 0 || has && len(at.tenants) == 1
	return free > most/keptPart && (alone || own.busy < (most+1)/2)
}

// change adds to the tenant's share.
func (at *hostPool) change(tenant hook.ID, busy, waiting int) {
	s := at.tenants[tenant]
	s.busy += busy
	s.waiting += waiting
	at.busy += busy
	if s == (share{}) {
		delete(at.tenants, tenant)
		return
	}
	at.tenants[tenant] = s
}

func (at *hostPool) use(tenant hook.ID)   { at.change(tenant, 1, 0) }
func (at *hostPool) unuse(tenant hook.ID) { at.change(tenant, -1, 0) }

func (at *hostPool) line(w *waiter) {
	at.waiting = append(at.waiting, w)
	at.change(w.key.tenant, 0, 1)
}

// leave reports whether w was waiting.
func (at *hostPool) leave(w *waiter) bool {
	i := slices.Index(at.waiting, w)
	if i >= 0 {
		at.waiting = slices.Delete(at.waiting, i, i+1)
		at.change(w.key.tenant, 0, -1)
	}
	return i >= 0
}
