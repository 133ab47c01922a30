package alert

import (
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// start begins an alert for a finding, or again one that ended lately.
func (s *step) start(k key, f *Finding) {
	it := s.b.items[k]
	if it == nil {
		it = &item{a: hook.Alert{
			ID: s.b.o.NextID(s.now), Rule: f.Rule, Level: f.Level, Severity: f.Severity, Status: hook.AlertPending, Subject: f.Subject,
			Since: s.now,
		}}
		s.b.put(it)
	}
	it.a.Memory.TrueSince, it.dirty = s.now, true
	if since, ok := s.trueSince[k]; ok {
		it.a.Memory.TrueSince = since
	}
	s.see(it, f)
	if s.now.Sub(it.a.Memory.TrueSince) >= f.For {
		s.fire(it, f)
	}
	if f.Level != hook.LevelSystem {
		s.open++
		s.ofTenant[f.Subject.Tenant]++
	}
}

// advance takes a known alert through a round. f is nil when its condition is not
// true.
func (s *step) advance(it *item, f *Finding) {
	if f == nil && s.unread[readAt(it.a.Subject)] {
		return
	}
	switch it.a.Status {
	case hook.AlertFiring:
		if f == nil {
			s.calm(it)
			return
		}
		s.goOn(it, f)
	default: // pending, or ended and perhaps about to fire again
		m := &it.a.Memory
		switch {
		case m.TrueSince.IsZero():
			return // fresh decides
		case f != nil && !f.Weak:
			s.see(it, f)
			if s.now.Sub(m.TrueSince) >= f.For {
				s.fire(it, f)
			}
		case it.a.Status == hook.AlertPending:
			s.drop(it)
		default:
			m.TrueSince, it.dirty = time.Time{}, true
		}
	}
}

// drop removes an alert that never fired.
func (s *step) drop(it *item) {
	s.b.remove(it)
	if it.known {
		s.out.Drop = append(s.out.Drop, it.a.ID)
	}
}

// see takes over what a finding says.
func (s *step) see(it *item, f *Finding) {
	it.a.LastAt, it.a.Value, it.a.Threshold = s.now, f.Value, f.Threshold
	it.a.Summary = f.Summary + foldedText(&it.a.Memory)
	if s.now.Sub(it.stored) >= refreshEvery {
		it.dirty = true
	}
}

// fire opens an alert and tells of it.
func (s *step) fire(it *item, f *Finding) {
	a := &it.a
	s.unack(it)
	a.Status, a.Severity, a.Since, a.ResolvedAt = hook.AlertFiring, f.Severity, s.now, time.Time{}
	a.Count++
	a.Memory.FalseSince, a.Memory.Folded, a.Memory.FoldedIDs, a.Memory.Named = time.Time{}, 0, nil, nil
	a.Summary = f.Summary
	s.changed(it)
	kind := hook.NoticeFiring
	if a.Flapping = len(a.Memory.Changes) >= flapChanges; a.Flapping {
		kind = hook.NoticeFlapping
	}
	to := s.route(it, f)
	if a.Rule == BreakerOpen {
		to = s.fold(it, to)
	}
	s.news(it, f)
	s.tell(it, kind, to)
}

// news notes which things a finding names, and reports whether nobody has heard of
// one of them since the alert fires. One that is named no more is forgotten, but not
// so soon that it flaps.
func (s *step) news(it *item, f *Finding) bool {
	m := &it.a.Memory
	if s.now.Sub(m.NoticeAt) > flapWindow {
		all := len(m.Named)
		m.Named = slices.DeleteFunc(m.Named, func(id hook.ID) bool { return !slices.Contains(f.Named, id) })
		it.dirty = it.dirty || len(m.Named) < all
	}
	before := len(m.Named)
	for _, id := range f.Named {
		if !slices.Contains(m.Named, id) && len(m.Named) < maxNamed {
			m.Named, it.dirty = append(m.Named, id), true
		}
	}
	return len(m.Named) > before
}

// changed notes a change of status, and forgets those of long ago.
func (s *step) changed(it *item) {
	m := &it.a.Memory
	m.Changes = slices.DeleteFunc(append(m.Changes, s.now), func(t time.Time) bool { return s.now.Sub(t) > flapWindow })
	it.dirty = true
}

// goOn takes a firing alert whose condition is true.
func (s *step) goOn(it *item, f *Finding) {
	a := &it.a
	s.see(it, f)
	if !a.Memory.FalseSince.IsZero() {
		a.Memory.FalseSince, a.Memory.TrueSince, it.dirty = time.Time{}, s.now, true
		a.Count++
	}
	if f.Severity > a.Severity && !f.Weak {
		// Who acknowledged the lesser one did not know of this.
		s.unack(it)
		a.Severity = f.Severity
		s.tell(it, hook.NoticeRaised, s.route(it, f))
		return
	}
	if s.news(it, f) {
		s.unack(it) // of what was known then
		s.tell(it, hook.NoticeRepeat, s.route(it, f))
		return
	}
	if s.due(it) {
		s.tell(it, hook.NoticeRepeat, s.route(it, f))
	}
}

// due reports whether it is time to tell again: of an alert that nobody has
// acknowledged, or whose snooze is over.
func (s *step) due(it *item) bool {
	a := &it.a
	if !a.AckedAt.IsZero() {
		if a.SnoozedUntil.IsZero() || s.now.Before(a.SnoozedUntil) {
			return false
		}
		s.unack(it)
		return !a.Flapping
	}
	return !a.Flapping && s.now.Sub(a.Memory.NoticeAt) >= s.b.o.Repeat
}

func (s *step) unack(it *item) {
	a := &it.a
	if a.AckedAt.IsZero() {
		return
	}
	a.AckedBy, a.AckedAt, a.AckNote, a.SnoozedUntil = "", time.Time{}, "", time.Time{}
	it.dirty = true
	s.out.Unacked = append(s.out.Unacked, a.ID)
}

// calm takes a firing alert whose condition is false. It ends when that lasted.
func (s *step) calm(it *item) {
	m := &it.a.Memory
	if m.FalseSince.IsZero() {
		m.FalseSince, m.TrueSince, it.dirty = s.now, time.Time{}, true
	}
	lasts, least := s.b.o.ResolveAfter, time.Duration(0)
	if rule := Lookup(it.a.Rule); rule != nil {
		least = rule.Least
	}
	if it.a.Flapping {
		lasts = max(lasts, flapWindow)
	}
	if s.now.Sub(m.FalseSince) >= lasts && s.now.Sub(it.a.Since) >= least {
		s.resolve(it)
	}
}

// resolve ends an alert and tells those who heard of it.
func (s *step) resolve(it *item) {
	a := &it.a
	summary := s.endings[it.key()]
	if summary == "" {
		summary = "Over after " + lasted(a.Memory.FalseSince.Sub(a.Since)) + ". It was: " + a.Summary
	}
	a.Status, a.ResolvedAt, a.Summary = hook.AlertResolved, s.now, summary
	s.changed(it)
	knows := told(a)
	var to []hook.ID
	for i := range s.channels {
		if c := &s.channels[i]; c.SendResolved && knows[c.ID] {
			to = append(to, c.ID)
		}
	}
	slices.Sort(to)
	s.tell(it, hook.NoticeResolved, slices.Compact(to))
}

// route returns the channels for a finding, less those that it is about.
func (s *step) route(it *item, f *Finding) []hook.ID {
	return slices.DeleteFunc(Route(&it.a, s.channels), func(c hook.ID) bool { return slices.Contains(f.Except, c) })
}

// tell decides notices.
func (s *step) tell(it *item, kind hook.NoticeKind, to []hook.ID) {
	it.a.Memory.NoticeAt, it.dirty = s.now, true
	for _, c := range to {
		n := hook.Notification{Channel: c, At: s.now, Kind: kind, Result: hook.NoticeWaiting}
		it.a.Notifications = append(it.a.Notifications, n)
		s.told = append(s.told, decided{it, n})
	}
}

// many is the alert that many breakers opened, while that is so.
func (s *step) many() *item {
	k := key{rule: BreakersMany}
	if it := s.b.items[k]; it != nil && it.a.Status == hook.AlertFiring && s.findings[k] != nil {
		return it
	}
	return nil
}

// fold leaves out the channels that know that many breakers opened: one notice
// stands for all. An endpoint's owner, who does not get that one, hears of the
// endpoint. It returns the channels that are left.
func (s *step) fold(it *item, to []hook.ID) []hook.ID {
	many := s.many()
	if many == nil {
		return to
	}
	knows := told(&many.a)
	var left []hook.ID
	for _, c := range to {
		if !knows[c] {
			left = append(left, c)
			continue
		}
		it.a.Notifications = append(it.a.Notifications, hook.Notification{Channel: c, At: s.now, Kind: hook.NoticeFolded, Result: hook.NoticeSkipped})
	}
	if len(left) == len(to) {
		return to
	}
	m := &many.a.Memory
	m.Folded++
	if len(m.FoldedIDs) < maxFolded {
		m.FoldedIDs = append(m.FoldedIDs, it.a.Subject.Endpoint)
	}
	many.dirty = true
	return left
}
