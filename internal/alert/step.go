package alert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Round is what an evaluator has found at a moment.
type Round struct {
	Now      time.Time
	Findings []Finding
	Endings  []Ending
	// Unread are subjects that could not be read: what is not known of them is
	// not false. A reading of a tenant tells of its replays, one of the system of
	// its nodes.
	Unread   []hook.AlertSubject
	Channels []hook.Channel
	// Quiet leaves TooManyAlerts out: the rule is switched off.
	Quiet bool
}

// Outcome is what a round has changed. Everything of it is to be stored in one
// commit, and the notices are to be sent after that. If the commit fails, the board
// knows more than the store: make a new one from the stored rows.
type Outcome struct {
	Save    []hook.Alert // rows to insert or update, but for their acknowledgements
	Unacked []hook.ID    // alerts whose acknowledgement ended: clear it in the row
	Drop    []hook.ID    // rows of alerts that never fired: delete them
	Notices []Notice     // also in the rows, as waiting
}

// step is one round on its way.
type step struct {
	b        *Board
	now      time.Time
	findings map[key]*Finding
	endings  map[key]string
	unread   map[hook.AlertSubject]bool
	channels []hook.Channel
	out      Outcome
	told     []decided

	trueSince map[key]time.Time // of findings whose alert was forgotten in this round

	open     int             // alerts that count against the bound
	ofTenant map[hook.ID]int // of them
	left     int             // findings that found no room
}

// decided is a notice whose alert may still change in this round.
type decided struct {
	it *item
	n  hook.Notification
}

// Step takes the findings of a round. Time never goes back.
func (b *Board) Step(r Round) Outcome {
	b.now = later(b.now, round(r.Now))
	s := &step{
		b: b, now: b.now, channels: r.Channels,
		findings: make(map[key]*Finding, len(r.Findings)), endings: make(map[key]string, len(r.Endings)),
		unread: make(map[hook.AlertSubject]bool, len(r.Unread)), ofTenant: make(map[hook.ID]int),
		trueSince: make(map[key]time.Time),
	}
	for i := range r.Findings {
		s.find(&r.Findings[i])
	}
	for _, e := range r.Endings {
		s.endings[key{e.Rule, e.Subject}] = e.Summary
	}
	for _, u := range r.Unread {
		s.unread[u] = true
	}
	s.rewind()
	s.forget()
	s.known()
	s.fresh()
	if r.Quiet {
		s.left = 0
	}
	s.overflow()
	return s.finish()
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// find takes a finding; of two of the same the more severe counts.
func (s *step) find(f *Finding) {
	k := key{f.Rule, f.Subject}
	if before := s.findings[k]; before != nil && (before.Severity > f.Severity || !before.Weak && f.Weak) {
		return
	}
	s.findings[k] = f
}

// rewind takes back times of the future, which a clock that has since been set back
// wrote: what is measured from them would last until the clock is there again. It
// finds some only on a new board.
func (s *step) rewind() {
	for _, it := range s.b.items {
		m := &it.a.Memory
		times := []*time.Time{&it.a.Since, &it.a.ResolvedAt, &m.TrueSince, &m.FalseSince, &m.NoticeAt}
		for i := range m.Changes {
			times = append(times, &m.Changes[i])
		}
		for _, t := range times {
			if t.After(s.now) {
				*t, it.dirty = s.now, true
			}
		}
	}
}

// forget drops alerts whose end is too long ago for them to come back. What was
// about to fire again is another alert then, true for as long.
func (s *step) forget() {
	for k, it := range s.b.items {
		if it.a.Status != hook.AlertResolved || s.now.Sub(it.a.ResolvedAt) <= flapWindow {
			continue
		}
		s.b.remove(it)
		if m := &it.a.Memory; !m.TrueSince.IsZero() {
			s.trueSince[k], m.TrueSince = m.TrueSince, time.Time{}
			s.out.Save = append(s.out.Save, clone(it.a))
		}
		if waits(&it.a) {
			s.b.past[it.a.ID] = it
		}
	}
	maps.DeleteFunc(s.b.past, func(_ hook.ID, it *item) bool { return !waits(&it.a) })
}

// known goes on with the alerts that there are.
func (s *step) known() {
	for _, k := range slices.SortedFunc(maps.Keys(s.b.items), key.compare) {
		it := s.b.items[k]
		if k.rule == TooManyAlerts {
			continue // judged last, when it is known what found no room
		}
		s.advance(it, s.findings[k])
		if it.a.Open() && it.a.Level != hook.LevelSystem {
			s.open++
			s.ofTenant[it.a.Subject.Tenant]++
		}
	}
}

// fresh opens alerts for what has none: the system's first, since they may stand
// for others, then the most severe, until the board is full.
func (s *step) fresh() {
	var keys []key
	for k, f := range s.findings {
		if it := s.b.items[k]; !f.Weak && (it == nil || it.a.Status == hook.AlertResolved && it.a.Memory.TrueSince.IsZero()) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(x, y key) int {
		f, g := s.findings[x], s.findings[y]
		return cmp.Or(cmp.Compare(systemFirst(f.Level), systemFirst(g.Level)), cmp.Compare(g.Severity, f.Severity), x.compare(y))
	})
	for _, k := range keys {
		if f := s.findings[k]; s.room(f) {
			s.start(k, f)
		} else {
			s.left++
		}
	}
}

func systemFirst(l hook.AlertLevel) int {
	if l == hook.LevelSystem {
		return 0
	}
	return 1
}

// room reports whether another alert fits. A tenant may have as many as are left
// free for all: one whose endpoints all fail does not silence the others. The
// system's own are few and always fit.
func (s *step) room(f *Finding) bool {
	free := s.b.o.MaxOpen - s.open
	return f.Level == hook.LevelSystem || s.ofTenant[f.Subject.Tenant] < free
}

// overflow tells that there are more than fit.
func (s *step) overflow() {
	k := key{rule: TooManyAlerts}
	var f *Finding
	if s.left > 0 {
		f = &Finding{
			Rule: TooManyAlerts, Level: hook.LevelSystem, Severity: Lookup(TooManyAlerts).Severity(hook.LevelSystem, 0),
			Value: float64(s.left), Threshold: float64(s.b.o.MaxOpen),
			Summary: fmt.Sprintf("%s open and %s left out (alert.max_open is %s). Look for a cause that they share; what is left out is told as soon as there is room.",
				of(s.open, "alert is", "alerts are"), of(s.left, "further one is", "further ones are"), number(s.b.o.MaxOpen)),
		}
		s.findings[k] = f
	}
	it := s.b.items[k]
	switch {
	case it != nil && (it.a.Open() || f == nil):
		s.advance(it, f)
	case f != nil:
		s.start(k, f)
	}
}

// finish returns what changed.
func (s *step) finish() Outcome {
	if many := s.many(); many != nil {
		many.a.Summary = s.findings[many.key()].Summary + foldedText(&many.a.Memory)
	}
	for _, d := range s.told {
		s.out.Notices = append(s.out.Notices, Notice{Alert: clone(d.it.a), Kind: d.n.Kind, Channel: d.n.Channel, At: d.n.At})
	}
	slices.SortFunc(s.out.Notices, compareNotices)
	for _, it := range s.b.items {
		if !it.dirty {
			continue
		}
		it.a.Notifications = trim(it.a.Notifications)
		s.out.Save = append(s.out.Save, clone(it.a))
		it.dirty, it.known, it.stored = false, true, it.a.LastAt
	}
	slices.SortFunc(s.out.Save, func(x, y hook.Alert) int { return cmp.Compare(x.ID, y.ID) })
	return s.out
}
