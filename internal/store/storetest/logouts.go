package storetest

import "time"

var logoutTests = []test{
	{"a session that was ended stays ended until its time has come", logoutsKept},
}

func logoutsKept(w *world) {
	one, other := [16]byte{1, 0, 255}, [16]byte{2}
	ended := func(id [16]byte) bool {
		w.t.Helper()
		yes, err := w.db.SessionEnded(w.ctx(), id)
		w.check(err, "SessionEnded")
		return yes
	}
	if ended(one) {
		w.t.Error("a session that nobody ended has ended")
	}
	for range 2 { // twice does no harm
		w.check(w.db.EndSession(w.ctx(), one, w.now.Add(time.Hour), w.now), "EndSession")
	}
	if !ended(one) || ended(other) {
		w.t.Errorf("ended: %v and %v, want the first only", ended(one), ended(other))
	}
	w.pass(59 * time.Minute)
	w.check(w.db.EndSession(w.ctx(), other, w.now.Add(time.Hour), w.now), "EndSession")
	if !ended(one) || !ended(other) {
		w.t.Error("a session was forgotten before its time")
	}
	w.pass(2 * time.Minute)
	w.check(w.db.EndSession(w.ctx(), other, w.now.Add(time.Hour), w.now), "EndSession")
	if ended(one) {
		w.t.Error("a session is remembered although its time has come")
	}
}
