package watch_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/watch"
)

// model is the rule written once more, over a plain list of attempts.
type model struct {
	first, retries []time.Time
	since, calm    time.Time
	changes        []time.Time // storm started, ended, started …
}

func (m *model) judge(now time.Time) {
	in := func(list []time.Time) (n int) {
		for _, at := range list {
			if !at.Before(now.Add(-15*time.Minute)) && at.Before(now) {
				n++
			}
		}
		return n
	}
	first, retries := in(m.first), in(m.retries)
	switch storm := retries > 100 && retries > 5*first; {
	case storm && m.since.IsZero():
		m.since = now
		m.changes = append(m.changes, now)
		fallthrough
	case storm:
		m.calm = time.Time{}
	case m.since.IsZero():
	case m.calm.IsZero():
		m.calm = now
	case now.Sub(m.calm) >= 5*time.Minute:
		m.since, m.calm = time.Time{}, time.Time{}
		m.changes = append(m.changes, now)
	}
}

// tell tells of what happens in one second of the hour.
func (m *model) tell(n *node, tenant, endpoint hook.ID, second int) {
	first, retries := 1, 0
	switch minute := second / 60; {
	case minute < 10:
		retries = second % 2 // fewer than there are first attempts
	case minute < 20:
		first, retries = 0, 3
	case minute < 40:
		first = 0
	}
	n.attempts(tenant, endpoint, hook.First, first)
	n.attempts(tenant, endpoint, hook.Retry, retries)
	for _, kind := range []hook.AttemptKind{hook.Probe, hook.Replay, hook.Manual} {
		n.attempts(tenant, endpoint, kind, 2) // these never count
	}
	for range first {
		m.first = append(m.first, time.Now())
	}
	for range retries {
		m.retries = append(m.retries, time.Now())
	}
}

// TestAnHourWithAStorm tells of the attempts of an hour: live traffic with a few
// retries, then an outage in which nothing but retries is left, then calm. The
// watcher must find the storm when the model does, show it, and end it.
func TestAnHourWithAStorm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		n, begin := r.start(), time.Now()
		defer n.stop()
		tenant, endpoint, quiet := r.id(), r.id(), r.id()
		var m model
		time.Sleep(time.Second / 2) // attempts lie between the boundaries
		for second := range 3600 {
			m.tell(n, tenant, endpoint, second)
			n.Attempted(tenant, quiet, hook.First)
			time.Sleep(time.Second)
			if (second+1)%15 != 0 {
				continue
			}
			now := begin.Add(time.Duration(second+1) * time.Second)
			m.judge(now)
			synctest.Wait()
			row, shown := r.row(endpoint)
			if !row.Storm.Since.Equal(m.since) || (row.Storm.Active() && !row.UpdatedAt.Equal(now)) {
				t.Fatalf("after %d s: shown %v, %+v, want a storm since %v", second, shown, row, m.since)
			}
			if f := n.Figures(); (f.Storms == 1) != row.Storm.Active() || f.Closed < 1 || f.Open != 0 {
				t.Fatalf("after %d s: figures %+v", second, f)
			}
		}
		if len(m.changes) != 2 {
			t.Fatalf("the hour has %d changes, want one storm", len(m.changes))
		}
		var got []time.Time
		for _, e := range r.events() {
			if e.EndpointID != endpoint || e.TenantID != tenant || e.Type != hook.StormStarted && e.Type != hook.StormEnded {
				t.Errorf("unexpected event: %+v", e)
			}
			got = append(got, e.At.In(begin.Location()))
		}
		if diff := cmp.Diff(m.changes, got); diff != "" {
			t.Errorf("storm (-want +got):\n%s", diff)
		}
		if _, shown := r.row(quiet); shown {
			t.Error("an endpoint without retries has a row")
		}
		checkLog(t, r.log, 2)
	})
}

// checkLog looks for one line for each event.
func checkLog(t *testing.T, log *bytes.Buffer, want int) {
	t.Helper()
	lines := 0
	for line := range strings.Lines(log.String()) {
		var entry struct {
			Msg, Tenant, Endpoint string
			Retries               *int
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if strings.HasPrefix(entry.Msg, "storm.") {
			lines++
			if entry.Tenant == "" || entry.Endpoint == "" || entry.Retries == nil {
				t.Errorf("log line lacks something: %s", line)
			}
		}
	}
	if lines != want {
		t.Errorf("%d events logged, want %d:\n%s", lines, want, log)
	}
}

// makeStorm lets a storm begin and returns since when it is shown.
func makeStorm(r *rig, n *node, tenant, endpoint hook.ID) time.Time {
	r.t.Helper()
	n.attempts(tenant, endpoint, hook.Retry, 101)
	time.Sleep(20 * time.Second)
	synctest.Wait()
	row, ok := r.row(endpoint)
	if !ok || !row.Storm.Active() || row.Storm.Retries != 101 || row.Storm.First != 0 {
		r.t.Fatalf("row %+v, %v, want a storm", row, ok)
	}
	r.expect("when the storm began", hook.StormStarted)
	return row.Storm.Since
}

// TestRestartEndsAStorm stops the watcher in a storm. The next one knows
// nothing of its attempts, and ends it after five minutes.
func TestRestartEndsAStorm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		tenant, endpoint := r.id(), r.id()
		first := r.start()
		since := makeStorm(r, first, tenant, endpoint)
		first.stop()
		time.Sleep(time.Hour) // down
		second := r.start()
		defer second.stop()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if row, ok := r.row(endpoint); !ok || !row.Storm.Since.Equal(since) {
			t.Errorf("after 5 min: row %+v, %v, want the storm since %v", row, ok, since)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r.expect("after the restart", hook.StormStarted, hook.StormEnded)
		if row, ok := r.row(endpoint); ok {
			t.Errorf("row is still there: %+v", row)
		}
		var detail struct{ Seconds float64 }
		r.must(json.Unmarshal(r.events(hook.StormEnded)[0].Detail, &detail))
		if detail.Seconds < 3600 {
			t.Errorf("the storm is said to have lasted %v s", detail.Seconds)
		}
	})
}

// TestRestartGoesOnWithAStorm stops the watcher in a storm that goes on.
func TestRestartGoesOnWithAStorm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		tenant, endpoint := r.id(), r.id()
		first := r.start()
		since := makeStorm(r, first, tenant, endpoint)
		first.stop()
		second := r.start()
		defer second.stop()
		for range 40 { // ten minutes
			second.attempts(tenant, endpoint, hook.Retry, 10)
			time.Sleep(watch.BucketWidth)
		}
		synctest.Wait()
		r.expect("after the restart", hook.StormStarted)
		if row, ok := r.row(endpoint); !ok || !row.Storm.Since.Equal(since) || row.Storm.Retries < 300 {
			t.Errorf("row %+v, %v, want the storm since %v", row, ok, since)
		}
	})
}

// TestHandOver gives the lanes to another node: the old owner says and writes
// nothing more, the new one goes on with the storm and ends it.
func TestHandOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		tenant, endpoint := r.id(), r.id()
		a, b := r.start(), r.start()
		defer a.stop()
		defer b.stop()
		b.own(none)
		since := makeStorm(r, a, tenant, endpoint)
		a.own(none)
		b.own(all)
		a.LaneLeft(tenant, endpoint)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if row, _ := r.row(endpoint); !row.Storm.Since.Equal(since) {
			t.Errorf("after the hand-over: row %+v, want the storm since %v", row, since)
		}
		if f := a.Figures(); f.Storms != 0 || f.Open+f.Closed != 0 {
			t.Errorf("the old owner still counts: %+v", f)
		}
		if f := b.Figures(); f.Storms != 1 {
			t.Errorf("the new owner counts %+v, want one storm", f)
		}
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		r.expect("of both nodes", hook.StormStarted, hook.StormEnded)
		if row, ok := r.row(endpoint); ok {
			t.Errorf("row is still there: %+v", row)
		}
	})
}

// TestIdleLaneKeepsItsWindow lets a lane leave memory, as idle ones do after 5
// minutes, in the middle of a storm.
func TestIdleLaneKeepsItsWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		n := r.start()
		defer n.stop()
		tenant, endpoint := r.id(), r.id()
		makeStorm(r, n, tenant, endpoint)
		n.LaneLeft(tenant, endpoint)
		time.Sleep(14 * time.Minute)
		synctest.Wait()
		r.expect("14 minutes later", hook.StormStarted)
		if f := n.Figures(); f.Closed != 1 || f.MaxRatio != 101 {
			t.Errorf("figures = %+v, want its window to count", f)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if f := n.Figures(); f.Closed != 0 || f.Storms != 1 {
			t.Errorf("figures = %+v, want the endpoint forgotten, not its storm", f)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		r.expect("when it has ended", hook.StormStarted, hook.StormEnded)
	})
}

// TestEarlyWarningOfAnOpenLane measures the queue of a lane that sends nothing.
func TestEarlyWarningOfAnOpenLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		n := r.start()
		defer n.stop()
		tenant, endpoint := r.id(), r.id()
		n.LaneFound(tenant, endpoint)
		time.Sleep(time.Second)
		for minute := range 8 {
			r.setDepth(endpoint, int64(minute)*60)
			time.Sleep(time.Minute)
		}
		r.setDepth(endpoint, 480)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		r.expect("while it grows", hook.RetryQueueGrowing)
		row, ok := r.row(endpoint)
		if !ok || !row.Queue.Growing() || row.Queue.Depth != 480 || row.Storm.Active() || n.Figures().Warnings != 1 {
			t.Fatalf("row %+v, %v, figures %+v", row, ok, n.Figures())
		}
		if row.Queue.DrainPerMinute != -60 {
			t.Errorf("drains %v a minute, want -60", row.Queue.DrainPerMinute)
		}
		n.LaneClosed(tenant, endpoint)
		r.setDepth(endpoint, 0)
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		r.expect("when it is empty", hook.RetryQueueGrowing, hook.BreakerClosed, hook.RetryQueueSettled)
		if row, ok := r.row(endpoint); ok {
			t.Errorf("row is still there: %+v", row)
		}
	})
}

// TestWorstLanesAreNamed: as many as asked for, storms before queues, deep queues
// before shallow ones.
func TestWorstLanesAreNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		r.worst = 3
		n := r.start()
		defer n.stop()
		tenant := r.id()
		storm, deep, shallow, quiet := r.id(), r.id(), r.id(), r.id()
		for _, e := range []hook.ID{deep, shallow, quiet} {
			n.LaneFound(tenant, e)
		}
		r.setDepth(deep, 500)
		r.setDepth(shallow, 5)
		makeStorm(r, n, tenant, storm)
		time.Sleep(time.Minute)
		synctest.Wait()
		worst := n.Figures().Worst
		if len(worst) != 3 || worst[0].EndpointID != storm || worst[1].EndpointID != deep || worst[2].EndpointID != shallow {
			t.Fatalf("worst = %+v", worst)
		}
		if w := worst[1]; !w.Open || w.TenantID != tenant || w.Queue.Depth != 500 {
			t.Errorf("worst queue = %+v", w)
		}
	})
}
