// Package portal is the link that opens the dashboard for one tenant: what it says,
// how it is sealed into an address, and whether it still holds.
//
// A link is stored nowhere. It names the key that made it and ends with that key, or
// at its own time. The package serves no request and reads no clock and no store:
// the API makes links, the dashboard opens them.
package portal

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// How long a link may last.
const (
	MinTTL     = 5 * time.Minute
	MaxTTL     = 24 * time.Hour
	DefaultTTL = time.Hour
)

// Path is where links lead, below the address of the server. The token is the value
// of the parameter.
const (
	Path      = "/ui/portal"
	Parameter = "link"
)

// Errors of Open and Check.
var (
	ErrInvalid = errors.New("the link is not valid")
	ErrExpired = errors.New("the link has expired")
)

// Link opens the dashboard for a tenant.
type Link struct {
	Tenant hook.ID    `json:"tenant"`
	Scope  hook.Scope `json:"scope"`    // tenant:write or tenant:read
	Key    hook.ID    `json:"key"`      // that made it
	Hash   [32]byte   `json:"key_hash"` // of that key, by which the store finds it
	Issued time.Time  `json:"issued"`
	Until  time.Time  `json:"until"`
}

// Sealer keeps links from being read or made by others.
type Sealer interface {
	Seal(tenant, endpoint hook.ID, purpose string, plain []byte) (keyID string, sealed []byte, err error)
	Open(tenant, endpoint hook.ID, purpose string, sealed []byte) ([]byte, error)
}

const (
	purpose = "portal link"
	// maxToken bounds what is looked at of a token.
	maxToken = 1024
	// ahead is how far another node's clock may be ahead of this one's.
	ahead = time.Minute
)

// Seal returns the token of a link.
func (l *Link) Seal(v Sealer) (string, error) {
	plain, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("encode portal link: %w", err)
	}
	_, sealed, err := v.Seal(0, 0, purpose, plain)
	if err != nil {
		return "", fmt.Errorf("seal portal link: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Open reads a token and checks all of it but the key, which is Check's part.
func Open(v Sealer, token string, now time.Time) (l Link, err error) {
	if len(token) > maxToken {
		return Link{}, ErrInvalid
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return Link{}, ErrInvalid
	}
	plain, err := v.Open(0, 0, purpose, sealed)
	if err != nil {
		return Link{}, ErrInvalid
	}
	if err := json.Unmarshal(plain, &l); err != nil {
		return Link{}, ErrInvalid
	}
	switch {
	case l.Tenant == 0, l.Scope != hook.ScopeTenantWrite && l.Scope != hook.ScopeTenantRead, l.Issued.After(now.Add(ahead)), l.Until.Sub(l.Issued) > MaxTTL:
		return Link{}, ErrInvalid
	case !now.Before(l.Until):
		return Link{}, ErrExpired
	}
	return l, nil
}

// Check tells whether the link still holds, given the key that the store has under
// its hash: it ends when that is revoked or expires.
func (l *Link) Check(k *hook.APIKey, now time.Time) error {
	mayMake := k.Scope == hook.ScopeAdmin || k.Scope == hook.ScopeTenantWrite && k.TenantID == l.Tenant
	switch {
	case k.ID != l.Key, k.Hash != l.Hash, !mayMake:
		return ErrInvalid
	case !k.RevokedAt.IsZero(), !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt), !now.Before(l.Until):
		return ErrExpired
	}
	return nil
}

// Visitor is the key that the API believes a visitor to have who came by the link. It
// has no hash, by which the API knows that it may make neither keys nor links, and
// the id of the key that made the link, which the audit log then names.
func (l *Link) Visitor() *hook.APIKey {
	return &hook.APIKey{ID: l.Key, TenantID: l.Tenant, Name: "portal", Scope: l.Scope, CreatedAt: l.Issued, ExpiresAt: l.Until}
}

// Address is where a token leads; base is that of the server.
func Address(base, token string) string {
	return strings.TrimRight(base, "/") + Path + "?" + Parameter + "=" + token
}
