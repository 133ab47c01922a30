package alerts

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// testPause is how long a tenant waits between two tests: each is a message to
// whomever its channel names.
const testPause = 5 * time.Second

// recentTests are when tenants made their last tests on this node.
type recentTests struct {
	mu   sync.Mutex
	last map[hook.ID]time.Time
}

// take allows a test, or says how long to wait. The operator may always test.
func (t *recentTests) take(tenant hook.ID, now time.Time) error {
	if tenant == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.last, func(_ hook.ID, at time.Time) bool { return now.Sub(at) >= testPause })
	if at, ok := t.last[tenant]; ok {
		return tooSoonError(testPause - now.Sub(at))
	}
	if t.last == nil {
		t.last = map[hook.ID]time.Time{}
	}
	t.last[tenant] = now
	return nil
}

// tooSoonError is a test that came before its time.
type tooSoonError time.Duration

func (e tooSoonError) Error() string {
	return fmt.Sprintf("one test in %s: %v", quantity.FormatDuration(testPause), hook.ErrRateLimited)
}

func (e tooSoonError) Unwrap() error { return hook.ErrRateLimited }

// RetryAfter is how long to wait.
func (e tooSoonError) RetryAfter() time.Duration { return time.Duration(e) }
