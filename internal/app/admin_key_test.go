package app_test

import (
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/app"
)

// TestAdminKeyThatIsIgnoredIsTold: a key in the settings is taken at the first start. Whoever
// sets one later and is not let in would look for the reason for long.
func TestAdminKeyThatIsIgnoredIsTold(t *testing.T) { //nolint:tparallel // the servers share a folder
	t.Parallel()
	dir, key := dataDir(t)
	configured := func(key string) func(*app.Options) { return func(o *app.Options) { o.AdminKey = key } }
	for name, tc := range map[string]struct {
		key  string
		told bool
	}{
		"none":           {"", false},
		"the stored one": {key, false},
		"another":        {"another-admin-key-0123456789012345", true},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: each ends its server
			_, log, _ := run(t, dir, key, configured(tc.key))
			if told := strings.Contains(log.String(), "the configured admin key is ignored"); told != tc.told {
				t.Errorf("told %v, want %v:\n%s", told, tc.told, log)
			}
			if tc.told && strings.Contains(log.String(), tc.key) {
				t.Errorf("the log holds the key:\n%s", log)
			}
		})
	}
}
