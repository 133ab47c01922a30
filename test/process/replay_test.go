package process_test

import (
	"fmt"
	"maps"
	"testing"
	"time"
)

// replayView is a replay as the API shows it.
type replayView struct {
	ID               string
	Status           string
	PauseReason      string `json:"pause_reason"`
	CurrentPerMinute int    `json:"current_per_minute"`
	Progress         struct {
		Total, Fed, Delivered, Failed, Skipped int64
	}
}

// replays is an endpoint with dead letters at a destination that is well again.
type replays struct {
	t        *testing.T
	s        *server
	d        *destination
	endpoint string
	letters  int64
}

// replayInFlight is how many requests a replay may have in flight or unsettled.
const replayInFlight = 32

// deadLetters lets a destination refuse events.
func deadLetters(t *testing.T, letters int, policy object) *replays {
	t.Helper()
	r := &replays{
		t: t, s: serve(t, "--dispatch-max-in-flight", fmt.Sprint(replayInFlight)),
		d: startSink(t, "--fail", "400"), letters: int64(letters),
	}
	r.endpoint, _ = r.s.endpoint(r.d.url+"/hook", object{"policy": policy})
	began := time.Now()
	r.s.publish("order.paid", letters)
	eventually(t, 5*time.Minute, "the events are dead letters", func() bool {
		time.Sleep(200 * time.Millisecond)
		return r.d.report().Failed >= r.letters && r.dead() == r.letters
	})
	t.Logf("%d dead letters within %v", letters, time.Since(began))
	r.d.tell(object{"fail": 0, "reset": true})
	return r
}

func (r *replays) dead() int64 {
	r.t.Helper()
	var out struct{ Count int64 }
	r.s.api("GET", "/deliveries/count?status=dead", nil, &out)
	return out.Count
}

// estimate is what a dry run says.
func (r *replays) estimate(settings object) time.Duration {
	r.t.Helper()
	var out struct {
		Count            int64
		EstimatedSeconds int64 `json:"estimated_seconds"`
	}
	in := object{"endpoint": r.endpoint, "dry_run": true}
	maps.Copy(in, settings)
	r.s.api("POST", "/replays", in, &out)
	if out.Count != r.letters {
		r.t.Errorf("a dry run counts %d, want %d", out.Count, r.letters)
	}
	return time.Duration(out.EstimatedSeconds) * time.Second
}

// begin starts the replay and returns its id.
func (r *replays) begin(settings object) string {
	r.t.Helper()
	in := object{"endpoint": r.endpoint}
	maps.Copy(in, settings)
	var out replayView
	r.s.api("POST", "/replays", in, &out)
	return out.ID
}

func (r *replays) view(id string) replayView {
	r.t.Helper()
	var out replayView
	r.s.api("GET", "/replays/"+id, nil, &out)
	return out
}

// wait waits for a status of the replay with so many delivered. One that should
// be running may be done.
func (r *replays) wait(id string, limit time.Duration, status string, delivered int64) replayView {
	r.t.Helper()
	var v replayView
	what := fmt.Sprintf("the replay is %s with %d delivered", status, delivered)
	eventually(r.t, limit, what, func() bool {
		time.Sleep(100 * time.Millisecond)
		v = r.view(id)
		return v.Progress.Delivered >= delivered && (v.Status == status || v.Status == "done" && status == "running")
	})
	return v
}

// finish waits for the end and checks that the numbers add up.
func (r *replays) finish(id string, limit time.Duration, repeats int64) {
	r.t.Helper()
	v := r.wait(id, limit, "done", 0)
	if p := v.Progress; p.Total != r.letters || p.Fed != r.letters || p.Delivered != r.letters || p.Failed != 0 || p.Skipped != 0 {
		r.t.Errorf("in the end %+v, want all %d fed once and delivered", p, r.letters)
	}
	got := r.d.report()
	if got.UniqueIDs != r.letters || got.OK-r.letters > repeats {
		r.t.Errorf("%d events arrived, %d of them again; want %d, and at most %d again", got.UniqueIDs, got.OK-r.letters, r.letters, repeats)
	}
	if n := r.dead(); n != 0 {
		r.t.Errorf("%d are still dead", n)
	}
}

// phase is a stretch of a replay at one pace.
type phase struct {
	from      time.Time
	perMinute int
}

// checkPace checks from the destination's side that no more came than the pace
// allows. Counted from the begin of a phase that bound does not depend on how
// busy the machine is: a replay never makes up for more than two seconds. What
// was in flight when something was killed or failed comes again, too.
func (r *replays) checkPace(phases []phase, end time.Time) {
	r.t.Helper()
	all := r.d.arrivals()
	perSecond := map[int]int{}
	for i, p := range phases {
		until := end
		if i+1 < len(phases) {
			until = phases[i+1].from
		}
		const catchUp, own = 2 * time.Second, 2 * replayInFlight
		came := between(all, p.from, until)
		for n, a := range came {
			passed := a.At.Sub(p.from)
			perSecond[int(a.At.Sub(phases[0].from).Seconds())]++
			if most := int((passed + catchUp).Minutes() * float64(p.perMinute)); n > most+own {
				r.t.Errorf("%d had come %v into a pace of %d per minute, want at most %d", n, passed, p.perMinute, most+own)
				break
			}
		}
		r.t.Logf("%d in %v at %d per minute", len(came), until.Sub(p.from).Round(time.Second), p.perMinute)
	}
	seconds := make([]int, int(end.Sub(phases[0].from).Seconds())+1)
	for i := range seconds {
		seconds[i] = perSecond[i]
	}
	r.t.Logf("arrivals by second: %v", seconds)
}

// TestDeadLettersAreReplayed: the pace is kept to, the replay outlives a restart,
// pauses itself while the destination fails, and delivers each letter exactly
// once.
func TestDeadLettersAreReplayed(t *testing.T) {
	t.Parallel()
	const letters, pace = 2000, 6000
	r := deadLetters(t, letters, object{"concurrency": replayInFlight})
	if got := r.estimate(nil); got != 270*time.Second {
		t.Errorf("a dry run estimates %v at the default pace, want 4m30s", got)
	}
	settings := object{"per_minute": pace, "max_multiple": 1}
	if got := r.estimate(settings); got != 20*time.Second {
		t.Errorf("a dry run estimates %v, want 20s", got)
	}
	began := time.Now()
	id := r.begin(settings)
	r.wait(id, time.Minute, "running", 200)

	// An orderly restart, and on from where it was. It comes before the failure:
	// an endpoint that has failed is spared for minutes by its next owner.
	before := r.view(id).Progress
	r.s.stop()
	r.s.start()
	if after := r.view(id).Progress; after.Fed < before.Fed || after.Delivered < before.Delivered {
		t.Errorf("after the restart %+v, was %+v", after, before)
	}
	r.wait(id, time.Minute, "running", before.Delivered+100)
	r.breakDown(id)

	// A probe finds that it is well. A person who sees that need not wait for the
	// minute after which the replay goes on by itself.
	eventually(t, time.Minute, "the lane is closed", func() bool { return r.s.lane(r.endpoint).State == "closed" })
	r.s.api("POST", "/replays/"+id+"/resume", nil, nil)
	resumed := r.wait(id, time.Minute, "running", 0)
	again := time.Now()
	t.Logf("resumed %v after the begin with %d delivered", again.Sub(began), resumed.Progress.Delivered)
	r.finish(id, 5*time.Minute, 0)
	end := time.Now()
	t.Logf("all delivered %v after the begin", end.Sub(began))
	r.checkPace([]phase{{began, pace}, {again, pace}}, end)
}

// TestReplayGoesOnByItself: a replay that has paused itself goes on when the
// destination is well, at the pace it began with, and doubles that after a
// clean minute. Estimates know of both.
func TestReplayGoesOnByItself(t *testing.T) {
	t.Parallel()
	inFull(t)
	const letters, pace = 5000, 3000
	r := deadLetters(t, letters, object{"concurrency": replayInFlight})
	settings := object{"per_minute": pace, "max_multiple": 2}
	if got := r.estimate(settings); got != 80*time.Second { // one minute, and the rest twice as fast
		t.Errorf("a dry run estimates %v, want 80s", got)
	}
	began := time.Now()
	id := r.begin(settings)
	r.wait(id, time.Minute, "running", 200)
	r.breakDown(id)
	resumed := r.wait(id, 3*time.Minute, "running", 0)
	again := time.Now()
	t.Logf("resumed %v after the begin with %d delivered", again.Sub(began), resumed.Progress.Delivered)
	if resumed.CurrentPerMinute != pace {
		t.Errorf("resumed with %d per minute, want %d", resumed.CurrentPerMinute, pace)
	}
	var faster time.Time
	eventually(t, 5*time.Minute, "the pace is doubled after a clean minute", func() bool {
		time.Sleep(100 * time.Millisecond)
		faster = time.Now()
		return r.view(id).CurrentPerMinute == 2*pace
	})
	r.finish(id, 5*time.Minute, 0)
	if clean := faster.Sub(again); clean < time.Minute {
		t.Errorf("the pace was doubled after %v, want a clean minute", clean)
	}
	r.checkPace([]phase{{began, pace}, {again, pace}, {faster, 2 * pace}}, time.Now())
}

// breakDown lets the destination fail in the middle of a replay, and heals it:
// few attempts are wasted, and soon none.
func (r *replays) breakDown(id string) {
	r.t.Helper()
	r.d.tell(object{"fail": 503})
	failed := time.Now()
	paused := r.wait(id, time.Minute, "paused", 0)
	r.t.Logf("paused (%s) %v after the failure with %d fed", paused.PauseReason, time.Since(failed), paused.Progress.Fed)
	if paused.PauseReason != "breaker" && paused.PauseReason != "error_rate" {
		r.t.Errorf("paused because of %q", paused.PauseReason)
	}
	time.Sleep(5 * time.Second)
	if fed := r.view(id).Progress.Fed; fed != paused.Progress.Fed {
		r.t.Errorf("%d were fed while the destination was down", fed-paused.Progress.Fed)
	}
	wasted := r.d.report().Failed
	r.t.Logf("%d attempts wasted", wasted)
	// Five in a row open the lane while others are on their way; then it probes.
	if most := 5 + replayInFlight - 1 + int64(time.Since(failed)/leastGap) + 1; wasted > most {
		r.t.Errorf("%d attempts were wasted, want at most %d", wasted, most)
	}
	r.d.tell(object{"fail": 0})
}

// TestReplayIsKilled: after a kill a replay goes on from where it was. What was
// not settled comes again; nothing else does, and nothing is lost.
func TestReplayIsKilled(t *testing.T) {
	t.Parallel()
	const letters, pace, kills = 2000, 12_000, 2
	r := deadLetters(t, letters, object{})
	began := time.Now()
	id := r.begin(object{"per_minute": pace, "max_multiple": 1})
	for part := range int64(kills) {
		r.wait(id, 3*time.Minute, "running", (part+1)*letters/(kills+1))
		before := r.view(id).Progress
		r.s.kill()
		r.s.start()
		if after := r.view(id).Progress; after.Fed < before.Fed || after.Delivered < before.Delivered {
			t.Errorf("after the kill %+v, was %+v", after, before)
		}
	}
	r.finish(id, 5*time.Minute, kills*replayInFlight)
	t.Logf("%d arrived again after %d kills", r.d.report().OK-letters, kills)
	r.checkPace([]phase{{began, pace}}, time.Now())
}
