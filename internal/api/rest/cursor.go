package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/url"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// List is one page of any list.
type List[T any] struct {
	Data       []T     `json:"data" nullable:"false"`
	NextCursor *string `json:"next_cursor" doc:"Pass it as cursor to get the next page; null at the end. A page of deliveries may be short, or empty, and have one: go on until it is null."`
}

// ListOutput is the answer of list routes.
type ListOutput[T any] struct{ Body List[T] }

// ListOf answers a list: read reads a page of rows from the store, in the order
// of their ids, and show shows a row.
func ListOf[R, V any](s *Server, c *Call, p PageParams, read func(store.Page) ([]R, error), id func(R) hook.ID, show func(R) V) (*ListOutput[V], error) {
	page, err := s.Page(c, p)
	if err != nil {
		return nil, err
	}
	rows, err := read(page)
	if err != nil {
		return nil, err
	}
	return Paged(s, c, p, rows, id, show)
}

// Page returns what to ask the store for: one item more than the client wants,
// which tells whether there is a next page.
func (s *Server) Page(c *Call, p PageParams) (store.Page, error) {
	page := store.Page{Limit: p.Limit + 1, Asc: p.Order == "asc"}
	if p.Cursor == "" {
		return page, nil
	}
	var err error
	page.After, err = s.openCursor(c, p.Cursor)
	return page, err
}

// openCursor returns where the page before ended.
func (s *Server) openCursor(c *Call, cursor string) (hook.ID, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, errInvalidCursor()
	}
	plain, err := s.cfg.Vault.Open(c.Tenant, 0, cursorPurpose(c), sealed)
	if err != nil || len(plain) != 8 {
		return 0, errInvalidCursor() // which of the two is nobody's business
	}
	return hook.ID(binary.BigEndian.Uint64(plain)), nil
}

// Cursor returns what leads a client to what follows last in this list. Sealed
// with the vault, it works on every node and after a restart, and cannot be
// forged or carried to another tenant, list, filter or order.
func (s *Server) Cursor(c *Call, last hook.ID) (string, error) {
	plain := binary.BigEndian.AppendUint64(nil, uint64(last))
	_, sealed, err := s.cfg.Vault.Seal(c.Tenant, 0, cursorPurpose(c), plain)
	if err != nil {
		return "", fmt.Errorf("seal cursor: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// cursorPurpose names the list that a cursor belongs to: the route, the objects
// in its path, and every parameter but the two that may differ between pages.
func cursorPurpose(c *Call) string {
	q := make(url.Values, len(c.query))
	for name, values := range c.query {
		if name != "cursor" && name != "limit" {
			q[name] = values
		}
	}
	sum := sha256.Sum256([]byte(c.path + "?" + q.Encode()))
	return "cursor " + hex.EncodeToString(sum[:16])
}

// Paged cuts rows to the page the client wants, shows them, and adds the
// cursor when there are more.
func Paged[R, V any](s *Server, c *Call, p PageParams, rows []R, id func(R) hook.ID, show func(R) V) (*ListOutput[V], error) {
	out := &ListOutput[V]{Body: List[V]{Data: make([]V, 0, len(rows))}}
	more := len(rows) > p.Limit
	if more {
		rows = rows[:p.Limit]
		cursor, err := s.Cursor(c, id(rows[len(rows)-1]))
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

// PagedUpTo is Paged for a list whose store may stop looking before it has found a
// page: next, when it is not 0, is where to go on.
func PagedUpTo[R, V any](s *Server, c *Call, p PageParams, rows []R, next hook.ID, id func(R) hook.ID, show func(R) V) (*ListOutput[V], error) {
	out, err := Paged(s, c, p, rows, id, show)
	if err != nil || next == 0 || out.Body.NextCursor != nil {
		return out, err
	}
	cursor, err := s.Cursor(c, next)
	if err != nil {
		return nil, err
	}
	out.Body.NextCursor = &cursor
	return out, nil
}
