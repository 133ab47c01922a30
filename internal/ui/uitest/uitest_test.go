package uitest_test

import (
	"testing"

	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

// TestEveryKeyThatReadsOpensTheFirstPage also shows how a world is used.
func TestEveryKeyThatReadsOpensTheFirstPage(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	w.Endpoint(w.Acme, nil)
	w.Event(w.Acme, "order.paid", map[string]any{"order": 42})
	for _, key := range []string{w.Admin, w.AdminRead, w.Acme.Write, w.Acme.Read} {
		w.Login(key).Open("/ui").Says("Overview")
	}
}
