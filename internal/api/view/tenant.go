package view

import (
	"encoding/json"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Tenant is a tenant as the API shows it.
type Tenant struct {
	ID        string            `json:"id"`
	UID       *string           `json:"uid"`
	Name      string            `json:"name"`
	Policy    json.RawMessage   `json:"policy" doc:"The tenant's policy level."`
	Limits    Limits            `json:"limits"`
	Metadata  map[string]string `json:"metadata"`
	CreatedAt Stamp             `json:"created_at"`
	UpdatedAt Stamp             `json:"updated_at"`
	Version   int64             `json:"version"`
	Warnings  []string          `json:"warnings,omitempty" doc:"Soft findings about the policy, after a write."`
}

// Limits is what one tenant may use; 0 means the server's setting.
type Limits struct {
	EventsPerSecond float64 `json:"events_per_second" required:"false" minimum:"0" maximum:"1000000"`
	MaxPending      int64   `json:"max_pending" required:"false" minimum:"0"`
	MaxEndpoints    int64   `json:"max_endpoints" required:"false" minimum:"0"`
	MaxStoredBytes  int64   `json:"max_stored_bytes" required:"false" minimum:"0"`
}

// OfTenant shows a tenant.
func OfTenant(t hook.Tenant) Tenant {
	return Tenant{
		ID:        hook.TenantPrefix.Format(t.ID),
		UID:       Nullable(t.UID),
		Name:      t.Name,
		Policy:    OrEmpty(t.Policy),
		Limits:    Limits(t.Limits),
		Metadata:  OrEmptyMap(t.Metadata),
		CreatedAt: Stamp(t.CreatedAt),
		UpdatedAt: Stamp(t.UpdatedAt),
		Version:   t.Rev,
	}
}
