package alert_test

import (
	"errors"
	"fmt"
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
	r := fleetIs(alert.System{Channels: []alert.FailedChannel{{ops, "ops", "status 404"}}})
	d.step(0, alert.Judge(alert.Thresholds{}, &r)...)
	d.sends("channel_failing ep0 firing > 12")
}

func many() alert.Finding {
	return with(named(alert.BreakersMany), func(f *alert.Finding) { f.Level, f.Severity, f.Subject = fleet, page, hook.AlertSubject{} })
}

func opened(endpoint hook.ID) alert.Finding {
	return with(failing(endpoint), func(f *alert.Finding) { f.Rule = alert.BreakerOpen })
}

func TestManyBreakersAreOneNotice(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	d.channels = append(d.channels, hook.Channel{ID: owner, Tenant: acme, SendResolved: true})
	d.step(0, opened(1))
	d.sends("breaker_open ep1 firing > 11", "breaker_open ep1 firing > 13")
	findings := []alert.Finding{many(), opened(1)}
	var want []string
	for i := hook.ID(2); i <= 14; i++ {
		findings = append(findings, opened(i))
	}
	out := d.step(15*time.Second, findings...)
	want = append(want, "breakers_many ep0 firing > 11")
	for i := 2; i <= 14; i++ { // an endpoint's owner hears of the endpoint
		want = append(want, fmt.Sprintf("breaker_open ep%d firing > 13", i))
	}
	d.sends(want...)
	notice := out.Notices[0].Alert
	if notice.Memory.Folded != 13 || len(notice.Memory.FoldedIDs) != 10 || !strings.Contains(notice.Summary, "13 notices of breaker_open: ep_0000000000002, ") ||
		!strings.HasSuffix(notice.Summary, "ep_000000000000b and 3 more.") {
		t.Errorf("the notice says %q, %+v", notice.Summary, notice.Memory)
	}
	// One more while it goes on, one when it is over.
	d.step(15*time.Second, append(findings, opened(15))...)
	d.sends("breaker_open ep15 firing > 13")
	d.step(15*time.Second, append(findings[1:], opened(15), opened(16))...)
	d.sends("breaker_open ep16 firing > 11", "breaker_open ep16 firing > 13")
	// What was folded ends without a word to those who were not told of it.
	d.step(time.Second)
	d.step(5 * time.Minute)
	var ends []string
	for _, s := range d.sent {
		if strings.HasSuffix(s, "> 11") {
			_, s, _ = strings.Cut(s, " ")
			ends = append(ends, s)
		}
	}
	if want := []string{"breaker_open ep1 resolved > 11", "breakers_many ep0 resolved > 11", "breaker_open ep16 resolved > 11"}; !slices.Equal(ends, want) {
		t.Errorf("ends %q, want %q", ends, want)
	}
}

func TestABreakersEndSaysForHowLong(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	d.step(0, opened(1))
	ending := []alert.Ending{{Rule: alert.BreakerOpen, Subject: opened(1).Subject, Summary: "It closed after 6m."}}
	d.round(time.Second, alert.Round{Endings: ending})
	out := d.round(5*time.Minute, alert.Round{Endings: ending})
	if len(out.Notices) != 1 || out.Notices[0].Alert.Summary != "It closed after 6m." {
		t.Errorf("notices %+v", out.Notices)
	}
}

// TestTheBoardIsBounded: it takes no more than fit, tells that there are more, lets
// the system's and other tenants' alerts in, and takes the rest when there is room.
func TestTheBoardIsBounded(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{MaxOpen: 10})
	var noisy []alert.Finding
	for i := range hook.ID(40) {
		noisy = append(noisy, failing(i+1))
	}
	worst := with(failing(99), func(f *alert.Finding) { f.Severity = page })
	d.step(0, append(noisy, worst)...)
	if n := len(d.b.Open()); n != 6 { // half of it, and the one that tells so
		t.Fatalf("%d open", n)
	}
	if d.sent[0] != "12:00:00 endpoint_failing ep99 firing > 11" || d.sent[5] != "12:00:00 too_many_alerts ep0 firing > 11" {
		t.Errorf("sent %q: the worst first, and that there are more", d.sent)
	}
	other := with(failing(200), func(f *alert.Finding) { f.Subject.Tenant = 101 })
	d.step(time.Second, append(noisy, worst, other, many())...)
	d.sends("breakers_many ep0 firing > 11", "endpoint_failing ep200 firing > 11")
	var text string
	for _, a := range d.rows {
		if a.Rule == alert.TooManyAlerts {
			text = a.Summary
		}
	}
	if !strings.HasPrefix(text, "5 alerts are open and 36 further ones are left out (alert.max_open is 10).") {
		t.Errorf("it says %q", text)
	}
	// Only three are left: all have room, and that there are more is over.
	for range 3 {
		d.step(5*time.Minute, noisy[37:]...)
	}
	if open := d.b.Open(); len(open) != 3 {
		t.Errorf("%d open, want 3", len(open))
	}
	// Switched off, it is silent and ends.
	d = newDesk(t, alert.Options{MaxOpen: 10})
	d.step(0, noisy...)
	d.round(time.Second, alert.Round{Findings: noisy, Quiet: true})
	d.round(5*time.Minute, alert.Round{Findings: noisy, Quiet: true})
	d.sends("too_many_alerts ep0 resolved > 11")
}

// TestRowsAreStoredSparingly: an alert that merely goes on is stored once a
// minute, and one that is over not at all.
func TestRowsAreStoredSparingly(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	saves := 0
	d.step(0, failing(1))
	for range 40 { // ten minutes
		saves += len(d.step(15*time.Second, failing(1)).Save)
	}
	if saves != 10 {
		t.Errorf("stored %d times in ten minutes", saves)
	}
	d.step(time.Second)
	d.step(5 * time.Minute)
	for range 100 {
		if out := d.step(time.Minute); len(out.Save)+len(out.Drop)+len(out.Notices) != 0 {
			t.Fatalf("nothing happened, and %+v", out)
		}
	}
}

// TestNoticesAreKeptWithinBounds: an alert that lasts for a year keeps no more of
// its notices than it may, and still tells all channels of its end.
func TestNoticesAreKeptWithinBounds(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	d.channels = append(d.channels, hook.Channel{ID: quiet, SendResolved: true, MinSeverity: page})
	d.step(0, with(failing(1), func(f *alert.Finding) { f.Severity = page }))
	for range 365 * 6 {
		d.step(4*time.Hour, failing(1))
	}
	if a := d.only(); len(a.Notifications) > 201 {
		t.Errorf("%d notices kept", len(a.Notifications))
	}
	d.step(time.Second)
	d.step(5 * time.Minute)
	d.sends("endpoint_failing ep1 resolved > 11", "endpoint_failing ep1 resolved > 12")
}

// TestNoticesThatWaitAreKnownToTheNext: what was decided and not sent is sent by
// the evaluator that takes over, also long after the alert ended.
func TestNoticesThatWaitAreKnownToTheNext(t *testing.T) {
	t.Parallel()
	o := alert.Options{NextID: func(time.Time) hook.ID { return 1001 }}
	b, err := alert.NewBoard(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	channels := []hook.Channel{{ID: ops, SendResolved: true}}
	rows := b.Step(alert.Round{Now: noon, Findings: []alert.Finding{failing(1)}, Channels: channels}).Save
	b, _ = alert.NewBoard(o, rows)
	if w := b.Waiting(); len(w) != 1 || w[0].Kind != hook.NoticeFiring || w[0].Channel != ops || w[0].Alert.Rule != "endpoint_failing" {
		t.Fatalf("waiting %+v", w)
	}
	b.Step(alert.Round{Now: noon.Add(time.Minute), Channels: channels})
	rows = b.Step(alert.Round{Now: noon.Add(6 * time.Minute), Channels: channels}).Save
	b, _ = alert.NewBoard(o, rows)
	for _, after := range []time.Duration{0, time.Hour} { // on the board, and no more on it
		b.Step(alert.Round{Now: noon.Add(7*time.Minute + after), Channels: channels})
		if w := b.Waiting(); len(w) != 2 {
			t.Fatalf("after %v waiting %+v", after, w)
		}
	}
	for i, w := range b.Waiting() {
		n := hook.Notification{Channel: w.Channel, At: w.At, Kind: w.Kind, Result: hook.NoticeSent, Tries: w.Tries + 1}
		row, ok := b.Told(w.Alert.ID, n)
		if !ok || row.Notifications[i] != n {
			t.Errorf("row %+v, %v", row, ok)
		}
		if _, ok := b.Told(w.Alert.ID, n); ok {
			t.Error("told twice")
		}
	}
	if w := b.Waiting(); len(w) != 0 {
		t.Errorf("still waiting %+v", w)
	}
}

// TestANewAlertBesideAnOldOne: one whose end still waits to be sent does not keep
// a new one from firing, and both are restored.
func TestANewAlertBesideAnOldOne(t *testing.T) {
	t.Parallel()
	next := hook.ID(1000)
	o := alert.Options{NextID: func(time.Time) hook.ID { next++; return next }}
	b, _ := alert.NewBoard(o, nil)
	channels := []hook.Channel{{ID: ops, SendResolved: true}}
	rows := map[hook.ID]hook.Alert{}
	step := func(after time.Duration, f ...alert.Finding) {
		for _, a := range b.Step(alert.Round{Now: noon.Add(after), Findings: f, Channels: channels}).Save {
			rows[a.ID] = a
		}
	}
	step(0, failing(1))
	step(time.Minute)
	step(6 * time.Minute)
	step(time.Hour, failing(1))
	if len(rows) != 2 || len(b.Waiting()) != 3 {
		t.Fatalf("%d rows, %d notices wait", len(rows), len(b.Waiting()))
	}
	again, _ := alert.NewBoard(o, []hook.Alert{rows[1001], rows[1002]})
	if diff := cmp.Diff(b.Waiting(), again.Waiting()); diff != "" {
		t.Errorf("restored otherwise:\n%s", diff)
	}
	if open := again.Open(); len(open) != 1 || open[0].ID != 1002 {
		t.Errorf("open %+v", open)
	}
}

func TestBoardsCheckTheirSettings(t *testing.T) {
	t.Parallel()
	id := func(time.Time) hook.ID { return 1 }
	for want, o := range map[string]alert.Options{
		"NextID":              {},
		"alert.repeat":        {NextID: id, Repeat: time.Minute},
		"alert.resolve_after": {NextID: id, ResolveAfter: 2 * time.Hour},
		"alert.max_open":      {NextID: id, MaxOpen: 1},
	} {
		if _, err := alert.NewBoard(o, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %s", err, want)
		}
	}
}

// TestAClockThatGoesBackHarmsNothing: times never go back on a board.
func TestAClockThatGoesBackHarmsNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	d.step(time.Hour, failing(1))
	d.step(-30*time.Minute, failing(1))
	d.step(0)
	d.step(34 * time.Minute)
	d.sends()
	d.step(time.Minute)
	d.sends("endpoint_failing ep1 resolved > 11")
	if a := d.only(); a.ResolvedAt.Before(a.Since) {
		t.Errorf("it ended at %v, before %v", a.ResolvedAt, a.Since)
	}
}

// TestAlertsOfUnknownRulesEnd: a rule that this program does not have, of a newer
// or older one, finds nothing.
func TestAlertsOfUnknownRulesEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	d.rows[7] = hook.Alert{
		ID: 7, Rule: "of_tomorrow", Level: one, Severity: page, Status: hook.AlertFiring, Subject: subject(one), Since: noon, LastAt: noon,
		Notifications: []hook.Notification{{Channel: ops, At: noon, Kind: hook.NoticeFiring, Result: hook.NoticeSent, Tries: 1}},
	}
	d.restore()
	d.step(time.Second)
	d.step(5 * time.Minute)
	d.sends("of_tomorrow ep200 resolved > 11")
}

// TestWhatIsWeakOnlyKeepsAlertsOpen: it starts none, lets a pending one go, and
// keeps one that fires from ending.
func TestWhatIsWeakOnlyKeepsAlertsOpen(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	grows := with(named("retry_queue_growing"), func(f *alert.Finding) { f.For = 30 * time.Second })
	weak := with(grows, func(f *alert.Finding) { f.Weak = true })
	for range 3 {
		d.step(time.Minute, weak)
	}
	if len(d.rows) != 0 {
		t.Fatalf("a weak finding opened %v", d.rows)
	}
	d.step(0, grows)
	d.step(time.Minute, weak)
	if len(d.rows) != 0 {
		t.Fatalf("a weak finding kept %v pending", d.rows)
	}
	d.step(0, grows)
	d.step(30*time.Second, grows)
	d.sends("retry_queue_growing ep1 firing > 11")
	for range 60 {
		d.step(time.Minute, weak)
		d.sends()
	}
	d.step(time.Second)
	d.step(5 * time.Minute)
	d.sends("retry_queue_growing ep1 resolved > 11")
	d.step(time.Minute, weak)
	d.sends()
}

// TestWhatABoardReturnsIsTheCallers: changing it changes nothing on the board.
func TestWhatABoardReturnsIsTheCallers(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	out := d.step(0, many(), opened(1))
	spoil := func(a hook.Alert) {
		for i := range a.Notifications {
			a.Notifications[i].Kind = hook.NoticeResolved
		}
		for i := range a.Memory.Changes {
			a.Memory.Changes[i] = time.Time{}
		}
		for i := range a.Memory.FoldedIDs {
			a.Memory.FoldedIDs[i] = 0
		}
	}
	before := fmt.Sprintf("%+v", d.b.Open())
	for _, a := range slices.Concat(out.Save, d.b.Open()) {
		spoil(a)
	}
	for _, n := range slices.Concat(out.Notices, d.b.Waiting()) {
		spoil(n.Alert)
	}
	if after := fmt.Sprintf("%+v", d.b.Open()); after != before {
		t.Errorf("the board holds\n%s, before\n%s", after, before)
	}
}
