package lane_test

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lane"
)

const (
	here      = "https://here.example:443"
	elsewhere = "https://elsewhere.example:443"
)

// knowing is the checkpoint of a healthy lane whose host broke under a load, as it was
// told so long ago.
func knowing(address string, load float64, ago time.Duration) lane.Checkpoint {
	c, at := healthy, start.Add(-ago)
	c.HostLearnt = &lane.HostLearnt{Address: address, At: at}
	if load > 0 {
		c.HostLearnt.Breakage = lane.Breakage{Ceiling: load, CeilingLearnt: load, CeilingAt: at, CeilingWait: 48 * time.Hour, Mark: load, MarkAt: at}
	}
	return c
}

// TestHostIsRemembered: a new owner knows what broke a host from any of its lanes, and
// of several that were told something the latest counts.
func TestHostIsRemembered(t *testing.T) {
	t.Parallel()
	busy := func(c lane.Checkpoint, usual float64) lane.Checkpoint {
		c.Usual = usual
		return c
	}
	for name, x := range map[string]struct {
		lanes []lane.Checkpoint
		want  float64
	}{
		"nobody was told":            {[]lane.Checkpoint{healthy, healthy}, 0},
		"one was told":               {[]lane.Checkpoint{healthy, knowing(here, 100, time.Hour), healthy}, 97},
		"of another host":            {[]lane.Checkpoint{knowing(elsewhere, 100, time.Hour)}, 0},
		"the latest comes last":      {[]lane.Checkpoint{knowing(here, 100, time.Hour), knowing(here, 50, time.Minute)}, 48.5},
		"the latest comes first":     {[]lane.Checkpoint{knowing(here, 50, time.Minute), knowing(here, 100, time.Hour)}, 48.5},
		"it was forgotten since":     {[]lane.Checkpoint{knowing(here, 100, time.Hour), knowing(here, 0, time.Minute)}, 0},
		"of fewer lanes than these":  {[]lane.Checkpoint{busy(knowing(here, 30, time.Hour), 20), busy(healthy, 20)}, 0},
		"of as many lanes as these":  {[]lane.Checkpoint{busy(knowing(here, 30, time.Hour), 10), busy(healthy, 10)}, 29.1},
		"it was down, and still may": {[]lane.Checkpoint{opened(knowing(here, 30, time.Hour)), opened(knowing(here, 30, time.Hour))}, 29.1},
	} {
		h := lane.Host{Address: here}
		for _, c := range x.lanes {
			h.Joined(start, new(lane.Seat), lane.Restore(wide(), c, start, 0.5, true), true)
		}
		if got := h.Rate(start); got < x.want-0.01 || got > x.want+0.01 {
			t.Errorf("%s: the rate is %.1f, want %.1f", name, got, x.want)
		}
	}
}

func opened(c lane.Checkpoint) lane.Checkpoint {
	c.Open, c.OpenedAt, c.BlockedAt, c.NextProbeAt = true, start.Add(-time.Minute), start.Add(-time.Minute), start.Add(time.Second)
	return c
}

// TestKnownHostIsNotTold: a lane that comes back after a long time tells a host nothing
// that has lived on without it.
func TestKnownHostIsNotTold(t *testing.T) {
	t.Parallel()
	h, now := lane.Host{Address: here}, start
	h.Joined(now, new(lane.Seat), lane.Restore(wide(), healthy, now, 0.5, true), true)
	now = now.Add(time.Minute)
	h.Joined(now, new(lane.Seat), lane.Restore(wide(), knowing(here, 100, 0), now, 0.5, false), false)
	if rate := h.Rate(now); rate != 0 {
		t.Errorf("a lane that was away for a minute paces its host to %.1f", rate)
	}
}

// TestLanesAreToldOfTheirHost: what a host has learnt goes into the checkpoints of its
// lanes, and so does that it has forgotten it.
func TestLanesAreToldOfTheirHost(t *testing.T) {
	t.Parallel()
	h := lane.Host{Address: here}
	h.Joined(start, new(lane.Seat), lane.Restore(wide(), knowing(here, 100, time.Hour), start, 0.5, true), true)
	l := lane.New(wide(), start)
	before := l.Checkpoint()
	if before.HostLearnt != nil {
		t.Fatal("a new lane was told something")
	}
	l.Heed(start, &h)
	told := l.Checkpoint()
	if told.HostLearnt == nil || told.HostLearnt.Ceiling != 100 || told.HostLearnt.Address != here || !told.Moved(before) {
		t.Errorf("a lane that asked its host was told %+v, and is to be saved: %v", told.HostLearnt, told.Moved(before))
	}
	l.Heed(start.Add(time.Minute), &h)
	if again := l.Checkpoint(); again.HostLearnt != told.HostLearnt || again.Moved(told) {
		t.Errorf("told the same again, it is saved again: %+v", again.HostLearnt)
	}
	h.Forget()
	for name, tell := range map[string]func(*lane.Lane){
		"asks again": func(l *lane.Lane) { l.Heed(start.Add(time.Hour), &h) },
		"is let go":  func(l *lane.Lane) { l.Unheed(start.Add(time.Hour)) },
	} {
		l := lane.Restore(wide(), told, start, 0.5, false)
		tell(l)
		c := l.Checkpoint()
		if c.HostLearnt == nil || c.HostLearnt.Ceiling != 0 || !c.HostLearnt.At.Equal(start.Add(time.Hour)) || !c.Moved(told) {
			t.Errorf("a lane that %s knows %+v of a host that has forgotten", name, c.HostLearnt)
		}
	}
}
