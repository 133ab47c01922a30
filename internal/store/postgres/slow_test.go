package postgres_test

import (
	"errors"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// TestReadsThatTakeTooLongAreOverload: the server ends them (statement_timeout).
// Nothing is broken, and the same read may work later.
func TestReadsThatTakeTooLongAreOverload(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	ten := n.tenant()
	tx, err := connect(t, dsn).Begin(t.Context())
	n.check(err, "Begin")
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "LOCK TABLE tenants IN ACCESS EXCLUSIVE MODE")
	n.check(err, "lock the table")
	_, one := n.db.TenantByID(t.Context(), ten.ID)
	_, list := n.db.ListTenants(t.Context(), "", store.Page{Limit: 1})
	for what, err := range map[string]error{"one row": one, "a list": list} {
		if !errors.Is(err, hook.ErrOverloaded) || errors.Is(err, hook.ErrStoreUnavailable) {
			t.Errorf("%s = %v, want an overload", what, err)
		}
	}
}
