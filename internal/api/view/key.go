package view

import "github.com/breakwaterhq/breakwater/internal/hook"

// Key is an API key as lists show it: its secret part is not stored.
type Key struct {
	ID         string  `json:"id"`
	Name       string  `json:"name"`
	Prefix     *string `json:"prefix" doc:"The public part of the key."`
	Scope      string  `json:"scope" enum:"admin,admin:read,tenant:write,tenant:read,tenant:send"`
	Tenant     *string `json:"tenant"`
	CreatedAt  Stamp   `json:"created_at"`
	LastUsedAt Stamp   `json:"last_used_at"`
	ExpiresAt  Stamp   `json:"expires_at"`
	RevokedAt  Stamp   `json:"revoked_at"`
}

// OfKey shows a key. mark is how keys in our own form begin.
func OfKey(k hook.APIKey, mark string) Key {
	v := Key{
		ID:         hook.KeyPrefix.Format(k.ID),
		Name:       k.Name,
		Scope:      k.Scope.String(),
		Tenant:     IDOrNull(hook.TenantPrefix, k.TenantID),
		CreatedAt:  Stamp(k.CreatedAt),
		LastUsedAt: Stamp(k.LastUsedAt),
		ExpiresAt:  Stamp(k.ExpiresAt),
		RevokedAt:  Stamp(k.RevokedAt),
	}
	if k.Prefix != "" {
		v.Prefix = Nullable(mark + k.Prefix)
	}
	return v
}
