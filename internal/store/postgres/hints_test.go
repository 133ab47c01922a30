package postgres_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
)

func TestHintsReachOtherNodes(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	a, b := open(t, dsn), open(t, dsn)
	ctx, stop := context.WithCancel(t.Context())
	heard := make(chan store.Hint, 100)
	done := make(chan error, 1)
	go func() { done <- b.Listen(ctx, func(h store.Hint) { heard <- h }) }()
	eventually(t, "listening", func() bool { return listeners(t, dsn) == 1 })

	many := make([]hook.ID, 3000)
	for i := range many {
		many[i] = hook.ID(1)<<62 + hook.ID(i)
	}
	hint := func(from *postgres.DB, h store.Hint) {
		t.Helper()
		if err := from.Hint(t.Context(), h); err != nil {
			t.Fatalf("Hint: %v", err)
		}
	}
	hint(b, store.Hint{Kind: store.HintDue, IDs: []hook.ID{1}}) // its own: not heard
	hint(a, store.Hint{Kind: store.HintShards})
	hint(a, store.Hint{Kind: store.HintDue, IDs: many})

	if diff := cmp.Diff(store.Hint{Kind: store.HintShards}, <-heard, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("first hint (-want +got):\n%s", diff)
	}
	var got []hook.ID
	for len(got) < len(many) {
		h := <-heard
		if h.Kind != store.HintDue {
			t.Fatalf("kind %d, want due", h.Kind)
		}
		got = append(got, h.IDs...)
	}
	if !slices.Equal(got, many) {
		t.Error("the ids of a long hint did not arrive as they were sent")
	}

	// A lost connection is replaced.
	exec(t, dsn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
	eventually(t, "hint after a lost connection", func() bool {
		hint(a, store.Hint{Kind: store.HintTenant, IDs: []hook.ID{7}})
		select {
		case h := <-heard:
			return h.Kind == store.HintTenant
		default:
			return false
		}
	})
	stop()
	if err := <-done; err != nil {
		t.Errorf("Listen = %v, want nil at the end of its context", err)
	}
}

func listeners(t *testing.T, dsn string) int {
	t.Helper()
	return value[int](t, dsn, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND state = 'idle' AND datname = current_database()")
}
