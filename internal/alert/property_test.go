package alert_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// world is what is true from round to round, and what must follow from it.
type world struct {
	t    *rapid.T
	desk *desk
	open map[string]*condition
	keys []string

	acked map[hook.ID]time.Time // until when no repeat may come
	last  map[string]string     // kind of the last notice by alert and channel
}

// condition is the truth about a rule and a subject.
type condition struct {
	f          alert.Finding
	true       bool
	trueSince  time.Time // as far as it was read
	falseSince time.Time
	worse      bool
}

// conditions are some rules of every kind: at once, after a time, of two steps,
// lasting an hour, folded and folding.
func conditions() []alert.Finding {
	after := func(f alert.Finding, d time.Duration) alert.Finding { f.For = d; return f }
	return []alert.Finding{
		failing(1), failing(2),
		after(with(failing(3), func(f *alert.Finding) { f.Rule = "retry_queue_growing" }), 30*time.Second),
		after(with(many(), func(f *alert.Finding) { f.Rule = "store_slow" }), 5*time.Minute),
		named(alert.HoldExpiring), named("dead_letters_growing"),
		many(), opened(1), opened(2), opened(3),
	}
}

func newWorld(t *rapid.T, tb testing.TB) *world {
	w := &world{
		t: t, desk: newDesk(tb, alert.Options{Repeat: time.Hour}), open: map[string]*condition{},
		acked: map[hook.ID]time.Time{}, last: map[string]string{},
	}
	w.desk.channels = []hook.Channel{
		{ID: ops, SendResolved: true},
		{ID: quiet},
		{ID: owner, Tenant: acme, SendResolved: true},
		{ID: 14, MinSeverity: page, SendResolved: true},
		{ID: 15, Rules: []string{alert.BreakerOpen}, SendResolved: true},
	}
	for i, f := range conditions() {
		k := fmt.Sprint(i)
		w.keys = append(w.keys, k)
		w.open[k] = &condition{f: f, falseSince: noon}
	}
	return w
}

// passes draws how much time a round takes: mostly a usual one, sometimes a gap.
func passes(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{
		15 * time.Second, 15 * time.Second, 15 * time.Second, time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 7 * time.Minute,
		16 * time.Minute, time.Hour, 5 * time.Hour,
	}).Draw(t, "passes")
}

// draw lets conditions change and returns the round that sees them.
func (w *world) draw(now time.Time) alert.Round {
	r := alert.Round{}
	unread := rapid.IntRange(0, 9).Draw(w.t, "unread") == 0
	// One draw for all: a bit for each condition that changes, a quarter of them.
	changes := rapid.Uint16().Draw(w.t, "changes") & rapid.Uint16().Draw(w.t, "of them")
	for i, k := range w.keys {
		c := w.open[k]
		if changes&(1<<i) != 0 {
			c.true = !c.true
		}
		if c.f.Rule == alert.HoldExpiring && changes&(1<<15) != 0 {
			c.worse = !c.worse
		}
		if unread && c.f.Subject.Endpoint == 1 {
			r.Unread = append(r.Unread, c.f.Subject)
			continue
		}
		if !c.true {
			if c.falseSince.IsZero() {
				c.falseSince = now
			}
			c.trueSince = time.Time{}
			continue
		}
		if c.trueSince.IsZero() {
			c.trueSince = now
		}
		c.falseSince = time.Time{}
		f := c.f
		if c.worse {
			f.Severity = page
		}
		r.Findings = append(r.Findings, f)
	}
	return r
}

func (w *world) condition(a *hook.Alert) *condition {
	for _, k := range w.keys {
		if c := w.open[k]; c.f.Rule == a.Rule && c.f.Subject == a.Subject {
			return c
		}
	}
	w.t.Fatalf("an alert about nothing: %+v", a)
	return nil
}

// ack sometimes acknowledges an alert.
func (w *world) ack() {
	d := w.desk
	var ids []hook.ID
	for id, a := range d.rows {
		if a.Status == hook.AlertFiring {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 || rapid.IntRange(0, 4).Draw(w.t, "ack") != 0 {
		return
	}
	slices.Sort(ids)
	a := d.rows[rapid.SampledFrom(ids).Draw(w.t, "which")]
	snooze := rapid.SampledFrom([]time.Duration{0, 0, time.Minute, time.Hour, 24 * time.Hour}).Draw(w.t, "snooze")
	if err := alert.Acknowledge(&a, "key_1", "", snooze, d.now); err != nil {
		w.t.Fatal(err)
	}
	d.rows[a.ID] = a
	d.b.Adopt([]hook.Alert{a})
	w.acked[a.ID] = a.SnoozedUntil
	if snooze == 0 {
		w.acked[a.ID] = d.now.Add(1000 * time.Hour)
	}
}

// turn plays one round and checks it.
func (w *world) turn() {
	w.ack()
	after := passes(w.t)
	r := w.draw(w.desk.now.Add(after))
	before := maps.Clone(w.desk.rows)
	out := w.desk.round(after, r)
	w.unique()
	for _, n := range out.Notices {
		w.notice(n, before[n.Alert.ID])
	}
	for _, n := range out.Notices { // whatever is told anew is not acknowledged
		delete(w.acked, n.Alert.ID)
	}
	w.alive()
}

// unique: never two open alerts of one rule and subject.
func (w *world) unique() {
	seen := map[string]bool{}
	for _, a := range w.desk.rows {
		k := fmt.Sprint(a.Rule, a.Subject)
		if a.Open() && seen[k] {
			w.t.Fatalf("two open alerts for %s", k)
		}
		seen[k] = seen[k] || a.Open()
	}
}

// notice checks that a notice may come now.
func (w *world) notice(n alert.Notice, before hook.Alert) {
	c, now := w.condition(&n.Alert), w.desk.now
	k := fmt.Sprintf("%d>%d", n.Alert.ID, n.Channel)
	last := w.last[k]
	w.last[k] = n.Kind.String()
	switch n.Kind {
	case hook.NoticeFiring, hook.NoticeFlapping:
		if c.trueSince.IsZero() || now.Sub(c.trueSince) < c.f.For {
			w.t.Fatalf("%s: fires before it was true for %v", line(n), c.f.For)
		}
		if last != "" && last != "resolved" && n.Channel != quiet {
			w.t.Fatalf("%s after %s", line(n), last)
		}
	case hook.NoticeRaised:
		if n.Alert.Severity <= before.Severity {
			w.t.Fatalf("%s: it was %v before", line(n), before.Severity)
		}
	case hook.NoticeRepeat:
		if until, ok := w.acked[n.Alert.ID]; ok && now.Before(until) {
			w.t.Fatalf("%s: acknowledged until %v", line(n), until)
		}
		if _, snoozed := w.acked[n.Alert.ID]; !snoozed && now.Sub(before.Memory.NoticeAt) < time.Hour {
			w.t.Fatalf("%s: the last notice was at %v", line(n), before.Memory.NoticeAt)
		}
		if last == "flapping" && n.Channel != quiet {
			w.t.Fatalf("%s: only the end was to be told", line(n))
		}
	case hook.NoticeResolved:
		if last == "" || last == "resolved" {
			w.t.Fatalf("%s: the channel has not heard of it", line(n))
		}
		if c.falseSince.IsZero() || now.Sub(c.falseSince) < alert.DefaultResolveAfter {
			w.t.Fatalf("%s: false since %v", line(n), c.falseSince)
		}
		if rule := alert.Lookup(c.f.Rule); now.Sub(before.Since) < rule.Least {
			w.t.Fatalf("%s: it must last %v", line(n), rule.Least)
		}
	default:
		w.t.Fatalf("%s was sent", line(n))
	}
}

// alive: what was true for long enough fires.
func (w *world) alive() {
	for _, k := range w.keys {
		c := w.open[k]
		if c.trueSince.IsZero() || w.desk.now.Sub(c.trueSince) < c.f.For {
			continue
		}
		firing := false
		for _, a := range w.desk.rows {
			firing = firing || a.Rule == c.f.Rule && a.Subject == c.f.Subject && a.Status == hook.AlertFiring
		}
		if !firing {
			w.t.Fatalf("%s about %v is true since %v and does not fire", c.f.Rule, c.f.Subject, c.trueSince)
		}
	}
}

// calm lets everything be over, and checks that everybody heard so.
func (w *world) calm() {
	for range 3 {
		for _, k := range w.keys {
			c := w.open[k]
			if c.true = false; c.falseSince.IsZero() {
				c.falseSince = w.desk.now.Add(time.Hour)
			}
			c.trueSince = time.Time{}
		}
		before := maps.Clone(w.desk.rows)
		for _, n := range w.desk.round(time.Hour, alert.Round{}).Notices {
			w.notice(n, before[n.Alert.ID])
		}
	}
	for k, kind := range w.last {
		if kind != "resolved" && !strings.HasSuffix(k, fmt.Sprintf(">%d", quiet)) {
			w.t.Fatalf("%s ends with %s", k, kind)
		}
	}
	if open := w.desk.b.Open(); len(open) != 0 {
		w.t.Fatalf("still open: %+v", open)
	}
}

// TestBoardKeepsItsWord plays any course of things: never two open alerts of one
// rule and subject, nothing before its time, no repeat of what is acknowledged or
// flapping, and for every channel that heard of an alert exactly one end.
func TestBoardKeepsItsWord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, t)
		for range rapid.IntRange(1, 40).Draw(rt, "rounds") {
			w.turn()
		}
		w.calm()
	})
}

// TestAnotherEvaluatorGoesOn: a board that is made anew from the stored rows at any
// moment sends and stores what the old one would have, whatever became of the
// notices meanwhile.
func TestAnotherEvaluatorGoesOn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, t)
		stays, moves := &evaluator{desk: w.desk}, &evaluator{desk: newDesk(t, w.desk.o)}
		moves.desk.o.NextID = counter()
		stays.desk.o.NextID = counter()
		stays.desk.restore()
		moves.desk.restore()
		moves.desk.channels = stays.desk.channels
		for range rapid.IntRange(1, 40).Draw(rt, "rounds") {
			after := passes(rt)
			r := w.draw(stays.desk.now.Add(after))
			if rapid.IntRange(0, 2).Draw(rt, "takes over") == 0 {
				moves.takeOver(rapid.Bool().Draw(rt, "all rows"))
			}
			want, got := stays.play(after, r), moves.play(after, r)
			if !slices.Equal(want, got) {
				rt.Fatalf("at %v the new board says\n%q, the old one\n%q", stays.desk.now, got, want)
			}
			what := rapid.SliceOfN(rapid.IntRange(0, 3), len(stays.waiting), len(stays.waiting)).Draw(rt, "results")
			stays.results(what)
			moves.results(what)
			if rapid.IntRange(0, 5).Draw(rt, "ack") == 0 {
				snooze := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(rt, "snooze")
				stays.desk.ack("key_1", "", snooze)
				moves.desk.ack("key_1", "", snooze)
			}
		}
		if diff := cmp.Diff(stays.desk.rows, moves.desk.rows, alike...); diff != "" {
			rt.Fatalf("other rows are stored (-old +new):\n%s", diff)
		}
	})
}

// alike leaves out when a condition was last seen: it is stored once a minute.
var alike = cmp.Options{cmpopts.IgnoreFields(hook.Alert{}, "LastAt"), cmpopts.EquateEmpty()}

func counter() func(time.Time) hook.ID {
	next := hook.ID(1000)
	return func(time.Time) hook.ID { next++; return next }
}

// evaluator is a desk whose notices take their time.
type evaluator struct {
	desk    *desk
	waiting []alert.Notice
}

// play returns what a round sends and gives up. What it stores is compared at the
// end: when a value alone is refreshed depends on when the row was last written.
func (e *evaluator) play(after time.Duration, r alert.Round) (did []string) {
	d := e.desk
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
		did = append(did, fmt.Sprint("unack ", a.ID))
	}
	for _, id := range out.Drop {
		delete(d.rows, id)
		did = append(did, fmt.Sprint("drop ", id))
	}
	for _, n := range out.Notices {
		did = append(did, line(n))
	}
	e.waiting = append(e.waiting, out.Notices...)
	return did
}

// results tells what became of the notices that wait: nothing yet, tried again,
// sent or failed.
func (e *evaluator) results(what []int) {
	var left []alert.Notice
	for i, n := range e.waiting {
		result := hook.Notification{Channel: n.Channel, At: n.At, Kind: n.Kind, Result: hook.NoticeWaiting, Tries: n.Tries + 1}
		switch what[i] {
		case 0:
			left = append(left, n)
			continue
		case 1:
			n.Tries++
			left = append(left, n)
		case 2:
			result.Result = hook.NoticeSent
		default:
			result.Result, result.Error = hook.NoticeFailed, "status 500"
		}
		if row, ok := e.desk.b.Told(n.Alert.ID, result); ok {
			e.desk.rows[row.ID] = row
		}
	}
	e.waiting = left
}

// takeOver makes a new board from all rows, or from those that it needs.
func (e *evaluator) takeOver(all bool) {
	d := e.desk
	var rows []hook.Alert
	for _, a := range d.rows {
		waits := slices.ContainsFunc(a.Notifications, func(n hook.Notification) bool { return n.Result == hook.NoticeWaiting })
		if all || a.Open() || waits || d.now.Sub(a.ResolvedAt) <= 15*time.Minute {
			rows = append(rows, a)
			asStored(d.t, &rows[len(rows)-1])
		}
	}
	b, err := alert.NewBoard(d.o, rows)
	if err != nil {
		d.t.Fatal(err)
	}
	d.b = b
}

// asStored takes the parts of a row that are documents through their stored form.
func asStored(t testing.TB, a *hook.Alert) {
	t.Helper()
	text, err := json.Marshal([]any{a.Memory, a.Notifications})
	if err != nil {
		t.Fatal(err)
	}
	a.Memory, a.Notifications = hook.AlertMemory{}, nil
	if err := json.Unmarshal(text, &[]any{&a.Memory, &a.Notifications}); err != nil {
		t.Fatal(err)
	}
}
