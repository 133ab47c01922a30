package replay_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/replay"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// TestDeadLettersComeBack follows 2,000 dead letters through a replay whose
// destination goes down on the way, and whose node is restarted twice.
func TestDeadLettersComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.endpoint()
		const letters = 2000
		r.deadLetters(e, letters)
		j := r.replay(e.ID)
		restart := func() {
			r.stop()
			r.openStore()
			r.settler(e)
			r.runner(nil, 0)
		}
		r.settler(e)
		r.runner(nil, 0)

		time.Sleep(1500 * time.Millisecond)
		r.want(j, "running")
		for _, sum := range []int64{100, 300, 700} {
			time.Sleep(time.Minute)
			r.wantFed(j, sum, 20)
		}

		// At 800 a minute the destination goes down: at most a few seconds'
		// worth meets it, and nothing more is fed for as long as it is down.
		r.setDown(e, true)
		time.Sleep(5 * time.Second)
		stopped := r.want(j, "breaker").Counts
		if n := stopped.Fed - 700; n > 60 {
			t.Errorf("%d were fed to a destination that is down", n)
		}
		time.Sleep(3 * time.Minute)
		restart()
		time.Sleep(time.Minute)
		if got := r.want(j, "breaker").Counts; got.Fed != stopped.Fed {
			t.Errorf("%d were fed while the lane was open", got.Fed-stopped.Fed)
		}

		// It comes back; the replay begins anew once the lane has calmed down.
		r.setDown(e, false)
		r.setLane(e, false)
		time.Sleep(10 * time.Second)
		r.want(j, "breaker")
		time.Sleep(7 * time.Second)
		r.want(j, "running")
		time.Sleep(time.Minute)
		r.wantFed(j, stopped.Fed+100, 10)

		// A restart keeps cursor, counters and pace.
		before := r.job(j)
		restart()
		time.Sleep(30 * time.Second)
		after := r.want(j, "running")
		if after.CurrentPerMinute != before.CurrentPerMinute || after.Cursor <= before.Cursor {
			t.Errorf("after the restart: %d per minute, was %d; cursor %d, was %d",
				after.CurrentPerMinute, before.CurrentPerMinute, after.Cursor, before.Cursor)
		}
		r.wantFed(j, before.Counts.Fed+100, 10) // half a minute at 200

		time.Sleep(5 * time.Minute)
		done := r.want(j, "done")
		want := hook.ReplayCounts{Fed: letters, Delivered: letters, Answers: done.Counts.Answers, Errors: 5}
		if diff := cmp.Diff(want, done.Counts); diff != "" || done.Total != letters || done.FinishedAt.IsZero() {
			t.Errorf("total %d, finished %v, counts (-want +got):\n%s", done.Total, done.FinishedAt, diff)
		}
		if len(r.delivered) != letters || r.rings[e.ID] == 0 {
			t.Errorf("%d deliveries arrived, %d rings", len(r.delivered), r.rings[e.ID])
		}
		for id, n := range r.delivered {
			if n != 1 {
				t.Errorf("delivery %d arrived %d times", id, n)
			}
		}
	})
}

func TestReplaysTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a, b := r.endpoint(), r.endpoint()
		r.deadLetters(a, 20)
		r.deadLetters(b, 20)
		first := r.replay(a.ID)
		second := r.replay(a.ID)
		whole := r.replay(0)
		other := r.replay(b.ID)
		r.settler(a)
		r.settler(b)
		r.runner(nil, 0)
		time.Sleep(3 * time.Second)
		r.want(first, "running")
		for _, j := range []hook.ReplayJob{second, whole, other} {
			r.want(j, "queued")
		}
		time.Sleep(time.Minute)
		var skipped []int64
		for _, j := range []hook.ReplayJob{first, second, whole, other} {
			now := r.want(j, "done")
			if c := now.Counts; c.Delivered+c.Skipped != now.Total {
				t.Errorf("%d of %d delivered, %d skipped", c.Delivered, now.Total, c.Skipped)
			}
			skipped = append(skipped, now.Counts.Skipped)
		}
		// What one had delivered was no longer there for the next.
		if diff := cmp.Diff([]int64{0, 20, 20, 20}, skipped); diff != "" {
			t.Errorf("skipped (-want +got):\n%s", diff)
		}
	})
}

func TestPlacesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var jobs []hook.ReplayJob
		for range 3 {
			e := r.endpoint()
			r.deadLetters(e, 30)
			jobs = append(jobs, r.replay(e.ID))
			r.settler(e)
		}
		r.runner(nil, 2)
		time.Sleep(3 * time.Second)
		r.want(jobs[0], "running")
		r.want(jobs[1], "running")
		r.want(jobs[2], "queued")
		time.Sleep(20 * time.Second)
		r.want(jobs[0], "done")
		r.want(jobs[2], "running")
	})
}

func TestOnlyOwnedShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		mine, theirs := r.endpoint(), r.endpoint()
		r.deadLetters(mine, 10)
		r.deadLetters(theirs, 10)
		a, b := r.replay(mine.ID), r.replay(theirs.ID)
		r.settler(mine)
		r.runner(func(shard int) bool { return shard == hook.ShardOf(mine.ID) }, 0)
		time.Sleep(10 * time.Second)
		r.want(a, "done")
		r.want(b, "queued")
	})
}

// TestTwoNodesKeepOnePace lets two runners believe that they own the same
// replay, as may happen for a moment during a fail-over.
func TestTwoNodesKeepOnePace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.endpoint()
		r.deadLetters(e, 200)
		j := r.replay(e.ID)
		r.settler(e)
		r.runner(nil, 0)
		time.Sleep(400 * time.Millisecond)
		r.runner(nil, 0)
		time.Sleep(time.Minute)
		r.wantFed(j, 100, 5)
		time.Sleep(45 * time.Second)
		if c := r.want(j, "done").Counts; c.Delivered != 200 || c.Fed != 200 {
			t.Errorf("counts %+v", c)
		}
	})
}

func TestEndpointTurnedOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.endpoint()
		r.deadLetters(e, 120)
		j := r.replay(e.ID)
		r.settler(e)
		r.runner(nil, 0)
		time.Sleep(20 * time.Second)
		set := func(s hook.EndpointState) {
			e.State = s
			var err error
			e, err = r.db.UpdateEndpoint(r.ctx(), e, r.audit())
			r.must(err)
		}
		set(hook.Disabled)
		time.Sleep(2 * time.Second)
		held := r.want(j, "endpoint_held").Counts.Fed
		time.Sleep(90 * time.Second)
		r.wantFed(j, held, 0)
		set(hook.Active)
		time.Sleep(10 * time.Second)
		r.want(j, "running")

		// A deleted one takes its replay along.
		_, err := r.db.DeleteEndpoint(r.ctx(), r.tenant.ID, e.ID, r.now(), r.audit())
		r.must(err)
		time.Sleep(2 * time.Second)
		if now := r.want(j, "cancelled"); now.FinishedAt.IsZero() || now.Counts.Outstanding() != 0 {
			t.Errorf("finished %v, %d outstanding", now.FinishedAt, now.Counts.Outstanding())
		}
	})
}

// TestSpanningReplay runs over endpoints of which one is off and one fails.
func TestSpanningReplay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		well, off, sick := r.endpoint(), r.endpoint(), r.endpoint()
		for range 10 {
			for _, e := range []hook.Endpoint{well, off, sick} {
				r.deadLetters(e, 1)
			}
		}
		off.State = hook.Disabled
		_, err := r.db.UpdateEndpoint(r.ctx(), off, r.audit())
		r.must(err)
		r.setLane(sick, true)
		j := r.replay(0)
		for _, e := range []hook.Endpoint{well, off, sick} {
			r.settler(e)
		}
		r.runner(nil, 0)
		time.Sleep(10 * time.Second)
		if c := r.want(j, "breaker").Counts; c.Fed > 1 {
			t.Errorf("%d were fed before a lane that is open", c.Fed)
		}
		r.setLane(sick, false)
		time.Sleep(3 * time.Minute)
		if c := r.want(j, "done").Counts; c.Delivered != 20 || c.Skipped != 10 {
			t.Errorf("counts %+v, want 20 delivered and 10 skipped", c)
		}
	})
}

// TestPersonInBetween pauses, resumes and cancels behind the runner's back.
func TestPersonInBetween(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.endpoint()
		r.deadLetters(e, 300)
		j := r.replay(e.ID)
		r.settler(e)
		r.runner(nil, 0)
		change := func(to hook.ReplayState, why hook.PauseReason) {
			for { // as the API does
				now := r.job(j)
				now.State, now.PauseReason, now.UpdatedAt = to, why, r.now()
				if _, err := r.db.UpdateReplay(r.ctx(), now, nil); err == nil {
					return
				}
			}
		}
		time.Sleep(70 * time.Second)
		change(hook.ReplayPaused, hook.PausedByUser)
		time.Sleep(time.Second)
		fed := r.job(j).Counts.Fed
		time.Sleep(2 * time.Minute)
		r.want(j, "user")
		r.wantFed(j, fed, 0)
		change(hook.ReplayQueued, "")
		time.Sleep(time.Minute)
		r.want(j, "running")
		r.wantFed(j, fed+100, 5) // from the start
		change(hook.ReplayCancelled, "")
		time.Sleep(10 * time.Second)
		if c := r.want(j, "cancelled").Counts; c.Outstanding() != 0 {
			t.Errorf("%d outstanding: what was fed is delivered all the same", c.Outstanding())
		}
		n, err := r.db.CountMatching(r.ctx(), store.DeliveryFilter{Tenant: r.tenant.ID, States: []hook.DeliveryState{hook.Dead}}, store.Page{Limit: 5000})
		r.must(err)
		if int64(n.N)+r.job(j).Counts.Fed != 300 {
			t.Errorf("%d are dead, %d were fed; want 300 together", n.N, r.job(j).Counts.Fed)
		}
	})
}

func TestNewChecks(t *testing.T) {
	t.Parallel()
	if _, err := replay.New(replay.Config{Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("New without a store succeeded")
	}
}
