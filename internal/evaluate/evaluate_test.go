package evaluate_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/evaluate"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var (
	firing         = []hook.NoticeKind{hook.NoticeFiring}
	firingResolved = []hook.NoticeKind{hook.NoticeFiring, hook.NoticeResolved}
)

// storm makes the figures of a storm up, and calm those of an endpoint that works.
func storm(r *rig, e hook.Endpoint) {
	r.count(ofEndpoint(e), stats.Attempts(hook.First), 10, stats.Attempts(hook.Retry), 200)
}

func calm(r *rig, e hook.Endpoint) { r.count(ofEndpoint(e), stats.Attempts(hook.First), 100) }

func wantTold(t *testing.T, a hook.Alert, channel hook.ID, want []hook.NoticeKind) {
	t.Helper()
	if got := told(a, channel); !slices.Equal(got, want) {
		t.Errorf("%s: channel was told %v, want %v", a.Rule, got, want)
	}
}

// TestAStormIsToldOnceAndSoIsItsEnd: with a channel beside the log, which is always
// there.
func TestAStormIsToldOnceAndSoIsItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		ch := r.channel(hook.Channel{})
		e := r.endpoint()
		storm(r, e)
		v := r.evaluate()
		defer v.stop()
		r.pass(3 * time.Minute)
		a := r.one("retry_storm")
		if a.Status != hook.AlertFiring || a.Subject != (hook.AlertSubject{Tenant: e.TenantID, Endpoint: e.ID}) || strings.Contains(a.Summary, "secret") {
			t.Errorf("alert %+v", a)
		}
		wantTold(t, a, ch.ID, firing)
		wantTold(t, a, alert.LogChannelID, firing)
		if v.decided != 1 {
			t.Errorf("the sender was told %d times, want once", v.decided)
		}
		if !slices.Equal(v.fired, []string{"retry_storm"}) {
			t.Errorf("%v were told to have fired, want the storm once", v.fired)
		}
		if got := v.Firing(); !slices.Equal(got, []evaluate.Count{{Rule: "retry_storm", Severity: hook.SeverityPage, N: 1}}) {
			t.Errorf("%v fire", got)
		}
		calm(r, e)
		r.pass(7 * time.Minute)
		a = r.one("retry_storm")
		wantTold(t, a, ch.ID, firingResolved)
		if got := v.Firing(); len(got) != 0 {
			t.Errorf("%v fire in the end", got)
		}
		if a.Status != hook.AlertResolved {
			t.Errorf("status %v", a.Status)
		}
	})
}

// TestOnlyTheOwnerEvaluates: of two nodes one does, and when the shard moves in the
// middle of an alert nothing is told twice and its end once.
func TestOnlyTheOwnerEvaluates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		ch := r.channel(hook.Channel{})
		e := r.endpoint()
		other, err := r.db.Join(t.Context(), hook.Node{Name: "two", StartedAt: time.Now()}, r.id(), time.Minute)
		r.must(err)
		a, b := r.evaluate(), r.start(other, 0)
		defer a.stop()
		defer b.stop()
		storm(r, e)
		r.pass(time.Minute)
		wantTold(t, r.one("retry_storm"), ch.ID, firing)

		// The old owner is not told, as one that was paused.
		epoch := r.take(other)[0].Epoch
		b.own(epoch, true)
		r.pass(2 * time.Minute)
		wantTold(t, r.one("retry_storm"), ch.ID, firing)
		if b.decided != 0 {
			t.Error("the new owner told of it again")
		}
		calm(r, e)
		r.pass(10 * time.Minute)
		row := r.one("retry_storm")
		wantTold(t, row, ch.ID, firingResolved)
		wantTold(t, row, alert.LogChannelID, firingResolved)
		if b.decided != 1 || a.decided != 1 {
			t.Errorf("told %d and %d times, want its beginning by one and its end by the other", a.decided, b.decided)
		}
	})
}

// TestAPausedOwnerWritesNothing: it has found an end that the new owner has not.
func TestAPausedOwnerWritesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		e := r.endpoint()
		a := r.evaluate()
		defer a.stop()
		r.pass(time.Minute)
		other, err := r.db.Join(t.Context(), hook.Node{Name: "two", StartedAt: time.Now()}, r.id(), time.Minute)
		r.must(err)
		r.take(other)
		storm(r, e)
		r.pass(5 * time.Minute)
		if got := r.alerts("retry_storm"); len(got) != 0 {
			t.Errorf("an owner of old stored %+v", got)
		}
		if a.decided != 0 {
			t.Error("and told of it")
		}
	})
}

// TestWhatCannotBeReadStaysAsItIs: neither an endpoint nor a whole store.
func TestWhatCannotBeReadStaysAsItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		sick, dark := r.endpoint(), r.endpoint()
		storm(r, sick)
		storm(r, dark)
		v := r.evaluate()
		defer v.stop()
		r.pass(time.Minute)
		if n := len(r.alerts("retry_storm")); n != 2 {
			t.Fatalf("%d alerts, want two", n)
		}
		r.set(func() { r.blind[ofEndpoint(dark)] = true })
		calm(r, sick)
		calm(r, dark)
		r.pass(20 * time.Minute)
		for _, a := range r.alerts("retry_storm") {
			if want := map[hook.ID]hook.AlertStatus{sick.ID: hook.AlertResolved, dark.ID: hook.AlertFiring}[a.Subject.Endpoint]; a.Status != want {
				t.Errorf("alert of %v is %v, want %v", a.Subject.Endpoint, a.Status, want)
			}
		}
		if n := strings.Count(r.log.String(), "cannot be judged in full"); n != 1 {
			t.Errorf("logged %d times, want once\n%s", n, r.log)
		}
		r.set(func() { clear(r.blind) })
		r.pass(7 * time.Minute)
		for _, a := range r.alerts("retry_storm") {
			if a.Status != hook.AlertResolved {
				t.Errorf("alert of %v is %v, want it over", a.Subject.Endpoint, a.Status)
			}
		}
	})
}

// TestAStepThatIsNotStoredIsTakenAgain: what the store has refused is decided again
// when it is back.
func TestAStepThatIsNotStoredIsTakenAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		ch := r.channel(hook.Channel{})
		e := r.endpoint()
		storm(r, e)
		r.set(func() { r.away = true })
		v := r.evaluate()
		defer v.stop()
		r.pass(5 * time.Minute)
		if got := r.alerts("retry_storm"); len(got) != 0 || v.decided != 0 {
			t.Fatalf("%+v stored, told %d times", got, v.decided)
		}
		r.set(func() { r.away = false })
		r.pass(time.Minute)
		wantTold(t, r.one("retry_storm"), ch.ID, firing)
	})
}

// TestAcknowledgedAlertsAreNotRepeated: until a snooze is over, and by the stored
// acknowledgement alone.
func TestAcknowledgedAlertsAreNotRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		ch := r.channel(hook.Channel{})
		e := r.endpoint()
		storm(r, e)
		v := r.evaluate()
		defer v.stop()
		r.pass(time.Minute)
		ack := func(snooze time.Duration) {
			t.Helper()
			a := r.one("retry_storm")
			r.must(alert.Acknowledge(&a, "anna", "on it", snooze, time.Now()))
			_, err := r.db.AckAlert(t.Context(), 0, a, r.audit())
			r.must(err)
		}
		ack(0)
		r.pass(9 * time.Hour)
		wantTold(t, r.one("retry_storm"), ch.ID, firing)
		ack(time.Hour)
		r.pass(50 * time.Minute)
		wantTold(t, r.one("retry_storm"), ch.ID, firing)
		r.pass(11 * time.Minute)
		a := r.one("retry_storm")
		wantTold(t, a, ch.ID, []hook.NoticeKind{hook.NoticeFiring, hook.NoticeRepeat})
		if a.AckedBy != "" {
			t.Errorf("acknowledged by %q after the snooze", a.AckedBy)
		}
		r.pass(4*time.Hour + time.Minute)
		wantTold(t, r.one("retry_storm"), ch.ID, []hook.NoticeKind{hook.NoticeFiring, hook.NoticeRepeat, hook.NoticeRepeat})
	})
}

// TestManyBreakersAreOneNotice: for the operator. The endpoint's owner hears of the
// endpoint.
func TestManyBreakersAreOneNotice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		operator, owner := r.channel(hook.Channel{}), r.channel(hook.Channel{Tenant: r.tenant.ID})
		for range 6 {
			r.open(r.endpoint())
		}
		r.saved(hook.NodeWatch{NodeID: r.node.ID, Lanes: 20, Opened: 6})
		v := r.evaluate()
		defer v.stop()
		r.pass(40 * time.Second)
		many := r.one(alert.BreakersMany)
		wantTold(t, many, operator.ID, firing)
		if many.Memory.Folded != 6 {
			t.Errorf("stands for %d notices, want 6", many.Memory.Folded)
		}
		for _, a := range r.alerts(alert.BreakerOpen) {
			wantTold(t, a, operator.ID, []hook.NoticeKind{hook.NoticeFolded})
			wantTold(t, a, owner.ID, firing)
		}
	})
}

// TestManyBreakersAreOneNoticeFromTheFirstRound: also when the nodes have not counted
// them yet.
func TestManyBreakersAreOneNoticeFromTheFirstRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		operator := r.channel(hook.Channel{})
		r.saved(hook.NodeWatch{NodeID: r.node.ID, Lanes: 20})
		for range 6 {
			r.open(r.endpoint())
		}
		v := r.evaluate()
		defer v.stop()
		r.pass(20 * time.Second)
		wantTold(t, r.one(alert.BreakersMany), operator.ID, firing)
		for _, a := range r.alerts(alert.BreakerOpen) {
			wantTold(t, a, operator.ID, []hook.NoticeKind{hook.NoticeFolded})
		}
	})
}

// TestAClosedBreakerSaysHowLongAndHowMany: the notice of its end.
func TestAClosedBreakerSaysHowLongAndHowMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		e := r.endpoint()
		all := r.accept(e, 7)
		r.settle(all[6], false)
		opened := time.Now()
		r.open(e)
		v := r.evaluate()
		defer v.stop()
		r.pass(10 * time.Minute)
		a := r.one(alert.BreakerOpen)
		for _, want := range []string{"api.example.com/", "status 503", "7 deliveries are held"} {
			if !strings.Contains(a.Summary, want) {
				t.Errorf("summary %q lacks %q", a.Summary, want)
			}
		}
		r.checkpoint(e, lane.Checkpoint{OpenedAt: opened, ClosedAt: time.Now()})
		r.pass(6 * time.Minute)
		if a := r.one(alert.BreakerOpen); !strings.Contains(a.Summary, "closed after 10m") || !strings.Contains(a.Summary, "7 deliveries held") {
			t.Errorf("summary of its end: %q", a.Summary)
		}
	})
}

// TestADeletedEndpointEndsItsAlerts and those of others stay.
func TestADeletedEndpointEndsItsAlerts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		e := r.endpoint()
		storm(r, e)
		v := r.evaluate()
		defer v.stop()
		r.pass(time.Minute)
		r.one("retry_storm")
		_, err := r.db.DeleteEndpoint(t.Context(), e.TenantID, e.ID, time.Now(), r.audit())
		r.must(err)
		r.pass(6 * time.Minute)
		if a := r.one("retry_storm"); a.Status != hook.AlertResolved {
			t.Errorf("status %v", a.Status)
		}
	})
}

// TestADeletedTenantEndsItsAlerts: its figures are kept, but nobody can mend them.
func TestADeletedTenantEndsItsAlerts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		r.count(r.ofTenant(), stats.Delivered(1), 100, stats.Dead(hook.DeadExhausted), 100)
		v := r.evaluate()
		defer v.stop()
		r.pass(time.Minute)
		r.one("dead_rate")
		r.must(r.db.DeleteTenant(t.Context(), r.tenant.ID, r.audit()))
		r.pass(15 * time.Minute)
		if a := r.one("dead_rate"); a.Status != hook.AlertResolved {
			t.Errorf("status %v", a.Status)
		}
	})
}

// TestAClockThatIsSetBackSilencesNothing: what begins afterwards is told at once.
func TestAClockThatIsSetBackSilencesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		v := r.evaluate()
		v.stop()
		r.open(r.endpoint())
		r.must(v.Round(t.Context(), time.Now().Add(24*time.Hour)))
		r.one(alert.BreakerOpen)
		e := r.endpoint()
		r.open(e)
		r.must(v.Round(t.Context(), time.Now()))
		all := r.alerts(alert.BreakerOpen)
		if len(all) != 2 || all[1].Subject.Endpoint != e.ID {
			t.Fatalf("%d alerts: %+v", len(all), all)
		}
		a := all[1]
		if a.Since.After(time.Now()) {
			t.Errorf("it fires since %v, and it is %v", a.Since, time.Now())
		}
		due, err := r.db.DueNotices(t.Context(), store.Fence{Node: r.node.ID, Held: store.Held{Shard: 0, Epoch: r.held[0]}}, time.Now(), nil, 100)
		r.must(err)
		if !slices.ContainsFunc(due, func(n store.Notice) bool { return n.About == a.ID }) {
			t.Errorf("its notice is not due: %+v", a.Notifications)
		}
	})
}

// TestHealthyEndpointsAreNotRead: however many there are, a round reads the system
// only.
func TestHealthyEndpointsAreNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		for range 50 {
			calm(r, r.endpoint())
		}
		v := r.evaluate()
		defer v.stop()
		r.pass(10 * time.Minute)
		if rounds := 40; r.reads > 2*rounds {
			t.Errorf("figures were read %d times in %d rounds", r.reads, rounds)
		}
	})
}

// TestNewChecksItsConfig: what is missing or out of bounds is named.
func TestNewChecksItsConfig(t *testing.T) {
	t.Parallel()
	if _, err := evaluate.New(evaluate.Config{}); err == nil || !strings.Contains(err.Error(), "required") {
		t.Errorf("New of nothing: %v", err)
	}
}
