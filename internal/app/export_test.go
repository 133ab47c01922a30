package app

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Announced is what a keeper tells.
type Announced func(event string, tenant, endpoint hook.ID, detail map[string]any)

// Bell is what a keeper rings.
type Bell interface {
	EndpointChanged(tenant, endpoint hook.ID)
}

// NewKeeper returns the keeper of endpoints by itself.
func NewKeeper(db store.DB, ids *hook.IDSource, b Bell, tell Announced) dispatch.Keeper {
	return &keeper{store: db, ids: ids, bell: b, announce: tell}
}

// ParseLimits is PolicyLimits.parse for tests.
func ParseLimits(l PolicyLimits) (*policy.Limits, error) { return l.parse() }

// ServePprof is servePprof for tests; Allows says whether deliveries may go to
// a URL.
func (a *App) ServePprof(ctx context.Context) error { return a.servePprof(ctx) }

// Allows says whether deliveries may go to a URL.
func (a *App) Allows(url string) bool {
	_, err := a.client.CheckURL(url)
	return err == nil
}

// PprofAddr is where profiles are served, empty before.
func (a *App) PprofAddr() string {
	if addr := a.pprofListener.Load(); addr != nil {
		return addr.String()
	}
	return ""
}
