package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRecoveryIsSavedWhileItLasts: whoever takes a lane over in the middle of a drain makes
// up for the time since it was last saved, so that is never long ago.
func TestRecoveryIsSavedWhileItLasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 20
		var dest switched
		dest.up.Store(true)
		r := newRig(t, dest.answer)
		defer r.close()
		e := r.endpoint("")
		traffic := func(seconds int) {
			for range seconds * perSecond {
				r.publish(e, 1)
				time.Sleep(time.Second / perSecond)
			}
		}
		traffic(15)
		dest.up.Store(false)
		traffic(30)
		dest.up.Store(true)
		traffic(10)
		for range 20 {
			traffic(1)
			c := r.checkpoint(e)
			if age := time.Since(c.SavedAt); c.Recovery == 0 || age > 6*time.Second {
				t.Fatalf("the recovery, at %.1f per second, was saved %v ago, want at most 5 s or so", c.Recovery, age)
			}
		}

		before := r.checkpoint(e)
		r.close()
		time.Sleep(3 * time.Second)
		r.open()
		r.start()
		traffic(1)
		after := r.checkpoint(e)
		if more := after.Held - before.Held; after.Recovery == 0 || more < 3*time.Second || more > 9*time.Second {
			t.Errorf("after 3 s away the recovery goes on at %.1f per second and makes up for %v more, want the time since it was saved", after.Recovery, more)
		}
	})
}
