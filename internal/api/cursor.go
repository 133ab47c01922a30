package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/url"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// cursorKey seals the place where a page ended. Sealed with the vault, a cursor
// works on every node and after a restart, and cannot be forged or carried to
// another tenant, list, filter or order.
type cursorKey struct{ vault *vault.Vault }

func newCursorKey(v *vault.Vault) cursorKey { return cursorKey{v} }

// list is one page of any list.
type list[T any] struct {
	Data       []T     `json:"data" nullable:"false"`
	NextCursor *string `json:"next_cursor" doc:"Pass it as cursor to get the next page; null at the end. A page of deliveries may be short, or empty, and have one: go on until it is null."`
}

// listOutput is the answer of list routes.
type listOutput[T any] struct{ Body list[T] }

// page returns what to ask the store for: one item more than the client wants,
// which tells whether there is a next page.
func (k cursorKey) page(c *call, p PageParams) (store.Page, error) {
	page := store.Page{Limit: p.Limit + 1, Asc: p.Order == "asc"}
	if p.Cursor == "" {
		return page, nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil {
		return page, errInvalidCursor()
	}
	plain, err := k.vault.Open(c.tenant, 0, cursorPurpose(c), sealed)
	if err != nil || len(plain) != 8 {
		return page, errInvalidCursor() // which of the two is nobody's business
	}
	page.After = hook.ID(binary.BigEndian.Uint64(plain))
	return page, nil
}

func (k cursorKey) seal(c *call, last hook.ID) (string, error) {
	plain := binary.BigEndian.AppendUint64(nil, uint64(last))
	_, sealed, err := k.vault.Seal(c.tenant, 0, cursorPurpose(c), plain)
	if err != nil {
		return "", fmt.Errorf("seal cursor: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// cursorPurpose names the list that a cursor belongs to: the route, the objects
// in its path, and every parameter but the two that may differ between pages.
func cursorPurpose(c *call) string {
	q := make(url.Values, len(c.query))
	for name, values := range c.query {
		if name != "cursor" && name != "limit" {
			q[name] = values
		}
	}
	sum := sha256.Sum256([]byte(c.path + "?" + q.Encode()))
	return "cursor " + hex.EncodeToString(sum[:16])
}

// paged cuts rows to the page the client wants, shows them, and adds the
// cursor when there are more.
func paged[R, V any](a *API, c *call, p PageParams, rows []R, id func(R) hook.ID, show func(R) V) (*listOutput[V], error) {
	out := &listOutput[V]{Body: list[V]{Data: make([]V, 0, len(rows))}}
	more := len(rows) > p.Limit
	if more {
		rows = rows[:p.Limit]
		cursor, err := a.cursors.seal(c, id(rows[len(rows)-1]))
		if err != nil {
			return nil, err
		}
		out.Body.NextCursor = &cursor
	}
	for _, r := range rows {
		out.Body.Data = append(out.Body.Data, show(r))
	}
	return out, nil
}
