package policy_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// anyOutcome draws an attempt of any kind with any end.
func anyOutcome(t *rapid.T) policy.Outcome {
	o := policy.Outcome{
		Kind:       rapid.SampledFrom([]hook.AttemptKind{hook.First, hook.Retry, hook.Probe, hook.Replay, hook.Manual}).Draw(t, "kind"),
		LaneClosed: rapid.Bool().Draw(t, "closed"),
		U:          anyU(t),
	}
	if rapid.Bool().Draw(t, "answered") {
		// Those that mean something special are rare among all of them.
		special := rapid.SampledFrom([]int{200, 408, 410, 425, 429, 500, 502, 503, 504})
		o.Status = rapid.OneOf(rapid.IntRange(-10, 700), special).Draw(t, "status")
		o.RetryAfter = rapid.SliceOfN(rapid.OneOf(rapid.StringMatching(`[0-9]{0,12}`), rapid.Just(minuteLater), rapid.String()), 0, 2).Draw(t, "retry-after")
	}
	o.Reason = hook.Reason(rapid.IntRange(0, 30).Draw(t, "reason"))
	return o
}

// TestRuns plays whole runs and checks the laws that hold for every policy.
func TestRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy(t)
		prog := hook.Progress{Run: 1, RunDueAt: noon}
		due := noon
		for range 60 {
			o := anyOutcome(t)
			o.At = due.Add(time.Second)
			v := p.Judge(prog, due, o)
			checkLaws(t, &p, prog, due, o, v)
			if v.State != hook.Pending {
				return
			}
			prog, due = v.Progress, v.DueAt
		}
	})
}

func checkLaws(t *rapid.T, p *policy.Policy, before hook.Progress, due time.Time, o policy.Outcome, v policy.Verdict) {
	offSchedule := o.Kind == hook.Probe || o.Kind == hook.Manual
	for law, broken := range map[string]bool{
		"class is in the closed list":      !slices.Contains(hook.Classes(), v.Class),
		"reason is in the closed list":     !slices.Contains(hook.Reasons(), v.Reason),
		"end goes with dead":               (v.State == hook.Dead) != (v.End != 0),
		"end is a dead reason":             v.End > hook.DeadExpired,
		"due goes with pending":            (v.State == hook.Pending) == v.DueAt.IsZero(),
		"charged counts what was charged":  (v.Progress.Charged == before.Charged+1) != v.Charged || v.Progress.Charged < before.Charged,
		"only real tries are charged":      v.Charged != (o.LaneClosed && !offSchedule && v.Class != hook.Throttle && v.Class != hook.Local),
		"budget is kept":                   v.Progress.Charged > p.Retry.MaxAttempts,
		"spent budget ends":                v.Charged && v.Progress.Charged == p.Retry.MaxAttempts && v.State == hook.Pending,
		"probes and manual cost nothing":   offSchedule && v.Progress.Charged != before.Charged,
		"open lanes cost nothing":          !o.LaneClosed && v.Charged,
		"throttle and local cost nothing":  (v.Class == hook.Throttle || v.Class == hook.Local) && v.Charged,
		"probes do not advance n":          offSchedule && v.Progress.BackoffSteps != before.BackoffSteps,
		"probes end only in success":       offSchedule && v.State == hook.Dead,
		"unchanged keeps the due time":     v.Unchanged && !v.DueAt.Equal(due),
		"fails include failures":           v.Progress.FailedAttempts < v.Progress.BackoffSteps,
		"retries respect the floor":        v.State == hook.Pending && !v.Unchanged && v.DueAt.Before(o.At.Add(p.Retry.MinDelay)),
		"retries respect the end":          v.State == hook.Pending && !v.Unchanged && v.Reason != hook.Interrupted && v.DueAt.After(noon.Add(p.Retry.MaxElapsed)),
		"hold is never shorter than asked": v.Hold < v.RetryAfter,
		"own wait is not before the wish":  v.Source == hook.DelayRetryAfter && v.Delay < v.RetryAfter,
		"permanent is never retried":       v.Class == hook.Permanent && v.State == hook.Pending && !v.Unchanged && v.Reason != hook.Gone,
		"gone is asked once more at most":  v.Reason == hook.Gone && before.Limited[hook.Gone] > 0 && v.State == hook.Pending && !v.Unchanged,
		"only gone disables":               v.SaysGone && o.Status != 410,
		"due is answer plus delay":         v.State == hook.Pending && !v.Unchanged && !v.DueAt.Equal(o.At.Add(v.Delay)),
	} {
		if broken {
			t.Fatalf("law %q broken: %+v gave %+v", law, o, v)
		}
	}
}

// TestLogExplainsEveryWait writes what an attempt row keeps, in the units in
// which it is kept, and computes the wait again from that alone.
func TestLogExplainsEveryWait(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy(t)
		canonical, err := p.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		prog := hook.Progress{RunDueAt: noon}
		for range 10 {
			o := anyOutcome(t)
			o.At = noon
			v := p.Judge(prog, noon, o)
			if v.Source != hook.DelayNone {
				explain(t, canonical, prog, v)
			}
			if v.State != hook.Pending {
				return
			}
			prog = v.Progress
			prog.PrevDelay = prog.PrevDelay.Truncate(time.Millisecond) // as the store keeps it
		}
	})
}

func explain(t *rapid.T, canonical []byte, before hook.Progress, v policy.Verdict) {
	stored, err := policy.Restore(canonical)
	if err != nil {
		t.Fatal(err)
	}
	ceiling := time.Duration(v.Ceiling.Milliseconds()) * time.Millisecond
	asked := v.RetryAfter
	delay := time.Duration(v.Delay.Milliseconds()) * time.Millisecond
	if got := stored.Wait(v.Source, ceiling, asked, v.U); got != delay {
		t.Fatalf("from the row: %v, waited %v (%+v)", got, delay, v)
	}
	if v.Source != hook.DelayBackoff {
		return
	}
	if got, _ := stored.Delay(v.RetryN, before.PrevDelay, v.U); got != delay {
		t.Fatalf("from retry %d and the last draw %v: %v, waited %v", v.RetryN, before.PrevDelay, got, delay)
	}
}

// TestPatienceEndsFastThrottles plays a destination that says "in a second" for
// ever: the attempts must thin out although none is charged.
func TestPatienceEndsFastThrottles(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{`{}`, `{"preset":"quick"}`, `{"preset":"github"}`} {
		r := resolve(t, doc)
		prog, now := hook.Progress{RunDueAt: noon}, noon
		attempts := 0
		for now.Before(noon.Add(time.Hour)) && attempts < 5000 {
			o := answer(429, "5")
			o.At = now
			v := r.Policy.Judge(prog, now, o)
			if v.State != hook.Pending {
				t.Fatalf("%s: ended as %v %v", doc, v.State, v.End)
			}
			prog, now = v.Progress, v.DueAt
			attempts++
		}
		if limit := 150; attempts > limit {
			t.Errorf("%s: %d attempts in an hour of throttling, want at most %d", doc, attempts, limit)
		}
	}
}
