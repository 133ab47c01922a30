package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

type tenantDelete struct {
	rest.TenantPath
	Force bool `query:"force" doc:"Delete its endpoints, cancel what is pending and revoke its keys first; answers 202 with counts."`
}

// tenantDeleted is empty with status 204, or counts what a forced deletion took
// along.
type tenantDeleted struct {
	Status int
	Body   *deletedView
}

// DefaultStatus is that of a forced deletion.
func (*tenantDeleted) DefaultStatus() int { return http.StatusAccepted }

type deletedView struct {
	Endpoints int   `json:"endpoints"`
	Cancelled int64 `json:"cancelled" doc:"Pending deliveries."`
	Keys      int   `json:"keys"`
}

func (a *API) deleteTenant(ctx context.Context, c *rest.Call, in *tenantDelete) (*tenantDeleted, error) {
	t, err := a.tenant(ctx, c)
	if err != nil {
		return nil, err
	}
	if t.UID == hook.DefaultTenantUID {
		return nil, rest.Conflict("default", "the default tenant cannot be deleted")
	}
	out := &tenantDeleted{Status: http.StatusNoContent}
	if in.Force {
		out.Status = http.StatusAccepted
		if out.Body, err = a.emptyTenant(ctx, c, t.ID); err != nil {
			return nil, err
		}
	}
	rec := a.server.Audit(c, t.ID, "tenant.delete", hook.TenantPrefix.Format(t.ID), diffOf(view.OfTenant(t), nil))
	if err := a.cfg.Store.DeleteTenant(ctx, t.ID, rec); err != nil {
		return nil, fmt.Errorf("delete tenant: %w", err)
	}
	a.server.ForgetTenants()
	a.cfg.Notifier.TenantChanged(t.ID)
	return out, nil
}

// emptyTenant removes what stands in the way of deleting a tenant. It goes step
// by step; asked again after an error, it continues.
func (a *API) emptyTenant(ctx context.Context, c *rest.Call, tenant hook.ID) (*deletedView, error) {
	counts := &deletedView{}
	endpoints, _, err := a.cfg.Store.EndpointsOf(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("read endpoints of tenant: %w", err)
	}
	for _, e := range endpoints {
		n, err := a.removeEndpoint(ctx, c, e)
		if err != nil {
			return nil, err
		}
		counts.Endpoints++
		counts.Cancelled += n
	}
	if counts.Keys, err = a.revokeKeysOf(ctx, c, tenant); err != nil {
		return nil, err
	}
	return counts, nil
}

// revokeKeysOf revokes the keys of one tenant.
func (a *API) revokeKeysOf(ctx context.Context, c *rest.Call, tenant hook.ID) (int, error) {
	count := 0
	err := eachPage(func(p store.Page) ([]hook.APIKey, error) { return a.cfg.Store.ListKeys(ctx, tenant, p) }, keyID, func(keys []hook.APIKey) error {
		for _, k := range keys {
			if !k.RevokedAt.IsZero() {
				continue
			}
			if err := a.revoke(ctx, c, k); err != nil {
				return err
			}
			count++
		}
		return nil
	})
	return count, err
}
