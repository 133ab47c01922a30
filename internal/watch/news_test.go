package watch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/watch"
)

// TestNewsOfLanesAreBounded: of a type one is told per endpoint and minute, with what
// it stands for. Of dead letters every one is in a count, also the last ones, and
// those that the node has not told when it stops.
func TestNewsOfLanesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		n := r.start()
		tenant, endpoint, quiet := r.id(), r.id(), r.id()
		dead := watch.News{Type: hook.DeliveryDeadLettered, Reason: "exhausted"}
		throttled := watch.News{Type: hook.LaneThrottled, Wait: 1500 * time.Millisecond}
		for range 100 {
			n.LaneNews(tenant, endpoint, dead)
			n.LaneNews(tenant, endpoint, throttled)
		}
		n.LaneNews(tenant, quiet, throttled)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		n.LaneNews(tenant, endpoint, throttled)
		time.Sleep(10 * time.Minute)
		n.LaneNews(tenant, quiet, dead)
		n.LaneNews(tenant, quiet, dead)
		n.stop()
		r.expect("of lanes with news",
			hook.DeliveryDeadLettered, hook.LaneThrottled, hook.LaneThrottled, // at once
			hook.DeliveryDeadLettered, hook.LaneThrottled, // later
			hook.DeliveryDeadLettered, hook.DeliveryDeadLettered) // and at the end
		for i, want := range []string{
			`{"count":1,"reason":"exhausted"}`, `{"count":1,"retry_after_seconds":2}`, `{"count":1,"retry_after_seconds":2}`,
			`{"count":99,"reason":"exhausted"}`, `{"count":1,"retry_after_seconds":2}`,
			`{"count":1,"reason":"exhausted"}`, `{"count":1,"reason":"exhausted"}`,
		} {
			if got := string(r.events()[i].Detail); got != want {
				t.Errorf("detail %d = %s, want %s", i, got, want)
			}
		}
		if f := n.Figures(); f.Closed != 0 {
			t.Errorf("%d lanes have traffic, none had an attempt", f.Closed)
		}
	})
}
