package watch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// depthLimit is where counting a retry queue stops.
	depthLimit = 10_000
	// depthBatch is how many queues are measured in one call, and depthBudget
	// how long a round goes on measuring. What is left over comes first in the
	// next round.
	depthBatch  = 16
	depthBudget = 5 * time.Second
	// maxActive bounds the rows of other owners that a round looks at.
	maxActive = 1000
	// maxSaves bounds the rows that a round writes; storms and warnings come
	// first. Lanes that are merely retrying are saved once a minute.
	maxSaves  = 1000
	saveEvery = time.Minute
	storeCall = 5 * time.Second
)

// subject is a lane that retries, is open, or has an alarm.
type subject struct {
	endpoint, tenant hook.ID
	counts           Counts
	open             bool
	storm            Alarm
	queue            Queue

	saved hook.LaneWatch // as it is in the store; zero UpdatedAt: it is not
	// changed is set until a change of an alarm has reached the store. Until
	// then the row says less than this node knows.
	changed bool
}

func (s *subject) active() bool { return s.storm.Active() || s.queue.Growing() }

// judge follows the lanes of this node from round to round.
type judge struct {
	w        *Watcher
	subjects map[hook.ID]*subject
	gone     map[hook.ID]bool // rows that are to be removed
	system   system
	node     hook.NodeWatch // as it was last saved
	failing  bool
}

// round judges every lane and then the whole. A store that is away costs what
// it is asked for, nothing else: storms are judged in memory.
func (j *judge) round(ctx context.Context, now time.Time, s sweep) {
	j.refresh(s)
	err := j.adopt(ctx, now)
	for _, sub := range j.subjects {
		j.judgeStorm(now, sub)
	}
	err = errors.Join(err, j.measure(ctx, now))
	j.forget()
	err = errors.Join(err, j.save(ctx, now, s), j.judgeSystem(ctx, now))
	j.report(ctx, err)
}

// report logs that the store fails once, not at every round.
func (j *judge) report(ctx context.Context, err error) {
	if err != nil && !j.failing && ctx.Err() == nil {
		j.w.cfg.Log.Warn("storm detection has no store; trying again", "error", err)
	}
	j.failing = err != nil
}

// refresh takes what the sweep saw. Lanes of other nodes are dropped without a
// word: whoever owns them now goes on from their rows.
func (j *judge) refresh(s sweep) {
	for id, sub := range j.subjects {
		sub.counts, sub.open = Counts{}, false
		if !j.w.cfg.Owns(hook.ShardOf(id)) {
			delete(j.subjects, id)
		}
	}
	maps.DeleteFunc(j.gone, func(id hook.ID, _ bool) bool { return !j.w.cfg.Owns(hook.ShardOf(id)) })
	for _, l := range s.lanes {
		sub := j.subject(l.tenant, l.endpoint)
		sub.counts, sub.open = l.counts, l.open
	}
}

func (j *judge) subject(tenant, endpoint hook.ID) *subject {
	sub := j.subjects[endpoint]
	if sub == nil {
		sub = &subject{endpoint: endpoint, tenant: tenant}
		j.subjects[endpoint] = sub
	}
	return sub
}

// adopt takes over the alarms of earlier owners: of this process before its
// restart, or of another node. Every alarm that is stored has an owner who ends
// it, so none stays for ever.
func (j *judge) adopt(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, storeCall)
	defer cancel()
	rows, err := j.w.cfg.Store.ActiveLaneWatches(ctx, maxActive)
	if err != nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		if !j.w.cfg.Owns(hook.ShardOf(row.EndpointID)) || j.gone[row.EndpointID] {
			continue
		}
		sub := j.subject(row.TenantID, row.EndpointID)
		if sub.changed {
			continue
		}
		sub.saved = *row
		if row.Storm.Active() && !sub.storm.Active() {
			sub.storm.Resume(now, row.Storm.Since)
		}
		if row.Queue.Growing() && !sub.queue.Growing() {
			sub.queue.Resume(now, row.Queue.Since, row.Queue.Depth)
		}
	}
	return nil
}

func (j *judge) judgeStorm(now time.Time, sub *subject) {
	since := sub.storm.Since
	change := sub.storm.Judge(now, sub.counts.Storm(), j.w.cfg.Calm)
	if change == Same {
		return
	}
	sub.changed = true
	figures := hook.Storm{First: sub.counts.First, Retries: sub.counts.Retries}
	detail := stormDetail{Retries: figures.Retries, First: figures.First, Ratio: figures.Ratio(), NoFirst: figures.First == 0}
	kind := hook.StormStarted
	if change == Ended {
		kind, detail.Since, detail.Seconds = hook.StormEnded, since, now.Sub(since).Seconds()
	}
	j.w.events.record(now, sub.tenant, sub.endpoint, kind, detail)
}

// stormDetail is what an event tells of a storm.
type stormDetail struct {
	Retries int64     `json:"retries"`
	First   int64     `json:"first"`
	Ratio   float64   `json:"ratio"`
	NoFirst bool      `json:"no_first"`
	Since   time.Time `json:"since,omitzero"`
	Seconds float64   `json:"seconds,omitzero"`
}

// queueDetail is what an event tells of a retry queue.
type queueDetail struct {
	Depth   int64     `json:"depth"`
	AtLeast bool      `json:"at_least,omitzero"`
	Since   time.Time `json:"since,omitzero"`
	Seconds float64   `json:"seconds,omitzero"`
}

// measure counts the retry queues, those first that were not counted for
// longest, as far as time allows.
func (j *judge) measure(ctx context.Context, now time.Time) error {
	waiting := make([]*subject, 0, len(j.subjects))
	for _, sub := range j.subjects {
		if sub.counts.Retries > 0 || sub.open || sub.queue.Growing() {
			waiting = append(waiting, sub)
		}
	}
	slices.SortFunc(waiting, func(a, b *subject) int {
		_, lastA := a.queue.Latest()
		_, lastB := b.queue.Latest()
		return cmp.Or(lastA.Compare(lastB), cmp.Compare(a.endpoint, b.endpoint))
	})
	began := time.Now()
	for batch := range slices.Chunk(waiting, depthBatch) {
		if time.Since(began) >= depthBudget {
			return nil
		}
		if err := j.measureBatch(ctx, now, batch); err != nil {
			return err
		}
	}
	return nil
}

func (j *judge) measureBatch(ctx context.Context, now time.Time, batch []*subject) error {
	ids := make([]hook.ID, len(batch))
	for i, sub := range batch {
		ids[i] = sub.endpoint
	}
	ctx, cancel := context.WithTimeout(ctx, storeCall)
	defer cancel()
	depths, err := j.w.cfg.Store.RetryDepths(ctx, ids, now, depthLimit)
	if err != nil {
		return err
	}
	for _, d := range depths {
		if sub := j.subjects[d.EndpointID]; sub != nil {
			j.judgeQueue(now, sub, Depth{N: d.Depth, AtLeast: d.AtLeast})
		}
	}
	return nil
}

func (j *judge) judgeQueue(now time.Time, sub *subject, d Depth) {
	since := sub.queue.Since
	change := sub.queue.Judge(now, d)
	if change == Same {
		return
	}
	sub.changed = true
	detail := queueDetail{Depth: d.N, AtLeast: d.AtLeast}
	kind := hook.RetryQueueGrowing
	if change == Ended {
		kind, detail.Since, detail.Seconds = hook.RetryQueueSettled, since, now.Sub(since).Seconds()
	}
	j.w.events.record(now, sub.tenant, sub.endpoint, kind, detail)
}

// forget drops the lanes that have calmed down.
func (j *judge) forget() {
	for id, sub := range j.subjects {
		if sub.counts.Retries > 0 || sub.open || sub.active() {
			continue
		}
		delete(j.subjects, id)
		if !sub.saved.UpdatedAt.IsZero() {
			j.gone[id] = true
		}
	}
}

// watch is the subject as every node shows it.
func (s *subject) watch(now time.Time) hook.LaneWatch {
	depth, _ := s.queue.Latest()
	return hook.LaneWatch{
		EndpointID: s.endpoint, TenantID: s.tenant, UpdatedAt: now,
		Storm: hook.Storm{Since: s.storm.Since, First: s.counts.First, Retries: s.counts.Retries},
		Queue: hook.RetryQueue{
			Depth: depth.N, AtLeast: depth.AtLeast, Since: s.queue.Since, DrainPerMinute: s.queue.DrainPerMinute(now),
		},
	}
}

// due reports whether the subject must be saved: at every round while it is
// active, otherwise once a minute when there is something new.
func (s *subject) due(now time.Time) bool {
	if s.changed || s.active() {
		return true
	}
	w := s.watch(now)
	w.UpdatedAt = s.saved.UpdatedAt
	return now.Sub(w.UpdatedAt) >= saveEvery && w != s.saved
}

// save writes what is due, storms and warnings first.
func (j *judge) save(ctx context.Context, now time.Time, s sweep) error {
	var due []*subject
	for _, sub := range j.subjects {
		if sub.due(now) {
			due = append(due, sub)
		}
	}
	slices.SortFunc(due, func(a, b *subject) int {
		return cmp.Or(rank(a)-rank(b), a.saved.UpdatedAt.Compare(b.saved.UpdatedAt), cmp.Compare(a.endpoint, b.endpoint))
	})
	due = due[:min(len(due), maxSaves)]
	batch := store.WatchSave{Node: j.nodeWatch(ctx, now, s)}
	for _, sub := range due {
		batch.Lanes = append(batch.Lanes, sub.watch(now))
		delete(j.gone, sub.endpoint)
	}
	for id := range j.gone {
		if j.subjects[id] == nil && len(batch.Gone) < maxSaves {
			batch.Gone = append(batch.Gone, id)
		}
	}
	if len(batch.Lanes) == 0 && len(batch.Gone) == 0 && batch.Node == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeCall)
	defer cancel()
	if err := j.w.cfg.Store.SaveWatch(ctx, batch); err != nil {
		return err
	}
	j.written(batch)
	return nil
}

// rank puts what changed or is active before what is merely interesting.
func rank(s *subject) int {
	if s.changed || s.active() {
		return 0
	}
	return 1
}

func (j *judge) written(batch store.WatchSave) {
	for _, row := range batch.Lanes {
		sub := j.subjects[row.EndpointID]
		sub.saved, sub.changed = row, false
	}
	for _, id := range batch.Gone {
		delete(j.gone, id)
	}
	if batch.Node != nil {
		j.node = *batch.Node
	}
}

// nodeWatch sums up this node; nil when there is nothing to say, and was not
// at the last round either.
func (j *judge) nodeWatch(ctx context.Context, now time.Time, s sweep) *hook.NodeWatch {
	n := hook.NodeWatch{NodeID: j.w.cfg.Node, Lanes: s.traffic, Opened: s.opened, UpdatedAt: now}
	for _, sub := range j.subjects {
		depth, _ := sub.queue.Latest()
		n.Depth += depth.N
	}
	if j.w.cfg.Health != nil {
		n.Health = j.w.cfg.Health(ctx)
	} else if n.Lanes+n.Depth == 0 && j.node.Lanes+j.node.Depth == 0 {
		return nil
	}
	return &n
}

func (j *judge) figures() (f hook.LaneFigures) {
	for _, sub := range j.subjects {
		if sub.storm.Active() {
			f.Storms++
		}
		if sub.queue.Growing() {
			f.Warnings++
		}
	}
	f.Worst = j.worst()
	return f
}

// worst picks the lanes in the worst state: storms, then the deepest retry queues,
// then most retries.
func (j *judge) worst() []hook.WorstLane {
	if j.w.cfg.Worst == 0 {
		return nil
	}
	all := make([]hook.WorstLane, 0, len(j.subjects))
	for _, sub := range j.subjects {
		all = append(all, hook.WorstLane{LaneWatch: sub.watch(time.Time{}), Open: sub.open})
	}
	slices.SortFunc(all, func(a, b hook.WorstLane) int {
		return cmp.Or(ahead(a.Storm.Active(), b.Storm.Active()), cmp.Compare(b.Queue.Depth, a.Queue.Depth), ahead(a.Open, b.Open),
			cmp.Compare(b.Storm.Retries, a.Storm.Retries), cmp.Compare(a.EndpointID, b.EndpointID))
	})
	return all[:min(len(all), j.w.cfg.Worst)]
}

// ahead puts what is true before what is not.
func ahead(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}
