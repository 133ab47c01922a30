package lane_test

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// TestProbeOfAnEarlierOutageSteersNothing: closed by hand while its probe was
// out, and open again: the old probe's answer is not that of the new probe, and
// must not let a second one leave beside it.
func TestProbeOfAnEarlierOutageSteersNothing(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l := lane.New(config(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	arrive := func(ids ...hook.ID) {
		for _, id := range ids {
			l.Arrive(lane.Ref{ID: id, FirstDue: now})
		}
	}
	open := func() {
		for l.State() == lane.Closed {
			now = now.Add(time.Second)
			dec := l.Next(now, 100)
			if !dec.Send {
				t.Fatal("nothing to send")
			}
			l.Result(now, 0.5, dec.Tag, lane.Outcome{Class: hook.Down})
		}
	}
	probe := func() lane.Decision {
		now = now.Add(time.Hour)
		dec := l.Next(now, 100)
		if !dec.Send || !dec.Tag.Probe {
			t.Fatalf("Next = %+v, want a probe", dec)
		}
		return dec
	}

	arrive(1, 2, 3, 4, 5, 6)
	open()
	first := probe()
	l.Reset(now)
	arrive(11, 12, 13, 14, 15, 16, 17)
	open()
	probe()

	l.Result(now, 0.5, first.Tag, lane.Outcome{Class: hook.Down})
	if l.State() != lane.HalfOpen {
		t.Errorf("state = %v after the answer of an earlier outage's probe, want half_open", l.State())
	}
	now = now.Add(time.Hour)
	if dec := l.Next(now, 100); dec.Send {
		t.Error("a second probe left beside the first")
	}
}

// TestOnlyFailuresOpen: the answer that fills the window may be a good one; the
// lane then waits for the next failure.
func TestOnlyFailuresOpen(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]hook.Class{"success": hook.Success, "throttle": hook.Throttle, "permanent": hook.Permanent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			cfg := config()
			l := lane.New(cfg, now)
			answer := func(c hook.Class) lane.Change {
				now = now.Add(time.Hour)
				l.Arrive(lane.Ref{ID: hook.ID(now.Unix()), FirstDue: now})
				dec := l.Next(now, 100)
				if !dec.Send {
					t.Fatalf("Next = %+v, want a send", dec)
				}
				return l.Result(now, 0.5, dec.Tag, lane.Outcome{Class: c})
			}
			for range cfg.WindowOf - 1 {
				if answer(hook.Retryable).Opened {
					t.Fatal("opened before the window was full")
				}
			}
			if answer(last).Opened {
				t.Errorf("an answer of class %v opened the lane", last)
			}
			answer(hook.Retryable)
			if !answer(hook.Retryable).Opened && l.State() == lane.Closed {
				t.Error("a full window of failures did not open the lane")
			}
		})
	}
}

// TestWishSurvivesTheOutage: what a person asked for is sent first, also when
// the lane opened and closed again before its turn.
func TestWishSurvivesTheOutage(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cfg := config()
	cfg.Limit = 5
	l := lane.New(cfg, now)
	var flying []lane.Decision
	for id := range hook.ID(5) {
		l.Arrive(lane.Ref{ID: id + 1, FirstDue: now})
		flying = append(flying, l.Next(now, 100))
	}
	l.Manual(now, lane.Ref{ID: 99, FirstDue: now.Add(-time.Hour), FailedAttempts: 3})
	for _, dec := range flying {
		l.Result(now, 0.5, dec.Tag, lane.Outcome{Class: hook.Down})
	}
	if l.State() != lane.Open {
		t.Fatalf("state = %v after 5 failures, want open", l.State())
	}
	now = now.Add(time.Second)
	for id := range hook.ID(5) {
		l.Arrive(lane.Ref{ID: id + 11, FirstDue: now})
	}
	l.Reset(now)
	if dec := l.Next(now, 100); dec.Ref.ID != 99 || dec.Kind != hook.Manual {
		t.Errorf("first after the reset is %d (%v), want the delivery asked for", dec.Ref.ID, dec.Kind)
	}
}

// TestEndOfSlowStartIsNews: whoever waits for the end of a slow start reads it
// in the checkpoint, whatever became of the limit.
func TestEndOfSlowStartIsNews(t *testing.T) {
	t.Parallel()
	slow := lane.Checkpoint{Limit: 10, HealthyPeak: 10, SlowStart: true}
	found := slow
	found.SlowStart = false
	if slow.Moved(slow) || !found.Moved(slow) {
		t.Error("the end of a slow start is not worth a checkpoint")
	}
}

// TestEveryRetryAfterIsObeyed: what was sent before the lane opened steers
// nothing, but when its answer asks to be left alone, no probe leaves before.
func TestEveryRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Limit = 6
	d := drive(t, cfg)
	d.arrive(10)
	var flying []lane.Decision
	for range 6 {
		flying = append(flying, d.send())
	}
	for _, dec := range flying[:5] {
		d.result(dec, hook.Down)
	}
	if d.l.State() != lane.Open {
		t.Fatalf("state = %v after 5 failures, want open", d.l.State())
	}
	c := d.l.Result(d.now, 0.5, flying[5].Tag, lane.Outcome{Class: hook.Throttle, Hold: time.Hour, RetryAfter: time.Hour})
	if !c.Save {
		t.Error("the hold is not saved")
	}
	d.now = d.now.Add(59 * time.Minute)
	d.quiet()
	d.now = d.now.Add(time.Minute)
	d.send()
}
