package api

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// byID reads the object that a path names. What cannot be an id names nothing.
func byID[T any](ctx context.Context, c *rest.Call, p hook.Prefix, text string, read func(_ context.Context, tenant, id hook.ID) (T, error)) (T, error) {
	id, err := p.Parse(text)
	if err != nil {
		var none T
		return none, hook.ErrNotFound
	}
	return read(ctx, c.Tenant, id)
}

// readTogether is how many rows a walk over all of them reads at a time.
const readTogether = 250

// eachPage walks over everything that a list of the store has.
func eachPage[T any](read func(store.Page) ([]T, error), id func(T) hook.ID, do func([]T) error) error {
	for page := (store.Page{Limit: readTogether}); ; {
		rows, err := read(page)
		if err != nil {
			return err
		}
		if err := do(rows); err != nil {
			return err
		}
		if len(rows) < page.Limit {
			return nil
		}
		page.After = id(rows[len(rows)-1])
	}
}
