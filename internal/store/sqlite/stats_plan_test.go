package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// TestPlanOfTroubled guards a question that is asked every few seconds of figures
// that may be of two days and all endpoints.
func TestPlanOfTroubled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	open(t, path)
	query, args := sqlite.TroubledQuery(time.Now())
	plan := planOf(t, inspect(t, path), query, args...)
	if want := "INDEX stats_trouble (at>?)"; !strings.Contains(plan, want) {
		t.Errorf("no %q in the plan\n%s", want, plan)
	}
}
