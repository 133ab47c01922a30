package window_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/window"
)

// again is the wait after a read that failed.
const again = time.Second

// world is everything around one window: the rows on disk, the lane's queue, the
// requests in flight, the results on their way to the store, and the mail that
// tells the window of what was committed, in the order of the commits. Reads run
// beside all of that and see the rows as they are at any moment between their
// beginning and their end.
type world struct {
	size int
	w    window.Window
	now  time.Time
	gate window.Gate

	ids     hook.ID
	disk    map[hook.ID]hook.Delivery
	queue   []hook.ID
	flights []flight
	results []result
	mail    []message
	refused []hook.ID // wait a moment to be read again
	read    *read     // for what is to be sent
	expiry  *read     // for what was held too long
	retryAt time.Time // after a read that failed

	changes int             // made by people
	changed map[hook.ID]int // the latest of each row

	// What the laws look at.
	twice, outdated, forgotten func(t *rapid.T, format string, args ...any)
}

type flight struct {
	it *window.Item
	d  hook.Delivery // as it was at the start
}

// result is a settle: it is refused when the row is not as it was.
type result struct {
	before, after hook.Delivery
}

type message struct {
	about hook.ID
	tell  func(t *rapid.T)
}

type read struct {
	search  bool
	asOf    time.Time
	known   map[hook.ID]struct{}
	rows    map[hook.ID]hook.Delivery // nil: it has seen nothing yet
	changes int                       // when it saw them
}

func newWorld(t *rapid.T) *world {
	ignore := func(*rapid.T, string, ...any) {}
	m := &world{
		size: rapid.IntRange(1, 6).Draw(t, "size"), now: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC),
		disk: make(map[hook.ID]hook.Delivery), changed: make(map[hook.ID]int),
		twice: ignore, outdated: ignore, forgotten: ignore,
	}
	m.w = window.New(m.size)
	return m
}

// run does many things in any order, and checks the laws after each of them. What
// cannot be done at a moment is passed over.
func (m *world) run(t *rapid.T) {
	often := []func(*rapid.T){m.accept, m.send, m.send, m.answer, m.answer, m.commit, m.commit, m.deliver, m.deliver, m.end}
	actions := append(often,
		m.wait, m.acceptElsewhere, m.ask, m.begin, m.begin, m.beginSearch, func(*rapid.T) { m.see(m.read) },
		m.beginExpiry, func(*rapid.T) { m.see(m.expiry) }, m.endExpiry, m.changeGate, m.openGate, m.person, m.reread,
	)
	for range rapid.IntRange(1, 400).Draw(t, "steps") {
		actions[rapid.IntRange(0, len(actions)-1).Draw(t, "action")](t)
		m.check(t)
	}
}

func (m *world) wait(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
}

func (m *world) newRow(t *rapid.T) hook.Delivery {
	m.ids++
	due := m.now
	if rapid.IntRange(0, 4).Draw(t, "later") == 0 {
		due = due.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "seconds")) * time.Second)
	}
	d := hook.Delivery{ID: m.ids, State: hook.Pending, DueAt: due}
	m.disk[d.ID] = d
	return d
}

// accept commits a delivery of this node: it comes by mail.
func (m *world) accept(t *rapid.T) {
	d := m.newRow(t)
	m.mail = append(m.mail, message{d.ID, func(t *rapid.T) { m.enqueue(t, m.w.Admit(m.now, &d, window.Arrived, m.gate)) }})
}

// acceptElsewhere commits a delivery of another node, which tells of it.
func (m *world) acceptElsewhere(t *rapid.T) {
	d := m.newRow(t)
	m.mail = append(m.mail, message{d.ID, func(*rapid.T) { m.w.Announced(d.DueAt) }})
}

// enqueue puts what was admitted into the lane's queue.
func (m *world) enqueue(t *rapid.T, it *window.Item) {
	if it == nil {
		return
	}
	id := it.Delivery.ID
	flying := slices.ContainsFunc(m.flights, func(f flight) bool { return f.d.ID == id })
	unsettled := slices.ContainsFunc(m.results, func(r result) bool { return r.after.ID == id })
	if flying || unsettled || slices.Contains(m.queue, id) {
		m.twice(t, "delivery %d is queued twice: in flight %v, unsettled %v, queue %v", id, flying, unsettled, m.queue)
	}
	m.queue = append(m.queue, id)
}

func (m *world) send(t *rapid.T) {
	if len(m.queue) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.queue)-1).Draw(t, "which")
	it := m.w.Taken(m.queue[i])
	m.queue = slices.Delete(m.queue, i, i+1)
	m.flights = append(m.flights, flight{it, it.Delivery})
}

func (m *world) answer(t *rapid.T) {
	if len(m.flights) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.flights)-1).Draw(t, "which")
	m.land(t, i, rapid.SampledFrom([]string{"delivered", "later", "unchanged"}).Draw(t, "answer"))
}

func (m *world) land(t *rapid.T, i int, answer string) {
	f := m.flights[i]
	m.flights = slices.Delete(m.flights, i, i+1)
	after := f.d
	after.Attempts++
	after.Restore = nil
	switch {
	case answer == "delivered":
		after.State = hook.Delivered
	case f.d.Restore != nil:
		after.State, after.DueAt = f.d.Restore.State, f.d.Restore.DueAt
	case answer == "later":
		after.Progress.Fails++
		after.DueAt = m.now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "delay")) * time.Millisecond)
	default:
		after.Progress.Fails++
	}
	m.results = append(m.results, result{f.d, after})
	m.w.Answered(f.it, after)
	if answer == "unchanged" && f.d.Restore == nil && m.w.Return(f.it) {
		m.queue = append(m.queue, f.d.ID)
	}
}

// commit stores the oldest result, if its row is still what it was.
func (m *world) commit(*rapid.T) {
	if len(m.results) == 0 {
		return
	}
	r := m.results[0]
	m.results = m.results[1:]
	row := m.disk[r.after.ID]
	refused := row.State != hook.Pending || row.Attempts != r.before.Attempts || !row.DueAt.Equal(r.before.DueAt)
	if !refused {
		m.disk[r.after.ID] = r.after
	}
	m.mail = append(m.mail, message{r.after.ID, func(*rapid.T) {
		if _, fate := m.w.Settled(m.now, &r.after, refused); fate == window.Refused {
			m.unqueue(r.after.ID)
			m.refused = append(m.refused, r.after.ID)
		}
	}})
}

func (m *world) unqueue(id hook.ID) {
	m.queue = slices.DeleteFunc(m.queue, func(q hook.ID) bool { return q == id })
}

func (m *world) deliver(t *rapid.T) {
	if len(m.mail) == 0 {
		return
	}
	next := m.mail[0]
	m.mail = m.mail[1:]
	next.tell(t)
}

func (m *world) reread(*rapid.T) {
	if len(m.refused) == 0 {
		return
	}
	m.w.Reread(m.now, m.refused[0])
	m.refused = m.refused[1:]
}

// person cancels a delivery or asks for it by hand, and the lane hears of it.
func (m *world) person(t *rapid.T) {
	var pending []hook.ID
	for _, id := range slices.Sorted(maps.Keys(m.disk)) {
		if m.disk[id].State == hook.Pending {
			pending = append(pending, id)
		}
	}
	if len(pending) == 0 {
		return
	}
	d := m.disk[rapid.SampledFrom(pending).Draw(t, "delivery")]
	if rapid.Bool().Draw(t, "cancel") {
		d.State = hook.Cancelled
	} else if d.Restore == nil {
		d.Restore = &hook.Restore{State: d.State, DueAt: d.DueAt}
		d.DueAt = m.now
	}
	m.disk[d.ID] = d
	m.changes++
	m.changed[d.ID] = m.changes
	m.mail = append(m.mail, message{d.ID, func(*rapid.T) {
		for _, id := range m.queue {
			m.w.Evict(id)
		}
		m.queue = nil
		m.w.RowsChanged(m.now)
	}})
}

func (m *world) changeGate(t *rapid.T) {
	probe := rapid.Bool().Draw(t, "probe due")
	m.gate = rapid.SampledFrom([]window.Gate{
		{}, {Holds: true, ProbeDue: probe}, {Holds: true, Paused: true}, {Discards: true, ProbeDue: probe},
	}).Draw(t, "gate")
	switch {
	case m.gate.Holds:
		m.evictToDisk()
	case m.gate.Discards:
		for _, id := range m.queue {
			m.endWithout(m.w.Discard(id))
		}
		m.queue = nil
	}
}

func (m *world) openGate(*rapid.T) { m.gate = window.Gate{} }

func (m *world) evictToDisk() {
	var kept []hook.ID
	for _, id := range slices.Backward(m.queue) {
		if m.w.Spares(id, len(kept)) {
			kept = append(kept, id)
		} else {
			m.w.Evict(id)
		}
	}
	slices.Reverse(kept)
	m.queue = kept
}

// endWithout settles a delivery as dead, without an attempt.
func (m *world) endWithout(it *window.Item) {
	after := it.Delivery
	after.State = hook.Dead
	m.results = append(m.results, result{it.Delivery, after})
}

func (m *world) ask(*rapid.T) {
	if m.w.Reading() {
		return
	}
	m.w.ReadAsked(m.now)
}

func (m *world) begin(*rapid.T) {
	if m.read != nil {
		return
	}
	m.read = &read{asOf: m.now, known: m.w.ReadBegun()}
}

func (m *world) beginSearch(*rapid.T) {
	if m.w.Reading() {
		return
	}
	m.read = &read{search: true, asOf: m.now, known: m.w.SearchBegun()}
}

func (m *world) beginExpiry(*rapid.T) {
	if m.w.Expiring() {
		return
	}
	m.w.ExpiryBegun()
	m.expiry = &read{asOf: m.now.Add(-time.Second)}
}

// see is the moment at which a read sees the rows.
func (m *world) see(r *read) {
	if r != nil && r.rows == nil {
		r.rows, r.changes = maps.Clone(m.disk), m.changes
	}
}

// due returns what a read saw that was due, oldest due first, and when the first
// row after that falls due.
func (r *read) due() (rows []hook.Delivery, next time.Time) {
	for _, d := range r.rows {
		switch {
		case d.State != hook.Pending:
		case !d.DueAt.After(r.asOf):
			rows = append(rows, d)
		case next.IsZero() || d.DueAt.Before(next):
			next = d.DueAt
		}
	}
	slices.SortFunc(rows, func(a, b hook.Delivery) int { return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.ID, b.ID)) })
	return rows, next
}

func (m *world) end(t *rapid.T) {
	if m.read == nil {
		return
	}
	if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
		m.read, m.retryAt = nil, m.now.Add(again)
		m.w.ReadEnded(m.retryAt)
		return
	}
	m.endRead(t)
}

func (m *world) endRead(t *rapid.T) {
	m.see(m.read)
	if m.read.search {
		m.endSearch(t)
		return
	}
	r := m.read
	rows, next := r.due()
	rows = slices.DeleteFunc(rows, func(d hook.Delivery) bool {
		_, known := r.known[d.ID]
		return known
	})
	if limit := window.ReadRoom(m.size); len(rows) >= limit {
		rows, next = rows[:limit], r.asOf
	}
	for i := range rows {
		m.take(t, &rows[i], m.w.Admit(m.now, &rows[i], window.Read, m.gate))
	}
	m.w.ReadEnded(next)
	m.read = nil
}

// endSearch takes what people asked for and what a probe needs.
func (m *world) endSearch(t *rapid.T) {
	r := m.read
	rows, next := r.due()
	found := false
	for i := range slices.Backward(rows) {
		d := &rows[i]
		if _, known := r.known[d.ID]; known {
			continue
		}
		found = true
		switch {
		case d.Restore != nil:
			m.take(t, d, m.w.Admit(m.now, d, window.Read, m.gate))
		case m.gate.ProbeDue && d.Progress.Fails == 0:
			m.take(t, d, m.w.Admit(m.now, d, window.Read, m.gate))
		case m.gate.ProbeDue && len(m.queue) == 0:
			m.take(t, d, m.w.AdmitProbe(d))
		}
	}
	if found {
		m.w.ReadPartly(time.Time{})
	} else {
		m.w.ReadEnded(next)
	}
	m.read = nil
}

// take queues what was admitted from a read.
func (m *world) take(t *rapid.T, row *hook.Delivery, it *window.Item) {
	if it != nil {
		m.upToDate(t, m.read, row)
		m.enqueue(t, it)
	}
}

// upToDate checks that a row that a read brought is still what is stored, unless
// a person has changed it since.
func (m *world) upToDate(t *rapid.T, r *read, d *hook.Delivery) {
	row := m.disk[d.ID]
	if m.changed[d.ID] <= r.changes && (row.State != hook.Pending || row.Attempts != d.Attempts) {
		m.outdated(t, "delivery %d is taken with %d attempts; it is %v and has had %d", d.ID, d.Attempts, row.State, row.Attempts)
	}
}

func (m *world) endExpiry(t *rapid.T) {
	if m.expiry == nil {
		return
	}
	m.see(m.expiry)
	rows, _ := m.expiry.due()
	for i := range rows {
		if it := m.w.Expire(&rows[i]); it != nil {
			m.upToDate(t, m.expiry, &it.Delivery)
			m.unqueue(rows[i].ID)
			m.endWithout(it)
		}
	}
	m.w.ExpiryEnded()
	m.expiry = nil
}
