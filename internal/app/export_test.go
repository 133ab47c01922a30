package app

import (
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
