package watch_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/watch"
)

// pair starts two nodes that share the lanes; the first one is the judge.
func (r *rig) pair() (judge, other *node) {
	judge, other = r.start(), r.start()
	judge.own(even)
	other.own(odd)
	return judge, other
}

// TestManyBreakersOpen lets 5 of 50 lanes of two nodes open. Neither node has
// that many of its own; the fleet has, and says so once.
func TestManyBreakersOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		a, b := r.pair()
		defer a.stop()
		defer b.stop()
		tenant := r.id()
		var last hook.ID
		for i := range 50 {
			n := []*node{a, b}[i%2]
			last = n.endpoint()
			n.attempts(tenant, last, hook.First, 1)
			switch {
			case i < 4:
				n.LaneOpened(tenant, last, watch.Opening{})
			case i < 20:
				n.LaneFound(tenant, last) // open for long: no news
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.events(hook.BreakersMany); len(got) != 0 {
			t.Fatalf("four breakers opened: %v", got)
		}
		b.LaneOpened(tenant, last, watch.Opening{})
		time.Sleep(40 * time.Second)
		synctest.Wait()
		got := r.events(hook.BreakersMany)
		if len(got) != 1 || got[0].TenantID != 0 || got[0].EndpointID != 0 || string(got[0].Detail) != `{"depth":0,"lanes":50,"opened":5}` {
			t.Fatalf("five breakers opened: %v", got)
		}
		time.Sleep(11 * time.Minute) // five until they are old news, five of calm
		synctest.Wait()
		if got := r.events(hook.BreakersMany, hook.BreakersSettled); len(got) != 2 || got[1].Type != hook.BreakersSettled {
			t.Errorf("eleven minutes later: %v", got)
		}
	})
}

// TestSystemQueueGrows lets the queues of two nodes grow by little, every
// minute. The judge stops in the middle, and the next one ends the signal.
func TestSystemQueueGrows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		a, b := r.pair()
		tenant, one, two := r.id(), a.endpoint(), b.endpoint()
		a.LaneFound(tenant, one)
		b.LaneFound(tenant, two)
		time.Sleep(time.Second)
		for minute := range 12 {
			r.setDepth(one, int64(50+minute))
			r.setDepth(two, int64(80+minute))
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		r.expect("after ten minutes of growth", hook.SystemQueueGrowing)
		a.stop()
		b.own(all)
		b.LaneFound(tenant, one)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		r.expect("under the next judge", hook.SystemQueueGrowing, hook.SystemQueueSettled)
		if raised, err := r.db.SystemWatches(t.Context()); err != nil || len(raised) != 0 {
			t.Errorf("raised: %v, %v", raised, err)
		}
		b.stop()
	})
}

// TestBreakerEvents lets a breaker flap. The first few of a minute are told.
func TestBreakerEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		n := r.start()
		defer n.stop()
		tenant, endpoint := r.id(), r.id()
		n.LaneClosed(tenant, endpoint) // was never open here: nothing to tell
		for range 50 {
			n.LaneOpened(tenant, endpoint, watch.Opening{Failures: 5, Status: 503, URL: "https://example.com/in"})
			n.LaneClosed(tenant, endpoint)
		}
		time.Sleep(time.Minute)
		n.LaneOpened(tenant, endpoint, watch.Opening{Failures: 5, Status: 503, URL: "https://example.com/in"})
		time.Sleep(time.Second)
		synctest.Wait()
		r.expect("of a breaker that flaps",
			hook.BreakerOpened, hook.BreakerClosed, hook.BreakerOpened, hook.BreakerClosed, hook.BreakerOpened)
		events := r.events()
		if got := string(events[4].Detail); got != `{"url":"https://example.com/in","failures":5,"status":503,"suppressed":96}` {
			t.Errorf("detail = %s", got)
		}
		if got := string(events[0].Detail); got != `{"url":"https://example.com/in","failures":5,"status":503}` {
			t.Errorf("detail of the first = %s", got)
		}
	})
}

// TestStoreAway takes the store away when a storm begins: it is noticed all the
// same, logged at once, and stored and shown when the store is back, once.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		n := r.start()
		defer n.stop()
		tenant, endpoint := r.id(), r.id()
		r.setAway(true)
		n.attempts(tenant, endpoint, hook.Retry, 150)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n.Figures().Storms != 1 || len(r.events()) != 0 {
			t.Fatalf("figures %+v, events %v", n.Figures(), r.types())
		}
		log := r.log.String()
		if strings.Count(log, "storm.started") != 1 || strings.Count(log, "has no store") != 1 || strings.Count(log, "could not be stored") != 1 {
			t.Errorf("log:\n%s", log)
		}
		r.setAway(false)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		r.expect("when the store is back", hook.StormStarted)
		if row, ok := r.row(endpoint); !ok || !row.Storm.Active() {
			t.Errorf("row %+v, %v", row, ok)
		}
		// It ends while the store is away again: told once, not adopted anew.
		time.Sleep(5 * time.Minute)
		r.setAway(true)
		time.Sleep(10 * time.Minute)
		r.setAway(false)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		r.expect("in the end", hook.StormStarted, hook.StormEnded)
		if row, ok := r.row(endpoint); ok {
			t.Errorf("row is still there: %+v", row)
		}
	})
}

// TestRecordNeverBlocks tells of more than anybody takes.
func TestRecordNeverBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		r.setAway(true)
		n := r.start()
		const told = 5000
		for range told {
			n.Record(1, 2, hook.EndpointDisabled, map[string]string{"reason": "gone"})
		}
		synctest.Wait()
		losses := int(n.Figures().EventsDropped)
		if losses == 0 || losses > told-1024 {
			t.Errorf("%d of %d were dropped", losses, told)
		}
		r.setAway(false)
		n.stop() // stores what is left
		if stored := len(r.all()); stored+losses != told {
			t.Errorf("%d stored and %d dropped of %d", stored, losses, told)
		}
	})
}

// TestSavesAreRare lets many lanes retry a little, for ten minutes: one
// transaction a round, and none when nothing happens.
func TestSavesAreRare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		n := r.start()
		defer n.stop()
		tenant := r.id()
		time.Sleep(10 * time.Minute)
		if got := r.saved(); got != 0 {
			t.Errorf("%d saves of nothing", got)
		}
		var lanes []hook.ID
		for range 100 {
			lanes = append(lanes, r.id())
		}
		for range 40 {
			for _, id := range lanes {
				n.attempts(tenant, id, hook.First, 5)
				n.attempts(tenant, id, hook.Retry, 1)
			}
			time.Sleep(watch.BucketWidth)
		}
		synctest.Wait()
		if got := r.saved(); got > 41 {
			t.Errorf("%d saves in 40 rounds", got)
		}
		row, ok := r.row(lanes[0])
		if !ok || row.Storm.Active() || row.Storm.Retries < 30 || row.Storm.First != 5*row.Storm.Retries {
			t.Errorf("row %+v, %v, want the figures of a calm lane", row, ok)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if slices.ContainsFunc(lanes, func(id hook.ID) bool { _, ok := r.row(id); return ok }) {
			t.Error("rows are left of lanes with nothing to show")
		}
		r.expect("of calm lanes")
	})
}
