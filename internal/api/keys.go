package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// KeyFields embeds a key in another answer.
type KeyFields view.Key

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

type keyList struct {
	rest.PageParams
	Tenant string `query:"tenant" maxLength:"200" doc:"ten_… or uid: its keys alone."`
}

type keyInput struct {
	Key string `path:"key" maxLength:"64"`
}

type meView struct {
	Key     string  `json:"key"`
	Name    string  `json:"name"`
	Scope   string  `json:"scope"`
	Tenant  *string `json:"tenant"`
	Version string  `json:"version" doc:"Of the server."`
}

func (a *API) addKeyRoutes() {
	g := a.server.Group("keys")
	rest.Add(g, rest.NeedAdmin, "GET /v1/keys", "list-keys", "List API keys", a.listKeys)
	rest.Add(g, rest.NeedAdmin, "POST /v1/keys", "create-key", "Create an API key", a.createKey)
	rest.Add(g, rest.NeedAdmin, "DELETE /v1/keys/{key}", "revoke-key", "Revoke an API key", a.revokeKey)
	rest.Add(g, rest.NeedAnyKey, "GET /v1/me", "get-me", "Tell which key this is", a.getMe)
}

func (a *API) getMe(_ context.Context, c *rest.Call, _ *struct{}) (*rest.Output[meView], error) {
	return &rest.Output[meView]{Body: meView{
		Key: rest.KeyText(c.Key), Name: c.Key.Name, Scope: c.Key.Scope.String(),
		Tenant: view.IDOrNull(hook.TenantPrefix, c.Key.TenantID), Version: a.cfg.Version,
	}}, nil
}

func (a *API) listKeys(ctx context.Context, c *rest.Call, in *keyList) (*rest.ListOutput[view.Key], error) {
	tenant := hook.ID(0)
	if in.Tenant != "" {
		var err error
		if tenant, err = a.findTenant(ctx, in.Tenant); errors.Is(err, hook.ErrNotFound) {
			return nil, rest.BadParameter("query.tenant", "does not exist")
		} else if err != nil {
			return nil, fmt.Errorf("read tenant: %w", err)
		}
	}
	read := func(p store.Page) ([]hook.APIKey, error) { return a.cfg.Store.ListKeys(ctx, tenant, p) }
	return rest.ListOf(a.server, c, in.PageParams, read, keyID, showKey)
}

func keyID(k hook.APIKey) hook.ID { return k.ID }

func (a *API) createKey(ctx context.Context, c *rest.Call, in *keyCreate) (*rest.Created[keyCreated], error) {
	k, err := a.newKey(ctx, c, in)
	if err != nil {
		return nil, err
	}
	var text string
	text, k.Prefix, k.Hash = rest.NewKey(rand.Reader)
	v := showKey(k)
	if err := a.cfg.Store.CreateKey(ctx, k, a.server.Audit(c, k.TenantID, "key.create", v.ID, diffOf(nil, v))); err != nil {
		return nil, fmt.Errorf("create key: %w", err)
	}
	a.server.KeyMade(k.Hash)
	return &rest.Created[keyCreated]{
		Location: "/v1/keys/" + v.ID,
		Body:     keyCreated{KeyFields: KeyFields(v), Key: text},
	}, nil
}

// newKey checks the body of a create.
func (a *API) newKey(ctx context.Context, c *rest.Call, in *keyCreate) (hook.APIKey, error) {
	bad := &rest.Invalid{}
	k := hook.APIKey{ID: a.cfg.IDs.Next(c.Now), Name: in.Body.Name, CreatedAt: c.Now}
	bad.CheckText("name", k.Name, rest.MaxName)
	var err error
	if k.Scope, err = hook.ParseScope(in.Body.Scope); err != nil {
		bad.Add("scope", "not_allowed", err.Error())
	}
	if k.ExpiresAt, err = readExpiry(in.Body.ExpiresAt, c.Now); err != nil {
		bad.Add("expires_at", "invalid", err.Error())
	}
	ofServer := k.Scope == hook.ScopeAdmin || k.Scope == hook.ScopeAdminRead
	switch {
	case ofServer && in.Body.Tenant != "":
		bad.Add("tenant", "not_allowed", "goes with tenant scopes only")
	case !ofServer && in.Body.Tenant == "":
		bad.Add("tenant", "required", "is required with this scope")
	case !ofServer:
		t, err := a.readTenant(ctx, in.Body.Tenant)
		if errors.Is(err, hook.ErrNotFound) {
			bad.Add("tenant", "unknown", "does not exist")
		} else if err != nil {
			return k, fmt.Errorf("read tenant: %w", err)
		}
		k.TenantID = t.ID
	}
	return k, bad.Err()
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

func (a *API) revokeKey(ctx context.Context, c *rest.Call, in *keyInput) (*rest.Nothing, error) {
	id, err := hook.KeyPrefix.Parse(in.Key)
	if err != nil {
		return nil, hook.ErrNotFound
	}
	return &rest.Nothing{}, a.revoke(ctx, c, hook.APIKey{ID: id})
}

// revoke ends a key, here at once and on other nodes within a second.
func (a *API) revoke(ctx context.Context, c *rest.Call, k hook.APIKey) error {
	rec := a.server.Audit(c, k.TenantID, "key.revoke", hook.KeyPrefix.Format(k.ID), nil)
	if err := a.cfg.Store.RevokeKey(ctx, k.ID, c.Now, rec); err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	a.server.KeyRevoked(k.ID)
	return nil
}

func showKey(k hook.APIKey) view.Key { return view.OfKey(k, rest.KeyMark) }
