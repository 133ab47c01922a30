package rest

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TenantPath is the tenant of a path.
type TenantPath struct {
	Tenant string `path:"tenant" maxLength:"64" doc:"ten_…, the tenant's uid, or - for every tenant that the key may see."`
}

// TenantParam describes the tenant in the path of a plain route.
func TenantParam() *huma.Param {
	return &huma.Param{
		Name: "tenant", In: "path", Required: true,
		Description: "ten_… or the tenant's uid; - is the key's own tenant.",
		Schema:      &huma.Schema{Type: huma.TypeString},
	}
}

// pathTenant resolves the tenant of the path: an id, a uid, or "-". Another
// tenant and no tenant at all look the same to a tenant's key.
func (s *Server) pathTenant(ctx context.Context, key *hook.APIKey, text string, now time.Time) (hook.ID, error) {
	if text == "" || text == "-" {
		return key.TenantID, nil // 0 for admin keys: every tenant
	}
	if key.TenantID != 0 && text == hook.TenantPrefix.Format(key.TenantID) {
		return key.TenantID, nil
	}
	id, err := s.findTenant(ctx, text, now)
	if err != nil {
		return 0, err
	}
	if key.TenantID != 0 && key.TenantID != id {
		return 0, hook.ErrNotFound
	}
	return id, nil
}

// findTenant returns the id of a tenant given by id or uid. What exists is
// remembered for a moment: every posted event asks.
func (s *Server) findTenant(ctx context.Context, text string, now time.Time) (hook.ID, error) {
	if id, ok := s.tenants.fresh(text, now); ok {
		return id, nil
	}
	id, err := s.cfg.FindTenant(ctx, text)
	if err != nil {
		return 0, err
	}
	s.tenants.put(text, id, now)
	return id, nil
}

// ForgetTenants makes this process look every tenant up again: one was deleted,
// or its uid has moved.
func (s *Server) ForgetTenants() { s.tenants.forgetAll() }
