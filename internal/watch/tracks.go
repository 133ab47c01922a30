package watch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// tracks counts what happens on the lanes of this node. Event loops write it,
// one round every 15 s reads it. It is cut into pieces with a mutex each, so
// that loops rarely meet.
type tracks struct {
	origin time.Time // buckets count from here
	// bucket is the one that is being filled. Whoever tells of an attempt reads
	// it instead of the clock, which costs more than everything else here.
	bucket atomic.Int64
	pieces [trackPieces]trackPiece
}

const (
	trackBits   = 5
	trackPieces = 1 << trackBits
)

type trackPiece struct {
	mu    sync.Mutex
	lanes map[hook.ID]*track
	_     [48]byte // the next one's mutex is on another cache line
}

// track is one endpoint.
type track struct {
	tenant   hook.ID
	window   Window
	open     bool
	openedAt time.Time // when it last opened on this node
	notices  notices
	news     map[hook.OperationalType]*laneNews // nil: nothing to tell lately
}

// noticesPerMinute bounds the breaker events of one endpoint: one that flaps
// must not flood the log.
const noticesPerMinute = 4

// notices counts the breaker events of an endpoint in the current minute.
type notices struct {
	minute     int64
	count      int
	suppressed int // since the last one that was told
}

// allow reports whether one more may be told, and how many were not.
func (n *notices) allow(minute int64) (ok bool, suppressed int) {
	if n.minute != minute {
		n.minute, n.count = minute, 0
	}
	n.count++
	if n.count > noticesPerMinute {
		n.suppressed++
		return false, 0
	}
	suppressed, n.suppressed = n.suppressed, 0
	return true, suppressed
}

func newTracks(origin time.Time) *tracks {
	t := &tracks{origin: origin}
	for i := range t.pieces {
		t.pieces[i].lanes = make(map[hook.ID]*track)
	}
	return t
}

// bucketAt numbers the bucket of a moment. It counts on the monotonic clock: a
// clock that is set back must not bring old attempts back.
func (t *tracks) bucketAt(now time.Time) int64 { return int64(now.Sub(t.origin) / BucketWidth) }

// turn begins the bucket of now and returns when the next one begins.
func (t *tracks) turn(now time.Time) (next time.Time) {
	b := t.bucketAt(now)
	t.bucket.Store(b)
	return t.boundary(b + 1)
}

// boundary is the moment at which a bucket begins, on the monotonic clock.
func (t *tracks) boundary(b int64) time.Time { return t.origin.Add(time.Duration(b) * BucketWidth) }

// wall is the same moment by the clock on the wall as it shows now. That one may
// have been set, or have run on while the machine slept, and it is what people
// and other nodes compare with. Whole seconds keep the rounds at equal distances
// although the two clocks drift.
func (t *tracks) wall(b int64) time.Time {
	now := time.Now()
	return now.Round(0).Add(-now.Sub(t.boundary(b))).Round(time.Second).UTC()
}

// piece spreads endpoints by a multiplicative hash: their ids are drawn in
// sequence.
func (t *tracks) piece(endpoint hook.ID) *trackPiece {
	return &t.pieces[uint64(endpoint)*0x9e3779b97f4a7c15>>(64-trackBits)]
}

// lane returns the track of an endpoint. The caller has the piece's mutex.
func (p *trackPiece) lane(tenant, endpoint hook.ID) *track {
	t := p.lanes[endpoint]
	if t == nil {
		t = &track{tenant: tenant}
		p.lanes[endpoint] = t
	}
	return t
}

// count adds one attempt.
func (t *tracks) count(tenant, endpoint hook.ID, retry bool) {
	p := t.piece(endpoint)
	p.mu.Lock()
	p.lane(tenant, endpoint).window.Add(t.bucket.Load(), retry)
	p.mu.Unlock()
}

// open notes that a lane is open; opened tells that it opened just now.
func (t *tracks) open(tenant, endpoint hook.ID, opened bool) (tell bool, suppressed int) {
	now := time.Now()
	p := t.piece(endpoint)
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lane(tenant, endpoint)
	l.open = true
	if !opened {
		return false, 0
	}
	l.openedAt = now
	return l.notices.allow(now.Unix() / 60)
}

// closed notes that a lane closed. It tells nothing of one that was not known
// to be open.
func (t *tracks) closed(endpoint hook.ID) (wasOpen, tell bool, suppressed int) {
	p := t.piece(endpoint)
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lanes[endpoint]
	if l == nil || !l.open {
		return false, false, 0
	}
	l.open = false
	tell, suppressed = l.notices.allow(time.Now().Unix() / 60)
	return true, tell, suppressed
}

// left notes that a lane is no longer in memory. Its window stays: a lane may
// leave because it has been idle for 5 minutes, and its last 15 still count.
func (t *tracks) left(endpoint hook.ID) {
	p := t.piece(endpoint)
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lanes[endpoint]; l != nil {
		l.open = false
	}
}

// seen is what a round sees of a lane that retries or is open.
type seen struct {
	endpoint, tenant hook.ID
	counts           Counts
	open             bool
}

// sweep is what a round sees of all lanes.
type sweep struct {
	lanes    []seen // that retry or are open
	traffic  int64  // lanes with attempts, or open
	open     int64
	opened   int64 // within openedSpan
	maxRatio float64
	dead     []lateNews // that were not told when they happened
}

const (
	// openedSpan is "at the same time" for breakers.
	openedSpan = 5 * time.Minute
	// ratioLeast is how many attempts a lane needs for its ratio to count in
	// the greatest one: one retry of one event is no news.
	ratioLeast = 20
)

// sweep looks at all lanes at a boundary, and forgets those of other nodes and
// those that nothing has happened on for 15 minutes.
func (t *tracks) sweep(b int64, owns func(shard int) bool) sweep {
	var s sweep
	since := t.boundary(b).Add(-openedSpan)
	for i := range t.pieces {
		p := &t.pieces[i]
		p.mu.Lock()
		for id, l := range p.lanes {
			leaves := !owns(hook.ShardOf(id))
			s.dead = l.lateNews(s.dead, id, t.boundary(b), leaves)
			idle := !l.open && !l.openedAt.After(since) && l.window.Empty(b)
			switch {
			case leaves || idle && l.news == nil:
				delete(p.lanes, id)
			case !idle:
				s.add(id, l, b, since)
			}
		}
		p.mu.Unlock()
	}
	return s
}

func (s *sweep) add(id hook.ID, l *track, b int64, since time.Time) {
	c := l.window.Counts(b)
	s.traffic++
	if l.open {
		s.open++
	}
	if l.openedAt.After(since) {
		s.opened++
	}
	if c.First+c.Retries >= ratioLeast {
		s.maxRatio = max(s.maxRatio, hook.Storm{First: c.First, Retries: c.Retries}.Ratio())
	}
	if c.Retries > 0 || l.open {
		s.lanes = append(s.lanes, seen{id, l.tenant, c, l.open})
	}
}
