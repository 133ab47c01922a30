package lane_test

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lane"
)

// await lets so many events wait that fell due while nobody sent them.
func (r *road) await(events int) {
	each := time.Duration(float64(time.Second) / r.live)
	for n := events; n > 0; n-- {
		r.id++
		r.l.Arrive(lane.Ref{ID: r.id, FirstDue: r.now.Add(-time.Duration(n) * each)})
	}
}

// TestNewOwnerOfAnEndpointThatIsDown: an endpoint that died while the lane had no
// owner, or a moment after, has refused nothing. The failures that tell of it are
// the first that the new owner sees, but not a share of anything.
func TestNewOwnerOfAnEndpointThatIsDown(t *testing.T) {
	t.Parallel()
	for name, alive := range map[string]time.Duration{"before": 0, "a moment after": 150 * time.Millisecond} {
		r := newRoad(drive(t, wide()), 50, ok)
		r.l = lane.Restore(wide(), lane.Checkpoint{
			ClosedAt: start.Add(-time.Hour), Usual: 50, Proven: 97, Limit: 10, BaseLatency: time.Millisecond, BaseWeight: 1,
		}, r.now, 0.5, true)
		r.await(750)
		r.run(alive, nil)
		r.answer = down
		r.run(20*time.Second, nil)
		if r.l.State() == lane.Closed {
			t.Fatalf("%s: closed, and nothing was answered for 20 s", name)
		}
		r.answer = ok
		for r.l.State() != lane.Closed {
			r.run(time.Second, nil)
		}
		if c := r.l.Checkpoint(); c.Pace > 0 {
			t.Errorf("%s: an outage taught the new owner to send %.1f per second", name, c.Pace)
		}
		r.run(90*time.Second, nil)
		if n := r.l.Queued(); n > 50 {
			t.Errorf("%s: %d are still waiting 90 s after the outage", name, n)
		}
	}
}

// TestNewOwnerCountsTheTimeWithoutOne: a drain whose owner dies has more to do when the
// next one goes on with it, and is in as much haste as that needs.
func TestNewOwnerCountsTheTimeWithoutOne(t *testing.T) {
	t.Parallel()
	crashes := 0
	r := newRoad(drive(t, wide()), 50, nil)
	r.answer = r.cliff(100, &crashes)
	r.l = lane.Restore(wide(), lane.Checkpoint{
		SavedAt: start.Add(-17 * time.Second), ClosedAt: start.Add(-25 * time.Second), Usual: 50, Proven: 60, Recovery: 70, Held: 30 * time.Second,
		Limit: 10, BaseLatency: time.Millisecond, BaseWeight: 1,
	}, r.now, 0.5, true)
	r.await(1350 + 750) // what was left of the outage, and 15 s without an owner
	r.run(65*time.Second, nil)
	if n := r.l.Queued(); n > 50 || crashes > 0 {
		t.Errorf("%d are waiting after 65 s, and it crashed %d times; want all delivered, and none", n, crashes)
	}
}

// TestOwnersThatDieAllTheTime: what was not drained in the time that was planned for it is
// not a backlog of our own, however many owners there were.
func TestOwnersThatDieAllTheTime(t *testing.T) {
	t.Parallel()
	c, now := lane.Checkpoint{ClosedAt: start, Usual: 50, Proven: 60, Recovery: 70, Held: 30 * time.Second}, start
	for range 20 {
		now = now.Add(20 * time.Second)
		c.SavedAt = now.Add(-15 * time.Second)
		c = lane.Restore(wide(), c, now, 0.5, true).Checkpoint()
	}
	if want := 90 * time.Second; c.Held != want { // those of the first 90 s
		t.Errorf("20 owners, each for 5 s: held for %v, want %v", c.Held, want)
	}
}

// TestNewOwnerOfADrainWithoutARate: an endpoint that already bears its backlog as fast as
// the limit lets it is not paced because its lane has another owner. When the backlog is
// drained, one that comes from our own absence is.
func TestNewOwnerOfADrainWithoutARate(t *testing.T) {
	t.Parallel()
	cfg := wide()
	cfg.Limit = 15
	r := newRoad(drive(t, cfg), 50, ok)
	r.latency = 200 * time.Millisecond // 75 per second is all it gets
	r.run(time.Minute, nil)
	r.outage(10 * time.Minute)
	for r.l.State() != lane.Closed || r.l.Checkpoint().Recovery > 0 {
		r.run(time.Second, nil)
	}
	drained := false
	for range 30 {
		saved := r.l.Checkpoint()
		saved.SavedAt = r.now
		if drained = r.l.Queued() == 0; drained == (saved.Held > 0) {
			t.Fatalf("%d are waiting, and what they were held is saved as %v", r.l.Queued(), saved.Held)
		}
		next := lane.Restore(cfg, saved, r.now, 0.5, true)
		if c := next.Checkpoint(); (c.Recovery > 0) != drained {
			t.Errorf("with %d waiting a new owner sends at %.1f per second, want a rate if and only if none are", r.l.Queued(), c.Recovery)
		}
		if drained {
			break
		}
		if again := next.Checkpoint(); again.Held != saved.Held || saved.Moved(again) {
			t.Errorf("a new owner saves that they were held for %v, the one before %v", again.Held, saved.Held)
		}
		ended := saved
		if ended.Held = 0; !ended.Moved(saved) {
			t.Error("that the backlog is drained is not worth saving")
		}
		r.run(2*time.Minute, nil)
	}
	if !drained {
		t.Fatalf("%d are still waiting after an hour", r.l.Queued())
	}
}
