package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// TestPlansOfAlerts guards lists of a history that may be long, and the question
// for due notices, which is asked every few seconds.
func TestPlansOfAlerts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	open(t, path)
	conn := inspect(t, path)
	page := store.Page{Limit: 50, After: 1 << 60}
	for name, c := range map[string]struct {
		f    store.AlertFilter
		want string
	}{
		"all":             {store.AlertFilter{}, "SEARCH a USING INTEGER PRIMARY KEY (rowid<?)"},
		"firing":          {store.AlertFilter{Statuses: []hook.AlertStatus{hook.AlertFiring}}, "INDEX alerts_status (status=? AND id<?)"},
		"of a tenant":     {store.AlertFilter{Tenant: 1}, "INDEX alerts_tenant (tenant_id=? AND id<?)"},
		"of an endpoint":  {store.AlertFilter{Tenant: 1, Endpoints: []hook.ID{1}}, "INDEX alerts_endpoint (endpoint_id=? AND id<?)"},
		"of a rule":       {store.AlertFilter{Rules: []string{"retry_storm"}}, "SEARCH a USING INTEGER PRIMARY KEY (rowid<?)"},
		"firing of a few": {store.AlertFilter{Tenant: 1, Statuses: []hook.AlertStatus{hook.AlertFiring}}, "INDEX alerts_"},
	} {
		query, args := sqlite.AlertsQuery(c.f, page)
		plan := planOf(t, conn, query, args...)
		if !strings.Contains(plan, c.want) || strings.Contains(plan, "SCAN a") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s: no %q in the plan\n%s", name, c.want, plan)
		}
	}
	query, args := sqlite.DueNoticesQuery(store.Fence{}, time.Now(), []hook.ID{1, 2}, 64)
	plan := planOf(t, conn, query, args...)
	for _, want := range []string{"SEARCH n USING INDEX notices_due (due_at<?)", "SEARCH o USING PRIMARY KEY (about_id=? AND channel_id=?)"} {
		if !strings.Contains(plan, want) {
			t.Errorf("due notices: no %q in the plan\n%s", want, plan)
		}
	}
}
