package alert_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

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
	all := []hook.Channel{{ID: ops, SendResolved: true}, {ID: quiet, SendResolved: true}}
	d.channels = all
	d.step(0, failing(1))
	d.channels = all[:1] // one hears of it once, the other all the time
	for range 365 * 6 {
		d.step(4*time.Hour, failing(1))
	}
	d.channels = all
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

// TestABoardAfterTheClockWasSetBack goes on from rows of the future: what waits for a
// time to pass does not wait for the clock to be there again.
func TestABoardAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t, alert.Options{})
	slow := with(failing(2), func(f *alert.Finding) { f.For = 2 * time.Minute })
	d.step(time.Minute, failing(1))
	d.step(time.Minute, slow)
	d.now = d.now.Add(-24 * time.Hour)
	d.restore()
	d.step(0, slow)
	d.step(3*time.Minute, slow)
	d.sends("endpoint_failing ep2 firing > 11")
	d.step(3*time.Minute, slow)
	d.sends("endpoint_failing ep1 resolved > 11")
	d.step(4*time.Hour, slow)
	d.sends("endpoint_failing ep2 repeat > 11")
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
