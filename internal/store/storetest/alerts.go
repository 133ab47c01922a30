package storetest

import (
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var alertTests = []test{
	{"an alert comes back as it went in", alertRoundTrip},
	{"a step may be stored again", alertRerun},
	{"only the owner of the shard stores a step", alertFenced},
	{"a rule has one alert of a subject that is not over", alertUnique},
	{"a save does not touch an acknowledgement", alertAckStays},
	{"an acknowledgement that ended is cleared, a later one stays", alertUnacked},
	{"only an alert that fires can be acknowledged", alertAckState},
	{"an evaluator goes on from what is not over", alertOpen},
	{"an alert that never fired is dropped, and hidden before", alertPending},
	{"alerts are listed by filter, in pages", alertList},
	{"an alert that is over leaves with its notices", alertRetention},
	{"an alert that lasts keeps few notices", alertTrim},
}

// fence is that of the world's node.
func (w *world) fence() store.Fence {
	return store.Fence{Node: w.node.ID, Held: store.Held{Shard: 0, Epoch: w.epochs[0]}}
}

// alert returns a firing alert of the world's time with one notice to each channel.
func (w *world) alert(rule string, s hook.AlertSubject, channels ...hook.ID) hook.Alert {
	a := hook.Alert{
		ID: w.id(), Rule: rule, Level: hook.LevelEndpoint, Severity: hook.SeverityWarning, Status: hook.AlertFiring, Subject: s,
		Summary: "505 retries for 53 first attempts", Value: 9.53, Threshold: 5, Since: w.now, LastAt: w.now, Count: 1,
		Memory: hook.AlertMemory{TrueSince: w.now},
	}
	w.notify(&a, hook.NoticeFiring, channels...)
	return a
}

// notify decides notices of an alert at the world's time.
func (w *world) notify(a *hook.Alert, kind hook.NoticeKind, channels ...hook.ID) {
	a.Memory.NoticeAt = w.now
	for _, c := range channels {
		a.Notifications = append(a.Notifications, hook.Notification{Channel: c, At: w.now, Kind: kind, Result: hook.NoticeWaiting})
	}
}

func resolve(a hook.Alert, at time.Time) hook.Alert {
	a.Status, a.ResolvedAt = hook.AlertResolved, at
	a.Memory.TrueSince, a.Memory.FalseSince = time.Time{}, at
	return a
}

func (w *world) save(alerts ...hook.Alert) {
	w.t.Helper()
	w.check(w.db.SaveAlerts(w.ctx(), w.fence(), store.AlertStep{Now: w.now, Save: alerts}), "SaveAlerts")
}

func (w *world) openAlerts() []hook.Alert {
	w.t.Helper()
	all, err := w.db.OpenAlerts(w.ctx(), w.now.Add(-15*time.Minute))
	w.check(err, "OpenAlerts")
	return all
}

func (w *world) alertByID(id hook.ID) hook.Alert {
	w.t.Helper()
	a, err := w.db.AlertByID(w.ctx(), 0, id)
	w.check(err, "AlertByID")
	return a
}

func (w *world) ack(a *hook.Alert, note string) {
	w.t.Helper()
	a.AckedBy, a.AckedAt, a.AckNote, a.SnoozedUntil = "key_test", w.now, note, w.now.Add(time.Hour)
	got, err := w.db.AckAlert(w.ctx(), a.Subject.Tenant, *a, w.audit(a.Subject.Tenant, "alert.ack"))
	w.check(err, "AckAlert")
	want := *a
	want.Notifications = nil
	w.same(got, want, "acknowledged alert")
}

func alertRoundTrip(w *world) {
	c := w.channel(0)
	a := w.alert("retry_storm", hook.AlertSubject{Tenant: w.id(), Endpoint: w.id(), Replay: w.id(), Node: w.id()}, hook.LogChannelID, c.ID)
	a.Flapping, a.Count = true, 7
	a.Memory.Changes = []time.Time{w.now, w.now.Add(-time.Minute)}
	a.Memory.Folded, a.Memory.FoldedIDs = 2, []hook.ID{w.id(), w.id()}
	a.Notifications = append(a.Notifications, hook.Notification{Channel: c.ID, At: w.now, Kind: hook.NoticeFolded, Result: hook.NoticeSkipped})
	w.save(a)
	w.same(w.alertByID(a.ID), a, "alert")
	w.same(w.openAlerts(), []hook.Alert{a}, "open alerts")

	_, err := w.db.AlertByID(w.ctx(), a.Subject.Tenant, a.ID)
	w.check(err, "AlertByID of its tenant")
	_, err = w.db.AlertByID(w.ctx(), a.Subject.Endpoint, a.ID)
	w.wantErr(err, hook.ErrNotFound, "AlertByID of another tenant")

	w.pass(time.Minute)
	a.Severity, a.Summary, a.Value, a.Threshold, a.LastAt, a.Count = hook.SeverityPage, "worse", 11, 6, w.now, 8
	a = resolve(a, w.now)
	w.notify(&a, hook.NoticeResolved, c.ID)
	w.save(a)
	w.same(w.alertByID(a.ID), a, "alert that is over")
}

func alertRerun(w *world) {
	pending := w.alert("long_retry", hook.AlertSubject{})
	pending.Status = hook.AlertPending
	w.save(pending)
	a := w.alert("retry_storm", hook.AlertSubject{Tenant: 1, Endpoint: 2}, hook.LogChannelID)
	step := store.AlertStep{Now: w.now, Save: []hook.Alert{a}, Unacked: []hook.ID{a.ID}, Drop: []hook.ID{pending.ID}}
	w.check(w.db.SaveAlerts(w.ctx(), w.fence(), step), "SaveAlerts")
	w.beginNotice(w.dueNotices()[0])
	w.check(w.db.SaveAlerts(w.ctx(), w.fence(), step), "SaveAlerts again")
	a.Notifications[0].Tries = 1 // the rerun must not undo it
	w.same(w.openAlerts(), []hook.Alert{a}, "open alerts")
}

func alertFenced(w *world) {
	old := w.fence()
	a := w.alert("retry_storm", hook.AlertSubject{Tenant: 1}, hook.LogChannelID)
	w.save(a)
	want := w.openAlerts()

	held := w.handOver(0)
	changed := a
	changed.Summary = "of an old owner"
	step := store.AlertStep{Now: w.now, Save: []hook.Alert{changed, w.alert("dead_rate", hook.AlertSubject{})}, Unacked: []hook.ID{a.ID}, Drop: []hook.ID{a.ID}}
	w.wantErr(w.db.SaveAlerts(w.ctx(), old, step), store.ErrFenced, "SaveAlerts of the old owner")
	old.Epoch = held.Epoch
	w.wantErr(w.db.SaveAlerts(w.ctx(), old, step), store.ErrFenced, "SaveAlerts of the old owner in the new epoch")
	w.same(w.openAlerts(), want, "alerts after fenced steps")
}

func alertUnique(w *world) {
	s := hook.AlertSubject{Tenant: 5, Endpoint: 6}
	a := w.alert("retry_storm", s)
	w.save(a)
	double, other := w.alert("retry_storm", s), w.alert("retry_storm", hook.AlertSubject{Tenant: 5})
	if err := w.db.SaveAlerts(w.ctx(), w.fence(), store.AlertStep{Now: w.now, Save: []hook.Alert{other, double}}); err == nil {
		w.t.Error("a second alert of the same rule and subject was stored")
	}
	w.same(w.openAlerts(), []hook.Alert{a}, "alerts after a step that failed")
	over := resolve(a, w.now)
	w.save(over, other)
	w.save(double)
	w.same(w.openAlerts(), []hook.Alert{over, double, other}, "alerts")
}

func alertAckStays(w *world) {
	ten := w.tenant()
	a := w.alert("retry_storm", hook.AlertSubject{Tenant: ten.ID})
	w.save(a)
	before := a
	w.ack(&a, "looking into it")
	acked, err := w.db.AckedAlerts(w.ctx())
	w.check(err, "AckedAlerts")
	w.same(acked, []hook.Alert{a}, "acknowledged alerts")

	before.Value, a.Value = 12, 12
	w.save(before) // the evaluator does not know yet
	w.same(w.alertByID(a.ID), a, "alert that was saved after its acknowledgement")
	over := resolve(before, w.now)
	w.save(over)
	acked, err = w.db.AckedAlerts(w.ctx())
	w.check(err, "AckedAlerts")
	w.same(acked, []hook.Alert{}, "acknowledged alerts that fire")
}

func alertUnacked(w *world) {
	ten := w.tenant()
	a := w.alert("retry_storm", hook.AlertSubject{Tenant: ten.ID})
	w.save(a)
	first := a
	w.ack(&first, "first")
	w.pass(time.Minute)
	round := w.now
	w.pass(time.Second)
	second := a
	w.ack(&second, "second, while the round runs")
	unack := func(now time.Time) {
		step := store.AlertStep{Now: now, Save: []hook.Alert{a}, Unacked: []hook.ID{a.ID}}
		w.check(w.db.SaveAlerts(w.ctx(), w.fence(), step), "SaveAlerts")
	}
	unack(round)
	w.same(w.alertByID(a.ID), second, "alert with a later acknowledgement")
	w.pass(time.Second)
	unack(w.now)
	w.same(w.alertByID(a.ID), a, "alert whose acknowledgement ended")
}

func alertAckState(w *world) {
	ten := w.tenant()
	firing, over := w.alert("retry_storm", hook.AlertSubject{Tenant: ten.ID}), w.alert("dead_rate", hook.AlertSubject{Tenant: ten.ID})
	pending := w.alert("long_retry", hook.AlertSubject{Tenant: ten.ID})
	pending.Status = hook.AlertPending
	w.save(firing, resolve(over, w.now), pending)
	for _, c := range []struct {
		what   string
		tenant hook.ID
		id     hook.ID
		want   error
	}{
		{"an alert that is over", ten.ID, over.ID, hook.ErrStateConflict},
		{"a pending alert", ten.ID, pending.ID, hook.ErrNotFound},
		{"another tenant's alert", ten.ID + 1, firing.ID, hook.ErrNotFound},
		{"an alert that is not there", 0, w.id(), hook.ErrNotFound},
	} {
		_, err := w.db.AckAlert(w.ctx(), c.tenant, hook.Alert{ID: c.id, AckedBy: "me", AckedAt: w.now}, w.audit(0, "alert.ack"))
		w.wantErr(err, c.want, "AckAlert of "+c.what)
	}
	w.same(w.alertByID(firing.ID), firing, "firing alert")
}

func alertOpen(w *world) {
	subject := func(i hook.ID) hook.AlertSubject { return hook.AlertSubject{Tenant: 1, Endpoint: i} }
	firing, pending := w.alert("retry_storm", subject(1), hook.LogChannelID), w.alert("retry_storm", subject(2))
	pending.Status = hook.AlertPending
	lately, waits, forgotten := w.alert("retry_storm", subject(3)), w.alert("retry_storm", subject(4), hook.LogChannelID), w.alert("retry_storm", subject(5))
	long := w.now.Add(-time.Hour)
	lately, waits, forgotten = resolve(lately, w.now.Add(-15*time.Minute)), resolve(waits, long), resolve(forgotten, long)
	w.save(firing, pending, lately, waits, forgotten)
	w.same(w.openAlerts(), []hook.Alert{firing, pending, lately, waits}, "what an evaluator goes on from")

	for _, n := range w.dueNotices() {
		w.beginNotice(n)
		w.endNotice(n, store.NoticeEnd{Result: hook.NoticeSent, Tries: 1})
	}
	firing.Notifications[0].Result, firing.Notifications[0].Tries = hook.NoticeSent, 1
	w.same(w.openAlerts(), []hook.Alert{firing, pending, lately}, "what an evaluator goes on from once all is told")
}

func alertPending(w *world) {
	a, fired := w.alert("retry_storm", hook.AlertSubject{Tenant: 1}), w.alert("dead_rate", hook.AlertSubject{Tenant: 1})
	a.Status = hook.AlertPending
	w.save(a, fired)
	_, err := w.db.AlertByID(w.ctx(), 0, a.ID)
	w.wantErr(err, hook.ErrNotFound, "AlertByID of a pending alert")
	list, err := w.db.ListAlerts(w.ctx(), store.AlertFilter{Statuses: []hook.AlertStatus{hook.AlertPending, hook.AlertFiring}}, store.Page{Limit: 10})
	w.check(err, "ListAlerts")
	w.same(list, []hook.Alert{fired}, "alerts for people")

	w.check(w.db.SaveAlerts(w.ctx(), w.fence(), store.AlertStep{Now: w.now, Drop: []hook.ID{a.ID, fired.ID}}), "SaveAlerts")
	w.same(w.openAlerts(), []hook.Alert{fired}, "alerts after a drop")
}

func alertList(w *world) {
	var all []hook.Alert // newest first
	add := func(a hook.Alert) { all = append([]hook.Alert{a}, all...) }
	for i := range hook.ID(3) {
		w.pass(time.Second)
		add(w.alert("retry_storm", hook.AlertSubject{Tenant: 1, Endpoint: 10 + i}))
		add(resolve(w.alert("dead_rate", hook.AlertSubject{Tenant: 2, Endpoint: 20 + i}), w.now))
		system := w.alert(fmt.Sprintf("rule_%d", i), hook.AlertSubject{})
		system.Level, system.Severity = hook.LevelSystem, hook.SeverityPage
		add(system)
	}
	w.save(all...)
	for _, c := range []struct {
		what  string
		f     store.AlertFilter
		match func(*hook.Alert) bool
	}{
		{"all", store.AlertFilter{}, func(*hook.Alert) bool { return true }},
		{"a tenant's", store.AlertFilter{Tenant: 1}, func(a *hook.Alert) bool { return a.Subject.Tenant == 1 }},
		{"an endpoint's", store.AlertFilter{Tenant: 2, Endpoints: []hook.ID{21}}, func(a *hook.Alert) bool { return a.Subject.Endpoint == 21 }},
		{"another tenant's endpoint's", store.AlertFilter{Tenant: 1, Endpoints: []hook.ID{21}}, func(*hook.Alert) bool { return false }},
		{"two endpoints'", store.AlertFilter{Endpoints: []hook.ID{11, 21}}, func(a *hook.Alert) bool { return a.Subject.Endpoint%10 == 1 }},
		{"firing", store.AlertFilter{Statuses: []hook.AlertStatus{hook.AlertFiring}}, func(a *hook.Alert) bool { return a.Status == hook.AlertFiring }},
		{"by level", store.AlertFilter{Levels: []hook.AlertLevel{hook.LevelSystem, hook.LevelTenant}}, func(a *hook.Alert) bool { return a.Level == hook.LevelSystem }},
		{"by severity", store.AlertFilter{Severities: []hook.Severity{hook.SeverityWarning}}, func(a *hook.Alert) bool { return a.Severity == hook.SeverityWarning }},
		{"by rule", store.AlertFilter{Rules: []string{"dead_rate", "rule_1"}}, func(a *hook.Alert) bool { return a.Rule == "dead_rate" || a.Rule == "rule_1" }},
	} {
		var want []hook.Alert
		for i := range all {
			if c.match(&all[i]) {
				want = append(want, all[i])
			}
		}
		var got []hook.Alert
		p := store.Page{Limit: 2}
		for {
			page, err := w.db.ListAlerts(w.ctx(), c.f, p)
			w.check(err, "ListAlerts")
			got = append(got, page...)
			if len(page) < p.Limit {
				break
			}
			p.After = page[len(page)-1].ID
		}
		w.same(got, want, c.what+" alerts")
	}
	first, err := w.db.ListAlerts(w.ctx(), store.AlertFilter{}, store.Page{Limit: 1, Asc: true})
	w.check(err, "ListAlerts")
	w.same(first, all[len(all)-1:], "oldest alert")
}

func alertRetention(w *world) {
	subject := func(i hook.ID) hook.AlertSubject { return hook.AlertSubject{Tenant: 1, Endpoint: i} }
	old, older := resolve(w.alert("a", subject(1), hook.LogChannelID), w.now), resolve(w.alert("a", subject(2)), w.now.Add(-time.Second))
	waits, firing := resolve(w.alert("a", subject(3), hook.LogChannelID), w.now), w.alert("a", subject(4), hook.LogChannelID)
	kept := resolve(w.alert("a", subject(5)), w.now.Add(time.Minute))
	w.save(old, older, waits, firing, kept)
	for _, n := range w.dueNotices() {
		if n.About == old.ID {
			w.beginNotice(n)
			w.endNotice(n, store.NoticeEnd{Result: hook.NoticeSent, Tries: 1})
		}
	}
	drop := func(want int64) {
		w.t.Helper()
		n, err := w.db.DropAlerts(w.ctx(), w.now.Add(time.Minute), 1)
		w.check(err, "DropAlerts")
		w.same(n, want, "alerts dropped")
	}
	drop(1)
	_, err := w.db.AlertByID(w.ctx(), 0, older.ID)
	w.wantErr(err, hook.ErrNotFound, "AlertByID of the oldest")
	drop(1)
	drop(0)
	list, err := w.db.ListAlerts(w.ctx(), store.AlertFilter{}, store.Page{Limit: 10, Asc: true})
	w.check(err, "ListAlerts")
	w.same(len(list), 3, "alerts that are left")

	w.save(old) // an id is never drawn twice; that it comes back shows what was left of it
	w.same(w.alertByID(old.ID), old, "alert that came back")
}

func alertTrim(w *world) {
	c, quiet := w.channel(0), w.channel(0)
	a := w.alert("retry_storm", hook.AlertSubject{Tenant: 1}, quiet.ID)
	w.save(a)
	for range 250 {
		w.pass(time.Second)
		w.notify(&a, hook.NoticeRepeat, c.ID)
		w.save(a)
		n := w.dueNotices()
		w.endNotice(n[len(n)-1], store.NoticeEnd{Result: hook.NoticeSent, Tries: 1})
		a.Notifications[len(a.Notifications)-1].Result = hook.NoticeSent
		if len(a.Notifications) > 200 {
			a.Notifications = append(a.Notifications[:1:1], a.Notifications[2:]...)
		}
	}
	got := w.alertByID(a.ID).Notifications
	if len(got) < 200 || len(got) > 203 || got[0].Channel != quiet.ID || !got[len(got)-1].At.Equal(w.now) {
		w.t.Errorf("%d notices are kept, the first of %v", len(got), got[0])
	}
}
