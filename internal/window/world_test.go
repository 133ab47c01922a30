package window_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
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
	t   *rapid.T
	rng *rand.Rand

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
	twice, outdated, forgotten func(format string, args ...any)
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
	tell  func()
}

type read struct {
	search  bool
	skips   bool // leaves out what was in memory when it began
	asOf    time.Time
	known   map[hook.ID]struct{}
	rows    map[hook.ID]hook.Delivery // nil: it has seen nothing yet
	changes int                       // when it saw them
}

// crowd bounds the pending rows: with few of them every window runs empty now and
// then, and everything meets.
const crowd = 10

func newWorld(t *rapid.T, rng *rand.Rand) *world {
	ignore := func(string, ...any) {}
	m := &world{
		t: t, rng: rng, size: 1 + rng.IntN(6), now: start,
		disk: make(map[hook.ID]hook.Delivery), changed: make(map[hook.ID]int),
		twice: ignore, outdated: ignore, forgotten: ignore,
	}
	m.w = window.New(m.size)
	return m
}

// one reports true once in n.
func (m *world) one(n int) bool { return m.rng.IntN(n) == 0 }

func (m *world) upTo(d time.Duration) time.Duration {
	return time.Duration(1+m.rng.IntN(int(d/time.Millisecond))) * time.Millisecond
}

// run does many things in any order, and checks the laws after each of them. How
// often each is done differs from world to world: what is rare in one is common in
// another. What cannot be done at a moment is passed over.
func (m *world) run() {
	var actions []func()
	for _, do := range []func(){
		m.accept, m.acceptElsewhere, m.send, m.answer, m.commit, m.deliver, m.wait,
		m.ask, m.begin, m.beginSearch, func() { m.see(m.read) }, m.end,
		m.beginExpiry, func() { m.see(m.expiry) }, m.endExpiry, m.changeGate, m.openGate, m.person, m.reread,
	} {
		for range []int{0, 1, 2, 2, 4, 8}[m.rng.IntN(6)] {
			actions = append(actions, do)
		}
	}
	m.accept()
	for range 300 {
		if len(actions) > 0 {
			actions[m.rng.IntN(len(actions))]()
		}
		m.check()
	}
}

func (m *world) wait() {
	m.now = m.now.Add(m.upTo(3 * time.Second))
}

func (m *world) newRow() hook.Delivery {
	m.prune()
	m.ids++
	due := m.now
	if m.one(5) {
		due = due.Add(m.upTo(5 * time.Second))
	}
	d := hook.Delivery{ID: m.ids, State: hook.Pending, DueAt: due}
	m.disk[d.ID] = d
	return d
}

// pending returns the deliveries that are pending on disk.
func (m *world) pending() (ids []hook.ID) {
	for id, d := range m.disk {
		if d.State == hook.Pending {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (m *world) crowded() bool {
	n := 0
	for _, d := range m.disk {
		if d.State == hook.Pending {
			n++
		}
	}
	return n >= crowd
}

// prune removes rows that have ended and that nobody knows any more.
func (m *world) prune() {
	if m.read != nil || m.expiry != nil {
		return
	}
	maps.DeleteFunc(m.disk, func(id hook.ID, d hook.Delivery) bool {
		return d.State != hook.Pending && m.w.Item(id) == nil &&
			!slices.ContainsFunc(m.results, func(r result) bool { return r.after.ID == id }) &&
			!slices.ContainsFunc(m.mail, func(msg message) bool { return msg.about == id })
	})
}

// accept commits a delivery of this node: it comes by mail.
func (m *world) accept() {
	if m.crowded() {
		return
	}
	d := m.newRow()
	m.mail = append(m.mail, message{d.ID, func() { m.enqueue(m.w.Admit(m.now, &d, window.Arrived, m.gate)) }})
}

// acceptElsewhere commits a delivery of another node, which tells of it.
func (m *world) acceptElsewhere() {
	if m.crowded() {
		return
	}
	d := m.newRow()
	m.mail = append(m.mail, message{d.ID, func() { m.w.Announced(d.DueAt) }})
}

// enqueue puts what was admitted into the lane's queue.
func (m *world) enqueue(it *window.Item) {
	if it == nil {
		return
	}
	id := it.Delivery.ID
	flying := slices.ContainsFunc(m.flights, func(f flight) bool { return f.d.ID == id })
	unsettled := slices.ContainsFunc(m.results, func(r result) bool { return r.after.ID == id })
	if flying || unsettled || slices.Contains(m.queue, id) {
		m.twice("delivery %d is queued twice: in flight %v, unsettled %v, queue %v", id, flying, unsettled, m.queue)
	}
	m.queue = append(m.queue, id)
}

func (m *world) send() {
	if len(m.queue) == 0 {
		return
	}
	i := m.rng.IntN(len(m.queue))
	it := m.w.Taken(m.queue[i])
	m.queue = slices.Delete(m.queue, i, i+1)
	m.flights = append(m.flights, flight{it, it.Delivery})
}

func (m *world) answer() {
	if len(m.flights) == 0 {
		return
	}
	i := m.rng.IntN(len(m.flights))
	m.land(i, []string{"delivered", "later", "unchanged"}[m.rng.IntN(3)])
}

func (m *world) land(i int, answer string) {
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
		after.Progress.FailedAttempts++
		after.DueAt = m.now.Add(m.upTo(4 * time.Second))
	default:
		after.Progress.FailedAttempts++
	}
	m.results = append(m.results, result{f.d, after})
	m.w.Answered(f.it, after)
	if answer == "unchanged" && f.d.Restore == nil && m.w.Return(f.it) {
		m.queue = append(m.queue, f.d.ID)
	}
}

// commit stores the oldest result, if its row is still what it was.
func (m *world) commit() {
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
	m.mail = append(m.mail, message{r.after.ID, func() {
		if _, fate := m.w.Settled(m.now, &r.after, refused); fate == window.Refused {
			m.unqueue(r.after.ID)
			m.refused = append(m.refused, r.after.ID)
		}
	}})
}

func (m *world) unqueue(id hook.ID) {
	m.queue = slices.DeleteFunc(m.queue, func(q hook.ID) bool { return q == id })
}

func (m *world) deliver() {
	if len(m.mail) == 0 {
		return
	}
	next := m.mail[0]
	m.mail = m.mail[1:]
	next.tell()
}

func (m *world) reread() {
	if len(m.refused) == 0 {
		return
	}
	m.w.Reread(m.now, m.refused[0])
	m.refused = m.refused[1:]
}

// person cancels a delivery or asks for it by hand, and the lane hears of it.
func (m *world) person() {
	pending := m.pending()
	if len(pending) == 0 {
		return
	}
	d := m.disk[pending[m.rng.IntN(len(pending))]]
	if m.one(2) {
		d.State = hook.Cancelled
	} else if d.Restore == nil {
		d.Restore = &hook.Restore{State: d.State, DueAt: d.DueAt}
		d.DueAt = m.now
	}
	m.disk[d.ID] = d
	m.changes++
	m.changed[d.ID] = m.changes
	m.mail = append(m.mail, message{d.ID, func() {
		for _, id := range m.queue {
			m.w.Evict(id)
		}
		m.queue = nil
		m.w.RowsChanged(m.now)
	}})
}

func (m *world) changeGate() {
	probe := m.one(2)
	m.gate = []window.Gate{
		{}, {Holds: true, ProbeDue: probe}, {Holds: true, Paused: true}, {Discards: true, ProbeDue: probe},
	}[m.rng.IntN(4)]
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

func (m *world) openGate() { m.gate = window.Gate{} }

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

func (m *world) ask() {
	if m.w.Reading() {
		return
	}
	m.w.ReadAsked(m.now)
}

func (m *world) begin() {
	if m.read != nil {
		return
	}
	m.read = &read{asOf: m.now, skips: m.one(2), known: m.w.ReadBegun()}
}

func (m *world) beginSearch() {
	if m.w.Reading() {
		return
	}
	m.read = &read{search: true, asOf: m.now, known: m.w.SearchBegun()}
}

func (m *world) beginExpiry() {
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

func (m *world) end() {
	if m.read == nil {
		return
	}
	if m.one(10) {
		m.read, m.retryAt = nil, m.now.Add(again)
		m.w.ReadEnded(m.retryAt)
		return
	}
	m.endRead()
}

func (m *world) endRead() {
	m.see(m.read)
	if m.read.search {
		m.endSearch()
		return
	}
	r := m.read
	rows, next := r.due()
	limit := window.ReadRoom(m.size)
	if r.skips {
		rows = slices.DeleteFunc(rows, func(d hook.Delivery) bool {
			_, known := r.known[d.ID]
			return known
		})
	} else {
		limit += len(r.known) // they may all be among the rows
	}
	if len(rows) >= limit {
		rows, next = rows[:limit], r.asOf
	}
	for i := range rows {
		m.take(&rows[i], m.w.Admit(m.now, &rows[i], window.Read, m.gate))
	}
	m.w.ReadEnded(next)
	m.read = nil
}

// endSearch takes what people asked for and what a probe needs.
func (m *world) endSearch() {
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
			m.take(d, m.w.Admit(m.now, d, window.Read, m.gate))
		case m.gate.ProbeDue && d.Progress.FailedAttempts == 0:
			m.take(d, m.w.Admit(m.now, d, window.Read, m.gate))
		case m.gate.ProbeDue && len(m.queue) == 0:
			m.take(d, m.w.AdmitProbe(d))
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
func (m *world) take(row *hook.Delivery, it *window.Item) {
	if it != nil {
		m.upToDate(m.read, row)
		m.enqueue(it)
	}
}

// upToDate checks that a row that a read brought is still what is stored, unless
// a person has changed it since.
func (m *world) upToDate(r *read, d *hook.Delivery) {
	row := m.disk[d.ID]
	if m.changed[d.ID] <= r.changes && (row.State != hook.Pending || row.Attempts != d.Attempts) {
		m.outdated("delivery %d is taken with %d attempts; it is %v and has had %d", d.ID, d.Attempts, row.State, row.Attempts)
	}
}

func (m *world) endExpiry() {
	if m.expiry == nil {
		return
	}
	m.see(m.expiry)
	rows, _ := m.expiry.due()
	for i := range rows {
		if it := m.w.Expire(&rows[i]); it != nil {
			m.upToDate(m.expiry, &it.Delivery)
			m.unqueue(rows[i].ID)
			m.endWithout(it)
		}
	}
	m.w.ExpiryEnded()
	m.expiry = nil
}
