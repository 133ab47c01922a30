package stats

import "github.com/breakwaterhq/breakwater/internal/hook"

// Level is what figures are about.
type Level uint8

// The numbers of levels are stored.
const (
	OfSystem   Level = 0
	OfTenant   Level = 1
	OfEndpoint Level = 2
)

// Subject is an endpoint, a tenant, or the system, whose ID is 0.
type Subject struct {
	Level Level
	ID    hook.ID
}

// Owner is whose figures are counted: an endpoint of a tenant. Without endpoint
// they are the tenant's alone. Gauges of an endpoint need no tenant.
type Owner struct{ Tenant, Endpoint hook.ID }
