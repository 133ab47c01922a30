package storetest

import (
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var noticeTests = []test{
	{"notices are due in order, one of each alert and channel", noticeOrder},
	{"a notice says what it is about", noticeContent},
	{"a try is begun once", noticeBegin},
	{"a notice ends once", noticeEnd},
	{"a try that failed is due again", noticeAgain},
	{"an old owner sends nothing, but what it sent counts", noticeFenced},
	{"a channel that fails says so until it works", noticeChannelFails},
	{"a channel that was tested or changed does not fail any more", noticeChannelMended},
	{"operational events are told once each", noticeEvents},
	{"a channel that is behind loses its oldest events", noticeBacklog},
	{"a channel that is behind loses its oldest notices", noticeBound},
	{"notices of the future are due at once", noticeFuture},
	{"notices of a channel that is gone end", noticeChannelGone},
	{"notices end while their channel is deleted", noticeChannelGoes},
	{"who takes over goes on with the tries", noticeRestart},
}

// due returns all notices that are due.
func (w *world) dueNotices(busy ...hook.ID) []store.Notice {
	w.t.Helper()
	all, err := w.db.DueNotices(w.ctx(), w.fence(), w.now, busy, 5000)
	w.check(err, "DueNotices")
	return all
}

func (w *world) beginNotice(n store.Notice) {
	w.t.Helper()
	ok, err := w.db.BeginNotice(w.ctx(), w.fence(), n.NoticeKey, n.Tries, w.now.Add(time.Minute))
	w.check(err, "BeginNotice")
	if !ok {
		w.t.Fatalf("notice %+v could not begin", n.NoticeKey)
	}
}

func (w *world) endNotice(n store.Notice, e store.NoticeEnd) {
	w.t.Helper()
	e.Now = w.now
	w.check(w.db.EndNotice(w.ctx(), w.fence(), n.NoticeKey, e), "EndNotice")
}

func keys(notices []store.Notice) (out []store.NoticeKey) {
	for _, n := range notices {
		out = append(out, n.NoticeKey)
	}
	return out
}

func noticeOrder(w *world) {
	c, d := w.channel(0), w.channel(0)
	a := w.alert("retry_storm", hook.AlertSubject{Tenant: 1}, c.ID, d.ID)
	first := w.now
	w.pass(time.Second)
	b := w.alert("dead_rate", hook.AlertSubject{Tenant: 1}, c.ID)
	second := w.now
	w.save(a, b)
	w.pass(time.Second)
	a = resolve(a, w.now)
	w.notify(&a, hook.NoticeResolved, c.ID, d.ID)
	w.save(a)

	firing := func(a hook.Alert, c hook.ID, at time.Time) store.NoticeKey {
		return store.NoticeKey{About: a.ID, Channel: c, At: at, Kind: hook.NoticeFiring}
	}
	w.same(keys(w.dueNotices(d.ID)), []store.NoticeKey{firing(a, c.ID, first), firing(b, c.ID, second)}, "due, but for a busy channel")
	w.same(len(w.dueNotices(c.ID, d.ID)), 0, "due without channels")
	few, err := w.db.DueNotices(w.ctx(), w.fence(), second.Add(-time.Microsecond), nil, 1)
	w.check(err, "DueNotices")
	w.same(len(few), 1, "due with a limit")
	early, err := w.db.DueNotices(w.ctx(), w.fence(), first.Add(-time.Microsecond), nil, 10)
	w.check(err, "DueNotices")
	w.same(len(early), 0, "due before the first")

	for _, n := range w.dueNotices(d.ID)[:1] {
		w.beginNotice(n)
		w.endNotice(n, store.NoticeEnd{Result: hook.NoticeSkipped})
	}
	w.same(keys(w.dueNotices(d.ID)), []store.NoticeKey{
		firing(b, c.ID, second), {About: a.ID, Channel: c.ID, At: w.now, Kind: hook.NoticeResolved},
	}, "due once the first has ended")
}

func noticeContent(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	c := w.channel(ten.ID)
	a := w.alert("retry_storm", hook.AlertSubject{Tenant: ten.ID, Endpoint: e.ID}, c.ID)
	system := w.alert("disk_low", hook.AlertSubject{}, hook.LogChannelID)
	w.save(a, system)
	w.pass(time.Second)
	event := w.operational(ten.ID, e.ID, hook.BreakerOpened)
	w.tell(event, c.ID)

	due := w.dueNotices()
	w.same(len(due), 3, "notices that are due")
	a.Notifications, system.Notifications = nil, nil
	for _, n := range due {
		var want store.Notice
		switch {
		case n.Kind == 0:
			want = store.Notice{Event: &event, To: &c, Endpoint: e.URL, Tenant: ten.Name}
		case n.About == a.ID:
			want = store.Notice{Alert: &a, To: &c, Endpoint: e.URL, Tenant: ten.Name}
		default:
			want = store.Notice{Alert: &system}
		}
		want.NoticeKey = n.NoticeKey
		w.same(n, want, "notice")
	}
}

func noticeBegin(w *world) {
	a := w.alert("retry_storm", hook.AlertSubject{}, hook.LogChannelID)
	w.save(a)
	n := w.dueNotices()[0]
	var wait sync.WaitGroup
	begun := make(chan bool, 8)
	for range cap(begun) {
		wait.Go(func() {
			ok, err := w.db.BeginNotice(w.ctx(), w.fence(), n.NoticeKey, 0, w.now.Add(time.Minute))
			if err != nil {
				w.t.Errorf("BeginNotice: %v", err)
			}
			begun <- ok
		})
	}
	wait.Wait()
	close(begun)
	times := 0
	for ok := range begun {
		if ok {
			times++
		}
	}
	w.same(times, 1, "times the first try was begun")
	w.same(len(w.dueNotices()), 0, "due while the try runs")
	w.pass(time.Minute)
	w.same(w.dueNotices()[0].Tries, 1, "tries of a notice that nobody ended")
}

func noticeEnd(w *world) {
	a := w.alert("retry_storm", hook.AlertSubject{}, hook.LogChannelID)
	w.save(a)
	n := w.dueNotices()[0]
	w.beginNotice(n)
	w.endNotice(n, store.NoticeEnd{Result: hook.NoticeSent, Tries: 1, Error: "one address was refused"})
	w.endNotice(n, store.NoticeEnd{Result: hook.NoticeFailed, Tries: 2})
	w.endNotice(store.Notice{NoticeKey: store.NoticeKey{About: w.id(), Channel: 1, At: w.now, Kind: 1}}, store.NoticeEnd{Result: hook.NoticeSent})
	a.Notifications[0].Result, a.Notifications[0].Tries, a.Notifications[0].Error = hook.NoticeSent, 1, "one address was refused"
	w.same(w.alertByID(a.ID), a, "alert whose notice was sent")
	ok, err := w.db.BeginNotice(w.ctx(), w.fence(), n.NoticeKey, 1, w.now)
	w.check(err, "BeginNotice")
	w.same(ok, false, "begin of a notice that has ended")
}

func noticeAgain(w *world) {
	w.save(w.alert("retry_storm", hook.AlertSubject{}, hook.LogChannelID))
	n := w.dueNotices()[0]
	w.beginNotice(n)
	next := w.now.Add(5 * time.Second)
	w.endNotice(n, store.NoticeEnd{Result: hook.NoticeWaiting, Tries: 1, Next: next, Error: "answered 503", Reached: []string{"a@example.com"}})
	w.same(len(w.dueNotices()), 0, "due before its time")
	w.pass(5 * time.Second)
	n.Tries, n.Reached = 1, []string{"a@example.com"}
	w.same(w.dueNotices(), []store.Notice{n}, "due again")
}

func noticeFenced(w *world) {
	a, b := w.alert("retry_storm", hook.AlertSubject{}, hook.LogChannelID), w.alert("dead_rate", hook.AlertSubject{}, hook.LogChannelID)
	w.save(a, b)
	old, due := w.fence(), w.dueNotices()
	for _, n := range due {
		w.beginNotice(n)
	}
	held := w.handOver(0)
	w.same(len(w.dueNotices()), 0, "due for an old owner")
	ok, err := w.db.BeginNotice(w.ctx(), old, due[0].NoticeKey, 1, w.now)
	w.check(err, "BeginNotice")
	w.same(ok, false, "begin by an old owner")

	w.endNotice(due[0], store.NoticeEnd{Result: hook.NoticeWaiting, Tries: 1, Next: w.now})
	w.endNotice(due[0], store.NoticeEnd{Result: hook.NoticeFailed, Tries: 1})
	w.endNotice(due[1], store.NoticeEnd{Result: hook.NoticeSent, Tries: 1})
	w.pass(time.Minute)
	left, err := w.db.DueNotices(w.ctx(), store.Fence{Node: w.join("node-b").ID, Held: held}, w.now, nil, 10)
	w.check(err, "DueNotices")
	w.same(keys(left), []store.NoticeKey{due[0].NoticeKey}, "due for the new owner")
}

func noticeChannelFails(w *world) {
	c := w.channel(0)
	a, b := w.alert("retry_storm", hook.AlertSubject{}, c.ID), w.alert("dead_rate", hook.AlertSubject{}, c.ID)
	third := w.alert("disk_low", hook.AlertSubject{}, c.ID)
	w.save(a, b, third)
	due := w.dueNotices()
	since := w.now
	for _, n := range due[:2] {
		w.beginNotice(n)
		w.endNotice(n, store.NoticeEnd{Result: hook.NoticeFailed, Tries: 1, Error: "answered 410"})
		w.pass(time.Second)
	}
	c.FailingSince, c.Error = since, "answered 410"
	w.wantChannels(c)
	w.beginNotice(due[2])
	w.endNotice(due[2], store.NoticeEnd{Result: hook.NoticeSent, Tries: 1})
	c.FailingSince, c.Error = time.Time{}, ""
	w.wantChannels(c)
}

// noticeChannelMended lets a channel fail, and mends it in all the ways there are.
func noticeChannelMended(w *world) {
	c := w.channel(0)
	for name, mend := range map[string]func(){
		"a test": func() { w.check(w.db.ChannelWorked(w.ctx(), c.ID), "ChannelWorked") },
		"a change": func() {
			var err error
			c, err = w.db.UpdateChannel(w.ctx(), c, w.audit(0, "alert_channel.update"))
			w.check(err, "UpdateChannel")
		},
	} {
		w.pass(time.Hour)
		w.save(w.alert("retry_storm", hook.AlertSubject{Node: w.id()}, c.ID))
		for _, n := range w.dueNotices() {
			w.beginNotice(n)
			w.endNotice(n, store.NoticeEnd{Result: hook.NoticeFailed, Tries: 1, Error: "answered 410"})
		}
		got, err := w.db.ChannelByID(w.ctx(), 0, c.ID)
		w.check(err, "ChannelByID")
		if got.FailingSince.IsZero() || got.Error == "" {
			w.t.Fatalf("before %s: failing since %v, %q", name, got.FailingSince, got.Error)
		}
		c.FailingSince, c.Error = got.FailingSince, got.Error
		mend()
		c.FailingSince, c.Error = time.Time{}, ""
		w.wantChannels(c)
	}
	w.check(w.db.ChannelWorked(w.ctx(), w.id()), "ChannelWorked of none")
}

func (w *world) tell(e hook.OperationalEvent, channels ...hook.ID) int64 {
	w.t.Helper()
	var to []store.EventNotice
	for _, c := range channels {
		to = append(to, store.EventNotice{Event: e.ID, Channel: c, At: e.At})
	}
	dropped, err := w.db.TellOperational(w.ctx(), []hook.OperationalEvent{e}, to)
	w.check(err, "TellOperational")
	return dropped
}

func noticeEvents(w *world) {
	c := w.channel(0)
	e := w.operational(0, 0, hook.BreakerOpened)
	for range 2 {
		w.tell(e, c.ID, w.id()) // the second channel is gone
	}
	log, err := w.db.ListOperational(w.ctx(), store.OperationalFilter{}, store.Page{Limit: 10})
	w.check(err, "ListOperational")
	w.same(log, []hook.OperationalEvent{e}, "operational events")
	due := w.dueNotices()
	w.same(keys(due), []store.NoticeKey{{About: e.ID, Channel: c.ID, At: e.At}}, "notices of the event")
	w.beginNotice(due[0])
	w.endNotice(due[0], store.NoticeEnd{Result: hook.NoticeWaiting, Tries: 1, Next: w.now})
	due = w.dueNotices()
	w.beginNotice(due[0])
	w.endNotice(due[0], store.NoticeEnd{Result: hook.NoticeSent, Tries: 2})
	w.same(len(w.dueNotices()), 0, "notices once it is sent")
	w.same(w.tell(w.operational(0, 0, hook.BreakerOpened)), int64(0), "dropped of an event that nobody wants")
}

func noticeBacklog(w *world) {
	c, other := w.channel(0), w.channel(0)
	a := w.alert("retry_storm", hook.AlertSubject{}, c.ID)
	w.save(a)
	var events []hook.OperationalEvent
	var to []store.EventNotice
	for range store.MaxWaitingEvents {
		w.pass(time.Millisecond)
		e := w.operational(0, 0, hook.BreakerOpened)
		events, to = append(events, e), append(to, store.EventNotice{Event: e.ID, Channel: c.ID, At: e.At})
	}
	dropped, err := w.db.TellOperational(w.ctx(), events, to)
	w.check(err, "TellOperational")
	w.same(dropped, int64(0), "dropped at the bound")
	for i := range 3 {
		w.pass(time.Millisecond)
		w.same(w.tell(w.operational(0, 0, hook.BreakerOpened), c.ID, other.ID), int64(1), "dropped above the bound")
		w.same(w.dueNotices(other.ID)[1].About, events[i+1].ID, "the oldest event that is left")
	}
	due := w.dueNotices(other.ID)
	w.same(len(due), store.MaxWaitingEvents+1, "notices that wait")
	w.same(due[0].About, a.ID, "the notice of an alert, which is not dropped")
	c.Dropped = 3
	w.wantChannels(c, other)
}

// noticeBound: what waits for a channel that takes nothing does not grow for ever.
func noticeBound(w *world) {
	c, other := w.channel(0), w.channel(0)
	first := w.alert("retry_storm", hook.AlertSubject{}, c.ID, other.ID)
	w.save(first)
	w.pass(time.Second)
	var all []hook.Alert
	for i := range store.MaxWaitingNotices - 1 {
		all = append(all, w.alert("dead_rate", hook.AlertSubject{Endpoint: hook.ID(i + 1)}, c.ID))
	}
	w.save(all...)
	w.same(len(w.dueNotices(c.ID)), 1, "notices of the other channel")
	w.same(w.dueNotices(other.ID)[0].About, first.ID, "the oldest at the bound")
	w.pass(time.Second)
	w.save(w.alert("success_rate", hook.AlertSubject{}, c.ID), w.alert("long_retry", hook.AlertSubject{}, c.ID))
	w.same(w.dueNotices(other.ID)[0].About, all[0].ID, "the oldest above the bound")
	w.same(w.dueNotices(c.ID)[0].About, first.ID, "that of the other channel")
	a, err := w.db.AlertByID(w.ctx(), 0, first.ID)
	w.check(err, "AlertByID")
	w.same(a.Notifications[0].Result, hook.NoticeSkipped, "what became of it")
}

// noticeFuture: a clock that was set back a little does not keep anybody waiting.
func noticeFuture(w *world) {
	c := w.channel(0)
	a := w.alert("retry_storm", hook.AlertSubject{}, c.ID)
	w.now = w.now.Add(-30 * time.Second)
	w.save(a)
	w.same(len(w.dueNotices()), 1, "notices that are due")
}

func noticeChannelGone(w *world) {
	ten := w.tenant()
	c, gone := w.channel(0), w.channel(ten.ID)
	a := w.alert("retry_storm", hook.AlertSubject{Tenant: ten.ID}, c.ID, gone.ID)
	w.save(a)
	w.tell(w.operational(0, 0, hook.BreakerOpened), gone.ID)
	w.check(w.db.DeleteChannel(w.ctx(), ten.ID, gone.ID, w.audit(ten.ID, "alert_channel.delete")), "DeleteChannel")
	w.same(len(w.dueNotices()), 1, "notices that are due")
	for _, n := range w.alertByID(a.ID).Notifications {
		want := hook.NoticeWaiting
		if n.Channel == gone.ID {
			want = hook.NoticeSkipped
		}
		w.same(n.Result, want, "result of a notice")
	}
	w.pass(time.Second)
	w.notify(&a, hook.NoticeRepeat, c.ID, gone.ID) // decided before the deletion was known
	w.save(a)
	all := w.alertByID(a.ID).Notifications
	w.same(all[len(all)-1].Result, hook.NoticeSkipped, "result of a notice for a channel that is gone")
}

func noticeChannelGoes(w *world) {
	const rounds, notices = 10, 30
	for range rounds {
		c := w.channel(0)
		var alerts []hook.Alert
		for i := range notices {
			alerts = append(alerts, w.alert("retry_storm", hook.AlertSubject{Tenant: c.ID, Endpoint: hook.ID(i + 1)}, c.ID))
		}
		w.save(alerts...)
		end := store.NoticeEnd{Now: w.now, Result: hook.NoticeFailed, Tries: 1, Error: "answered 410"}
		errs := make(chan error, notices+1)
		record := w.audit(0, "alert_channel.delete")
		var wait sync.WaitGroup
		wait.Go(func() { errs <- w.db.DeleteChannel(w.ctx(), 0, c.ID, record) })
		for i := range alerts {
			key := store.NoticeKey{About: alerts[i].ID, Channel: c.ID, At: w.now, Kind: hook.NoticeFiring}
			wait.Go(func() { errs <- w.db.EndNotice(w.ctx(), w.fence(), key, end) })
		}
		wait.Wait()
		close(errs)
		for err := range errs {
			w.check(err, "end of a notice, or of its channel")
		}
		w.same(len(w.dueNotices()), 0, "notices that wait for a channel that is gone")
	}
}

func noticeRestart(w *world) {
	a := w.alert("retry_storm", hook.AlertSubject{}, hook.LogChannelID)
	w.save(a)
	before := w.fence()
	n := w.dueNotices()[0]
	w.beginNotice(n)

	w.take(w.node, []int{0}, true) // a later process of the same node
	w.wantErr(w.db.SaveAlerts(w.ctx(), before, store.AlertStep{Now: w.now, Save: []hook.Alert{a}}), store.ErrFenced, "SaveAlerts of the process before")
	ok, err := w.db.BeginNotice(w.ctx(), before, n.NoticeKey, 1, w.now)
	w.check(err, "BeginNotice")
	w.same(ok, false, "begin by the process before")
	a.Notifications[0].Tries = 1
	w.same(w.openAlerts(), []hook.Alert{a}, "what the next one goes on from")
	w.same(len(w.dueNotices()), 0, "due while the try of the process before may run")
	w.pass(time.Minute)
	n.Tries = 1
	w.same(w.dueNotices(), []store.Notice{n}, "due after that")
}
