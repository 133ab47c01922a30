package alert_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// desk drives a board as an evaluator does, and keeps what it stores and sends.
type desk struct {
	t        testing.TB
	b        *alert.Board
	o        alert.Options
	now      time.Time
	channels []hook.Channel
	rows     map[hook.ID]hook.Alert
	sent     []string // of the last step
}

const (
	ops   hook.ID = 11
	quiet hook.ID = 12 // no recovery notices
	owner hook.ID = 13 // acme's own
)

func newDesk(t testing.TB, o alert.Options) *desk {
	t.Helper()
	d := &desk{t: t, now: noon, rows: map[hook.ID]hook.Alert{}}
	next := hook.ID(1000)
	o.NextID = func(time.Time) hook.ID { next++; return next }
	d.o = o
	d.channels = []hook.Channel{{ID: ops, SendResolved: true}}
	d.restore()
	return d
}

// restore makes a board from what is stored, as another evaluator does.
func (d *desk) restore() {
	d.t.Helper()
	var rows []hook.Alert
	for _, a := range d.rows {
		rows = append(rows, a)
	}
	b, err := alert.NewBoard(d.o, rows)
	if err != nil {
		d.t.Fatal(err)
	}
	d.b = b
}

func line(n alert.Notice) string {
	return fmt.Sprintf("%s %s ep%d %s > %d", n.At.Format("15:04:05"), n.Alert.Rule, n.Alert.Subject.Endpoint, n.Kind, n.Channel)
}

// step lets time pass and tells the board what is true then.
func (d *desk) step(after time.Duration, findings ...alert.Finding) alert.Outcome {
	d.t.Helper()
	return d.round(after, alert.Round{Findings: findings})
}

func (d *desk) round(after time.Duration, r alert.Round) alert.Outcome {
	d.t.Helper()
	d.now = d.now.Add(after)
	r.Now, r.Channels = d.now, d.channels
	out := d.b.Step(r)
	for _, a := range out.Save {
		row := d.rows[a.ID]
		a.AckedBy, a.AckedAt, a.AckNote, a.SnoozedUntil = row.AckedBy, row.AckedAt, row.AckNote, row.SnoozedUntil
		d.rows[a.ID] = a
	}
	for _, id := range out.Unacked {
		a := d.rows[id]
		a.AckedBy, a.AckedAt, a.AckNote, a.SnoozedUntil = "", time.Time{}, "", time.Time{}
		d.rows[id] = a
	}
	for _, id := range out.Drop {
		delete(d.rows, id)
	}
	d.sent = nil
	for _, n := range out.Notices {
		d.sent = append(d.sent, line(n))
		n := hook.Notification{Channel: n.Channel, At: n.At, Kind: n.Kind, Result: hook.NoticeSent, Tries: 1}
		if row, ok := d.b.Told(out.Notices[len(d.sent)-1].Alert.ID, n); ok {
			d.rows[row.ID] = row
		}
	}
	return out
}

// sends checks what the last step sent: kinds and channels.
func (d *desk) sends(want ...string) {
	d.t.Helper()
	var got []string
	for _, s := range d.sent {
		_, short, _ := strings.Cut(s, " ")
		got = append(got, short)
	}
	if !slices.Equal(got, want) {
		d.t.Fatalf("at %s sent %q, want %q", d.now.Format("15:04:05"), got, want)
	}
}

func (d *desk) only() hook.Alert {
	d.t.Helper()
	if len(d.rows) != 1 {
		d.t.Fatalf("%d rows, want 1", len(d.rows))
	}
	for _, a := range d.rows {
		return a
	}
	panic("unreachable")
}

func failing(endpoint hook.ID) alert.Finding {
	return alert.Finding{
		Rule: "endpoint_failing", Level: one, Severity: warning, Subject: hook.AlertSubject{Tenant: acme, Endpoint: endpoint},
		Value: 5, Threshold: 5, Summary: "It fails.",
	}
}

func with(f alert.Finding, change func(*alert.Finding)) alert.Finding {
	change(&f)
	return f
}

func named(rule string) alert.Finding {
	return with(failing(1), func(f *alert.Finding) { f.Rule = rule })
}

func TestAnAlertIsToldOnceAndItsEndOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	d.step(0, failing(1))
	d.sends("endpoint_failing ep1 firing > 11")
	for range 100 {
		d.step(15*time.Second, failing(1))
		d.sends()
	}
	for range 20 { // false for less than 5 minutes
		d.step(15 * time.Second)
		d.sends()
	}
	d.step(15 * time.Second)
	d.sends("endpoint_failing ep1 resolved > 11")
	a := d.only()
	if a.Status != hook.AlertResolved || a.Count != 1 || !a.Since.Equal(noon) || a.Summary != "Over after 25m. It was: It fails." {
		t.Errorf("row %+v", a)
	}
	for range 100 {
		d.step(15 * time.Second)
		d.sends()
	}
}

func TestNothingFiresBeforeItsTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	slow := with(named("store_slow"), func(f *alert.Finding) { f.For, f.Level, f.Subject = 5*time.Minute, fleet, hook.AlertSubject{} })
	d.step(0, slow)
	d.step(299*time.Second, slow)
	d.sends()
	d.step(time.Second)
	if len(d.rows) != 0 {
		t.Fatalf("an alert that never fired left %v", d.rows)
	}
	d.step(time.Second, slow)
	if a := d.only(); a.Status != hook.AlertPending {
		t.Fatalf("stored as %v, want pending", a.Status)
	}
	d.step(299*time.Second, slow)
	d.sends()
	d.step(time.Second, slow)
	d.sends("store_slow ep0 firing > 11")
}

func TestWhatComesBackSoonIsTheSameAlert(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	d.step(0, failing(1))
	d.step(time.Hour, failing(1))
	d.step(time.Second)
	d.step(5 * time.Minute)
	d.sends("endpoint_failing ep1 resolved > 11")
	d.step(10*time.Minute, failing(1))
	d.sends("endpoint_failing ep1 firing > 11")
	if a := d.only(); a.Count != 2 || a.Flapping || !a.ResolvedAt.IsZero() {
		t.Errorf("row %+v", a)
	}
	d.step(time.Second)
	d.step(5 * time.Minute)
	d.step(16*time.Minute, failing(1))
	d.sends("endpoint_failing ep1 firing > 11")
	if len(d.rows) != 2 {
		t.Errorf("%d rows: 16 minutes later it is another alert", len(d.rows))
	}
}

// TestWhatIsAboutToComeBackLateIsAnotherAlert: the time for which it has been true
// is not lost when its old alert is forgotten, also not to another evaluator, which
// reads what ended within 15 minutes.
func TestWhatIsAboutToComeBackLateIsAnotherAlert(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	slow := with(named("store_slow"), func(f *alert.Finding) { f.For, f.Level, f.Subject = 5*time.Minute, fleet, hook.AlertSubject{} })
	d.step(0, slow)
	d.step(5*time.Minute, slow)
	d.step(time.Second)
	d.step(5 * time.Minute)
	d.sends("store_slow ep0 resolved > 11")
	d.step(14*time.Minute, slow)
	d.step(2*time.Minute, slow)
	open := slices.Collect(maps.Values(d.rows))
	open = slices.DeleteFunc(open, func(a hook.Alert) bool { return !a.Open() })
	if len(open) != 1 || open[0].Status != hook.AlertPending {
		t.Fatalf("open %+v, want one that is pending", open)
	}
	d.rows = map[hook.ID]hook.Alert{open[0].ID: open[0]}
	d.restore()
	d.step(3*time.Minute-time.Second, slow)
	d.sends()
	d.step(time.Second, slow)
	d.sends("store_slow ep0 firing > 11")
}

func TestFlappingIsToldOnceAndThenOnlyItsEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{ResolveAfter: time.Minute})
	d.step(0, failing(1))
	d.sends("endpoint_failing ep1 firing > 11")
	d.step(time.Second)
	d.step(time.Minute)
	d.sends("endpoint_failing ep1 resolved > 11")
	d.step(time.Second, failing(1))
	d.sends("endpoint_failing ep1 flapping > 11")
	for range 20 { // ten hours
		d.step(14 * time.Minute)
		d.sends()
		d.step(16*time.Minute, failing(1))
		d.sends()
	}
	d.step(time.Second)
	d.step(15*time.Minute - time.Second)
	d.sends()
	d.step(time.Second)
	d.sends("endpoint_failing ep1 resolved > 11")
	if a := d.only(); !a.Flapping || a.Count != 22 {
		t.Errorf("row %+v", a)
	}
}

func TestRepeatsUntilAcknowledged(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{Repeat: time.Hour})
	d.step(0, failing(1))
	d.step(59*time.Minute, failing(1))
	d.sends()
	d.step(time.Minute, failing(1))
	d.sends("endpoint_failing ep1 repeat > 11")
	d.step(time.Hour) // false now: nobody is reminded of what may be over
	d.sends()
	d.step(time.Second, failing(1))
	d.sends("endpoint_failing ep1 repeat > 11")

	d.ack("key_1", "on it", 0)
	for range 50 {
		d.step(time.Hour, failing(1))
		d.sends()
	}
	d.step(time.Second)
	d.step(5 * time.Minute)
	d.sends("endpoint_failing ep1 resolved > 11")
	if a := d.only(); a.AckedBy != "key_1" || a.AckNote != "on it" {
		t.Errorf("the acknowledgement is lost: %+v", a)
	}
	d.step(time.Minute, failing(1))
	d.sends("endpoint_failing ep1 firing > 11")
	if a := d.only(); a.AckedBy != "" || !a.AckedAt.IsZero() {
		t.Errorf("what fires anew is acknowledged: %+v", a)
	}
}

// ack acknowledges the only alert as the API does: in the store.
func (d *desk) ack(by, note string, snooze time.Duration) {
	d.t.Helper()
	for id, a := range d.rows {
		if a.Status != hook.AlertFiring {
			continue
		}
		if err := alert.Acknowledge(&a, by, note, snooze, d.now); err != nil {
			d.t.Fatal(err)
		}
		d.rows[id] = a
		d.b.Adopt([]hook.Alert{a})
	}
}

func TestASnoozeEnds(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	d.step(0, failing(1))
	d.ack("key_1", "", 30*time.Minute)
	d.step(29*time.Minute, failing(1))
	d.sends()
	d.step(time.Minute, failing(1))
	d.sends("endpoint_failing ep1 repeat > 11")
	if a := d.only(); a.AckedBy != "" || !a.SnoozedUntil.IsZero() {
		t.Errorf("still snoozed: %+v", a)
	}
	d.step(4*time.Hour, failing(1))
	d.sends("endpoint_failing ep1 repeat > 11")
}

func TestAcknowledgementsAreChecked(t *testing.T) {
	t.Parallel()
	firing := hook.Alert{Status: hook.AlertFiring}
	for name, tc := range map[string]struct {
		by, note string
		snooze   time.Duration
		path     string
	}{
		"nobody":      {"", "", 0, "by"},
		"long note":   {"k", strings.Repeat("ä", 1001), 0, "note"},
		"short sleep": {"k", "", time.Second, "snooze"},
		"long sleep":  {"k", "", 8 * 24 * time.Hour, "snooze"},
		"backwards":   {"k", "", -time.Hour, "snooze"},
	} {
		var wrong *hook.Invalid
		a := firing
		if err := alert.Acknowledge(&a, tc.by, tc.note, tc.snooze, noon); !errors.As(err, &wrong) || wrong.Fields[0].Path != tc.path {
			t.Errorf("%s: %v, want an error about %s", name, err, tc.path)
		}
		if !cmp.Equal(a, firing) {
			t.Errorf("%s changed the alert", name)
		}
	}
	a := hook.Alert{Status: hook.AlertResolved}
	if err := alert.Acknowledge(&a, "k", "", 0, noon); !errors.Is(err, hook.ErrStateConflict) {
		t.Errorf("a resolved alert: %v, want a conflict", err)
	}
	if err := alert.Acknowledge(&firing, "k", strings.Repeat("ä", 1000), time.Minute, noon); err != nil || !firing.SnoozedUntil.Equal(noon.Add(time.Minute)) {
		t.Errorf("%v, %+v", err, firing)
	}
}

func TestWhatGetsWorseIsToldAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	const pager hook.ID = 14
	d.channels = append(d.channels, hook.Channel{ID: pager, MinSeverity: page, SendResolved: true})
	half := named(alert.HoldExpiring)
	most := with(half, func(f *alert.Finding) { f.Severity = page })
	d.step(0, half)
	d.sends("hold_expiring ep1 firing > 11")
	d.ack("key_1", "", 0)
	d.step(time.Hour, most)
	d.sends("hold_expiring ep1 raised > 11", "hold_expiring ep1 raised > 14")
	if a := d.only(); a.Severity != page || a.AckedBy != "" {
		t.Errorf("row %+v: an acknowledgement of less does not count", a)
	}
	d.step(time.Minute, half) // it stays as severe as it was
	d.step(time.Minute, most)
	d.sends()
	if a := d.only(); a.Severity != page {
		t.Errorf("severity fell to %v", a.Severity)
	}
	d.step(time.Second)
	d.step(5 * time.Minute)
	d.sends("hold_expiring ep1 resolved > 11", "hold_expiring ep1 resolved > 14")
}

// TestDeadLettersAreOneAlertAnHour: letters that come in bursts are one alert for
// an endpoint and hour, however often they stop.
func TestDeadLettersAreOneAlertAnHour(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	letters := named("dead_letters_growing")
	d.step(0, letters)
	d.sends("dead_letters_growing ep1 firing > 11")
	for range 5 {
		d.step(10 * time.Minute)
		d.sends()
		d.step(time.Second, letters)
		d.sends()
	}
	d.step(time.Minute)
	d.step(8 * time.Minute)
	d.sends()
	d.step(55 * time.Second) // an hour has passed, and 5 minutes without
	d.sends("dead_letters_growing ep1 resolved > 11")
}

func TestWhatCouldNotBeReadIsNotFalse(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	slow := with(failing(2), func(f *alert.Finding) { f.For = time.Minute })
	replay := with(named("replay_paused"), func(f *alert.Finding) { f.Subject = hook.AlertSubject{Tenant: acme, Replay: 300}; f.Level = ten })
	skew := with(named("clock_skew"), func(f *alert.Finding) { f.Subject = hook.AlertSubject{Node: 7}; f.Level = fleet })
	d.step(0, failing(1), slow, replay, skew)
	want := []hook.AlertSubject{{}, {Tenant: acme}, {Tenant: acme, Endpoint: 1}, {Tenant: acme, Endpoint: 2}}
	if got := d.b.Subjects(); !slices.Equal(got, want) {
		t.Fatalf("reads %v, want %v", got, want)
	}
	for range 60 {
		d.round(time.Minute, alert.Round{Unread: want})
		d.sends()
	}
	d.step(0, failing(1), slow, replay, skew)
	d.sends("endpoint_failing ep2 firing > 11")
	d.round(time.Second, alert.Round{Unread: want[:2]})
	d.round(5*time.Minute, alert.Round{Unread: want[:2]})
	d.sends("endpoint_failing ep1 resolved > 11", "endpoint_failing ep2 resolved > 11")
}

func TestChannelsChoose(t *testing.T) {
	t.Parallel()
	const other hook.ID = 101
	a := hook.Alert{Rule: "dead_rate", Level: ten, Severity: warning, Subject: hook.AlertSubject{Tenant: acme}}
	all := hook.Alert{Rule: "disk_low", Level: fleet, Severity: page}
	for name, tc := range map[string]struct {
		c          hook.Channel
		a, all     bool
		alsoOthers bool
	}{
		"everything":        {hook.Channel{}, true, true, true},
		"tenant level":      {hook.Channel{Levels: []hook.AlertLevel{ten}}, true, false, true},
		"two levels":        {hook.Channel{Levels: []hook.AlertLevel{one, fleet}}, false, true, false},
		"pages":             {hook.Channel{MinSeverity: page}, false, true, false},
		"warnings":          {hook.Channel{MinSeverity: warning}, true, true, true},
		"one tenant":        {hook.Channel{Tenant: acme}, true, false, false},
		"one rule":          {hook.Channel{Rules: []string{"disk_low"}}, false, true, false},
		"two rules":         {hook.Channel{Rules: []string{"disk_low", "dead_rate"}}, true, true, true},
		"all must be right": {hook.Channel{Tenant: acme, Levels: []hook.AlertLevel{ten}, MinSeverity: page}, false, false, false},
	} {
		others := a
		others.Subject.Tenant = other
		for what, one := range map[string]struct {
			a    hook.Alert
			want bool
		}{"its own": {a, tc.a}, "the system's": {all, tc.all}, "another tenant's": {others, tc.alsoOthers}} {
			tc.c.ID = 5
			if got := len(alert.Route(&one.a, []hook.Channel{tc.c})) == 1; got != one.want {
				t.Errorf("%s: gets %s: %v, want %v", name, what, got, one.want)
			}
		}
	}
	if got := alert.Route(&a, []hook.Channel{{ID: 3}, {ID: 1}, {ID: 3}, alert.LogChannel()}); !slices.Equal(got, []hook.ID{1, 3}) {
		t.Errorf("route %v, want each channel once, in order", got)
	}
}

func TestEndsGoToThoseWhoHeardOfTheAlert(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	d.channels = []hook.Channel{{ID: ops, SendResolved: true}, {ID: quiet}, {ID: owner, Tenant: acme, SendResolved: true}, {ID: 15, Tenant: 999, SendResolved: true}}
	d.step(0, failing(1))
	d.sends("endpoint_failing ep1 firing > 11", "endpoint_failing ep1 firing > 12", "endpoint_failing ep1 firing > 13")
	// One channel is gone, one wants other rules now, and a new one has not heard of it.
	d.channels = []hook.Channel{{ID: quiet}, {ID: owner, Rules: []string{"disk_low"}, SendResolved: true}, {ID: 16, SendResolved: true}}
	d.step(time.Second)
	d.step(5 * time.Minute)
	d.sends("endpoint_failing ep1 resolved > 13")
}

// TestAChannelThatFailedHearsNothingOfTheEnd: it does not know of the beginning.
func TestAChannelThatFailedHearsNothingOfTheEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	now := noon
	out := d.b.Step(alert.Round{Now: now, Findings: []alert.Finding{failing(1)}, Channels: d.channels})
	n := out.Notices[0]
	row, ok := d.b.Told(n.Alert.ID, hook.Notification{Channel: ops, At: n.At, Kind: n.Kind, Result: hook.NoticeFailed, Tries: 6, Error: "status 404"})
	if !ok || row.Notifications[0].Tries != 6 || row.Notifications[0].Error != "status 404" {
		t.Fatalf("row %+v, %v", row, ok)
	}
	d.b.Step(alert.Round{Now: now.Add(time.Second), Channels: d.channels})
	if out := d.b.Step(alert.Round{Now: now.Add(6 * time.Minute), Channels: d.channels}); len(out.Notices) != 0 || out.Save[0].Status != hook.AlertResolved {
		t.Errorf("%+v", out)
	}
}

func TestAFailingChannelIsToldOfElsewhere(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	d.channels = append(d.channels, hook.Channel{ID: quiet})
	r := fleetIs(alert.System{Channels: []alert.FailedChannel{{ops, "ops", "status 404", 0}}})
	d.step(0, alert.Judge(alert.Thresholds{}, &r)...)
	d.sends("channel_failing ep0 firing > 12")
}

// TestAnotherFailingChannelIsToldOf: the channel of a tenant that nobody mends, or an
// acknowledgement of the first, does not hide that one of the operator's fails.
func TestAnotherFailingChannelIsToldOf(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	d.channels = append(d.channels, hook.Channel{ID: quiet})
	failing := func(list ...alert.FailedChannel) []alert.Finding {
		r := fleetIs(alert.System{Channels: list})
		return alert.Judge(alert.Thresholds{}, &r)
	}
	theirs, theirs2 := alert.FailedChannel{50, "acme's", "status 404", 5}, alert.FailedChannel{51, "acme's", "status 404", 5}
	ours := alert.FailedChannel{ops, "pager", "status 410", 0}
	d.step(0, failing(theirs)...)
	d.sends("channel_failing ep0 firing > 11", "channel_failing ep0 firing > 12")
	d.ack("ops", "a tenant's own", 0)
	d.step(time.Minute, failing(theirs, theirs2)...)
	d.sends() // a tenant could go on with that for ever
	d.step(time.Minute, failing(theirs, ours)...)
	d.sends("channel_failing ep0 repeat > 12")
	if a := d.only(); !strings.Contains(a.Summary, ": pager (status 410), acme's") || !a.AckedAt.IsZero() {
		t.Errorf("%q, acknowledged at %v", a.Summary, a.AckedAt)
	}
	d.restore()
	d.step(time.Minute, failing(theirs, ours)...)
	d.sends()
	d.step(time.Minute, failing(theirs)...)
	d.step(time.Minute, failing(theirs, ours)...)
	d.sends() // it comes and goes
	d.step(20*time.Minute, failing(theirs)...)
	d.step(time.Minute, failing(theirs, ours)...)
	d.sends("channel_failing ep0 repeat > 12")
}
