package alert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

const (
	// An alert whose status changed flapChanges times within flapWindow is told
	// of once, and then only its end. One that fires again within the window
	// after its end is the same alert.
	flapChanges = 3
	flapWindow  = 15 * time.Minute
	// refreshEvery is how often the row of an alert is stored for its value's
	// sake alone.
	refreshEvery = time.Minute
)

// Options are settings of a board.
type Options struct {
	Repeat       time.Duration // between two notices of an alert that nobody acknowledges
	ResolveAfter time.Duration // that a condition must be false
	MaxOpen      int           // alerts of endpoints and tenants
	// NextID draws the id of a new alert.
	NextID func(now time.Time) hook.ID
}

// Bounds and defaults of the options, which are the settings alert.repeat,
// alert.resolve_after and alert.max_open, and of alert.interval, the time between
// two rounds. Its default is that of the rounds in which the owners of lanes look at
// them.
const (
	DefaultInterval = 15 * time.Second
	MinInterval     = time.Second
	MaxInterval     = time.Minute

	DefaultRepeat = 4 * time.Hour
	MinRepeat     = 5 * time.Minute
	MaxRepeat     = 24 * time.Hour

	DefaultResolveAfter = 5 * time.Minute
	MinResolveAfter     = time.Minute
	MaxResolveAfter     = time.Hour

	DefaultMaxOpen = 2000
	MinMaxOpen     = 10
	MaxMaxOpen     = 100_000
)

func (o *Options) check() error {
	o.Repeat = cmp.Or(o.Repeat, DefaultRepeat)
	o.ResolveAfter = cmp.Or(o.ResolveAfter, DefaultResolveAfter)
	o.MaxOpen = cmp.Or(o.MaxOpen, DefaultMaxOpen)
	switch {
	case o.NextID == nil:
		return errors.New("alert: NextID is required")
	case o.Repeat < MinRepeat || o.Repeat > MaxRepeat:
		return fmt.Errorf("alert.repeat: must be %s", quantity.Between(MinRepeat, MaxRepeat))
	case o.ResolveAfter < MinResolveAfter || o.ResolveAfter > MaxResolveAfter:
		return fmt.Errorf("alert.resolve_after: must be %s", quantity.Between(MinResolveAfter, MaxResolveAfter))
	case o.MaxOpen < MinMaxOpen || o.MaxOpen > MaxMaxOpen:
		return fmt.Errorf("alert.max_open: must be between %d and %d", MinMaxOpen, MaxMaxOpen)
	}
	return nil
}

// Board holds the alerts that are open and those that ended lately. It is used by
// one goroutine at a time.
type Board struct {
	o     Options
	now   time.Time
	items map[key]*item     // open, or ended within flapWindow
	byID  map[hook.ID]*item // the same
	past  map[hook.ID]*item // ended before, but their end is still to be sent
}

// key is what there is at most one open alert of.
type key struct {
	rule    string
	subject hook.AlertSubject
}

func (k key) compare(o key) int {
	a, b := k.subject, o.subject
	return cmp.Or(cmp.Compare(k.rule, o.rule), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Endpoint, b.Endpoint),
		cmp.Compare(a.Replay, b.Replay), cmp.Compare(a.Node, b.Node))
}

// item is an alert on the board.
type item struct {
	a      hook.Alert
	dirty  bool      // it differs from its row
	known  bool      // it has a row
	stored time.Time // LastAt of the row
}

func (it *item) key() key { return key{it.a.Rule, it.a.Subject} }

// NewBoard returns a board that goes on from stored rows: those that are firing or
// pending, those that were resolved within the last 15 minutes, and those with a
// notice that waits. More rows do no harm.
func NewBoard(o Options, rows []hook.Alert) (*Board, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	b := &Board{o: o, items: make(map[key]*item), byID: make(map[hook.ID]*item), past: make(map[hook.ID]*item)}
	rows = slices.SortedFunc(slices.Values(rows), func(x, y hook.Alert) int {
		return cmp.Or(newest(x, y), cmp.Compare(y.ID, x.ID))
	})
	for _, row := range rows {
		it := &item{a: clone(row), known: true, stored: row.LastAt}
		if b.items[it.key()] != nil {
			b.past[it.a.ID] = it
			continue
		}
		b.put(it)
	}
	return b, nil
}

func (b *Board) put(it *item) { b.items[it.key()], b.byID[it.a.ID] = it, it }

func (b *Board) remove(it *item) {
	delete(b.items, it.key())
	delete(b.byID, it.a.ID)
}

// newest puts open alerts before those that ended, and late ends before early
// ones.
func newest(x, y hook.Alert) int {
	switch {
	case x.Open() != y.Open() && x.Open():
		return -1
	case x.Open() != y.Open():
		return 1
	default:
		return y.ResolvedAt.Compare(x.ResolvedAt)
	}
}

// clone returns an alert that shares nothing.
func clone(a hook.Alert) hook.Alert {
	a.Notifications = slices.Clone(a.Notifications)
	a.Memory.Changes = slices.Clone(a.Memory.Changes)
	a.Memory.FoldedIDs = slices.Clone(a.Memory.FoldedIDs)
	a.Memory.Named = slices.Clone(a.Memory.Named)
	return a
}

// Open lists the alerts that are pending or firing, oldest first.
func (b *Board) Open() []hook.Alert {
	var out []hook.Alert
	for _, it := range b.items {
		if it.a.Open() {
			out = append(out, clone(it.a))
		}
	}
	slices.SortFunc(out, func(x, y hook.Alert) int { return cmp.Compare(x.ID, y.ID) })
	return out
}

// Subjects lists what must be read in the next round, whatever else is: the
// subjects of open alerts, which would otherwise end for want of a reading. That
// of a replay is found at its tenant, that of a node at the system.
func (b *Board) Subjects() []hook.AlertSubject {
	seen := make(map[hook.AlertSubject]bool)
	for _, it := range b.items {
		if it.a.Open() || !it.a.Memory.TrueSince.IsZero() {
			seen[readAt(it.a.Subject)] = true
		}
	}
	out := make([]hook.AlertSubject, 0, len(seen))
	for s := range seen {
		out = append(out, s)
	}
	slices.SortFunc(out, func(x, y hook.AlertSubject) int { return key{"", x}.compare(key{"", y}) })
	return out
}

// readAt is the subject of the reading that tells of a subject.
func readAt(s hook.AlertSubject) hook.AlertSubject {
	return hook.AlertSubject{Tenant: s.Tenant, Endpoint: s.Endpoint}
}

// Adopt takes over acknowledgements that were stored meanwhile, by any node.
func (b *Board) Adopt(rows []hook.Alert) {
	for _, row := range rows {
		it := b.items[key{row.Rule, row.Subject}]
		if it == nil || it.a.ID != row.ID || it.a.Status != hook.AlertFiring || row.AckedAt.Equal(it.a.AckedAt) {
			continue
		}
		it.a.AckedBy, it.a.AckedAt, it.a.AckNote, it.a.SnoozedUntil = row.AckedBy, row.AckedAt, row.AckNote, row.SnoozedUntil
	}
}

// Told notes what became of a notice and returns the row to store, but for its
// acknowledgement. ok is false when nothing changed.
func (b *Board) Told(alert hook.ID, n hook.Notification) (row hook.Alert, ok bool) {
	it := b.find(alert)
	if it == nil {
		return hook.Alert{}, false
	}
	i := slices.IndexFunc(it.a.Notifications, func(o hook.Notification) bool {
		return o.Channel == n.Channel && o.Kind == n.Kind && o.At.Equal(n.At)
	})
	if i < 0 {
		return hook.Alert{}, false
	}
	known := &it.a.Notifications[i]
	if known.Result == hook.NoticeSent || known.Result == n.Result && known.Tries == n.Tries && known.Error == n.Error {
		return hook.Alert{}, false
	}
	known.Result, known.Tries, known.Error = n.Result, n.Tries, n.Error
	if b.past[alert] != nil && !waits(&it.a) {
		delete(b.past, alert)
	}
	return clone(it.a), true
}

func (b *Board) find(alert hook.ID) *item {
	if it := b.past[alert]; it != nil {
		return it
	}
	return b.byID[alert]
}

// Waiting lists the notices that are decided and not known to be sent: what an
// evaluator that takes over must send.
func (b *Board) Waiting() []Notice {
	var out []Notice
	add := func(it *item) {
		for _, n := range it.a.Notifications {
			if n.Result == hook.NoticeWaiting {
				out = append(out, Notice{Alert: clone(it.a), Channel: n.Channel, Kind: n.Kind, At: n.At, Tries: n.Tries})
			}
		}
	}
	for _, it := range b.items {
		add(it)
	}
	for _, it := range b.past {
		add(it)
	}
	slices.SortFunc(out, compareNotices)
	return out
}
