package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// keyView is an API key as lists show it: its secret part is not stored.
type keyView struct {
	ID         string  `json:"id"`
	Name       string  `json:"name"`
	Prefix     *string `json:"prefix" doc:"The public part of the key."`
	Scope      string  `json:"scope" enum:"admin,admin:read,tenant:write,tenant:read,tenant:send"`
	Tenant     *string `json:"tenant"`
	CreatedAt  stamp   `json:"created_at"`
	LastUsedAt stamp   `json:"last_used_at"`
	ExpiresAt  stamp   `json:"expires_at"`
	RevokedAt  stamp   `json:"revoked_at"`
}

// KeyFields embeds a key in another answer.
type KeyFields keyView

type keyCreated struct {
	KeyFields
	Key string `json:"key" doc:"Shown once."`
}

type keyCreate struct {
	Body struct {
		Name      string `json:"name" minLength:"1" maxLength:"200"`
		Scope     string `json:"scope" enum:"admin,admin:read,tenant:write,tenant:read,tenant:send"`
		Tenant    string `json:"tenant,omitempty" doc:"ten_… or uid; with tenant scopes only."`
		ExpiresAt string `json:"expires_at,omitempty" doc:"RFC 3339; never when absent."`
	}
}

type keyInput struct {
	Key string `path:"key" maxLength:"64"`
}

type keyList struct {
	PageParams
}

type meView struct {
	Key     string  `json:"key"`
	Name    string  `json:"name"`
	Scope   string  `json:"scope"`
	Tenant  *string `json:"tenant"`
	Version string  `json:"version" doc:"Of the server."`
}

func (a *API) addKeyRoutes() {
	tags := []string{"keys"}
	register(a, huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: "/v1/keys",
		Summary: "List API keys", Tags: tags,
	}, needAdmin, a.listKeys)
	register(a, huma.Operation{
		OperationID: "create-key", Method: http.MethodPost, Path: "/v1/keys",
		Summary: "Create an API key", Tags: tags, DefaultStatus: http.StatusCreated,
	}, needAdmin, a.createKey)
	register(a, huma.Operation{
		OperationID: "revoke-key", Method: http.MethodDelete, Path: "/v1/keys/{key}",
		Summary: "Revoke an API key", Tags: tags, DefaultStatus: http.StatusNoContent,
	}, needAdmin, a.revokeKey)
	register(a, huma.Operation{
		OperationID: "get-me", Method: http.MethodGet, Path: "/v1/me",
		Summary: "Tell which key this is", Tags: tags,
	}, needAnyKey, func(_ context.Context, c *call, _ *struct{}) (*output[meView], error) {
		return &output[meView]{Body: meView{
			Key: keyText(c.key), Name: c.key.Name, Scope: c.key.Scope.String(),
			Tenant: tenantText(c.key.TenantID), Version: a.cfg.Version,
		}}, nil
	})
}

func (a *API) listKeys(ctx context.Context, c *call, in *keyList) (*listOutput[keyView], error) {
	page, err := a.cursors.page(c, in.PageParams)
	if err != nil {
		return nil, err
	}
	rows, err := a.cfg.Store.ListKeys(ctx, page)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return paged(a, c, in.PageParams, rows, func(k hook.APIKey) hook.ID { return k.ID }, showKey)
}

func (a *API) createKey(ctx context.Context, c *call, in *keyCreate) (*created[keyCreated], error) {
	k, err := a.newKey(ctx, c, in)
	if err != nil {
		return nil, err
	}
	var text string
	text, k.Prefix, k.Hash = NewKey(rand.Reader)
	view := showKey(k)
	if err := a.cfg.Store.CreateKey(ctx, k, a.audit(c, k.TenantID, "key.create", view.ID, diffOf(nil, view))); err != nil {
		return nil, fmt.Errorf("create key: %w", err)
	}
	a.auth.index.add(k.Hash)
	return &created[keyCreated]{
		Location: "/v1/keys/" + view.ID,
		Body:     keyCreated{KeyFields: KeyFields(view), Key: text},
	}, nil
}

// newKey checks the body of a create.
func (a *API) newKey(ctx context.Context, c *call, in *keyCreate) (hook.APIKey, error) {
	bad := &invalid{}
	k := hook.APIKey{ID: a.cfg.IDs.Next(c.now), Name: in.Body.Name, CreatedAt: c.now}
	bad.checkText("name", k.Name, maxName)
	var err error
	if k.Scope, err = hook.ParseScope(in.Body.Scope); err != nil {
		bad.add("scope", "not_allowed", err.Error())
	}
	if k.ExpiresAt, err = readExpiry(in.Body.ExpiresAt, c.now); err != nil {
		bad.add("expires_at", "invalid", err.Error())
	}
	ofServer := k.Scope == hook.ScopeAdmin || k.Scope == hook.ScopeAdminRead
	switch {
	case ofServer && in.Body.Tenant != "":
		bad.add("tenant", "not_allowed", "goes with tenant scopes only")
	case !ofServer && in.Body.Tenant == "":
		bad.add("tenant", "required", "is required with this scope")
	case !ofServer:
		t, err := a.readTenant(ctx, in.Body.Tenant)
		if errors.Is(err, hook.ErrNotFound) {
			bad.add("tenant", "unknown", "does not exist")
		} else if err != nil {
			return k, fmt.Errorf("read tenant: %w", err)
		}
		k.TenantID = t.ID
	}
	return k, bad.err()
}

var errBadExpiry = errors.New("must be an RFC 3339 time in the future")

func readExpiry(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || !t.After(now) || t.Year() > 9999 {
		return time.Time{}, errBadExpiry
	}
	return t.UTC().Truncate(time.Microsecond), nil
}

func (a *API) revokeKey(ctx context.Context, c *call, in *keyInput) (*nothing, error) {
	id, err := hook.KeyPrefix.Parse(in.Key)
	if err != nil {
		return nil, hook.ErrNotFound
	}
	return &nothing{}, a.revoke(ctx, c, hook.APIKey{ID: id})
}

// revoke ends a key, here at once and on other nodes within a second.
func (a *API) revoke(ctx context.Context, c *call, k hook.APIKey) error {
	rec := a.audit(c, k.TenantID, "key.revoke", hook.KeyPrefix.Format(k.ID), nil)
	if err := a.cfg.Store.RevokeKey(ctx, k.ID, c.now, rec); err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	a.auth.revoked(k.ID)
	return nil
}

func showKey(k hook.APIKey) keyView {
	v := keyView{
		ID:         hook.KeyPrefix.Format(k.ID),
		Name:       k.Name,
		Scope:      k.Scope.String(),
		Tenant:     tenantText(k.TenantID),
		CreatedAt:  stamp(k.CreatedAt),
		LastUsedAt: stamp(k.LastUsedAt),
		ExpiresAt:  stamp(k.ExpiresAt),
		RevokedAt:  stamp(k.RevokedAt),
	}
	if k.Prefix != "" {
		v.Prefix = nullable(keyMark + k.Prefix)
	}
	return v
}

// tenantText shows the tenant of a key, null for keys of the server.
func tenantText(id hook.ID) *string {
	if id == 0 {
		return nil
	}
	return nullable(hook.TenantPrefix.Format(id))
}
