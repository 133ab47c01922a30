package sink

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Tally is what came to a sink, or to one of its paths.
type Tally struct {
	Requests     int64 `json:"requests"`
	MaxPerSecond int64 `json:"max_per_second"` // most requests within any one second
	OK           int64 `json:"ok"`
	Failed       int64 `json:"failed"` // answered otherwise, or reset
	WhileDown    int64 `json:"while_down"`
	Refused      int64 `json:"refused"`
	Throttled    int64 `json:"throttled"`
	BrokenHolds  int64 `json:"broken_holds"` // came before a Retry-After had passed
	Duplicates   int64 `json:"duplicates"`
	InFlight     int64 `json:"in_flight"`
	MaxInFlight  int64 `json:"max_in_flight"`
}

func (t *Tally) answered() int64 { return t.OK + t.Failed }

// Counts is what a sink has seen so far.
type Counts struct {
	Tally

	BadSignatures int64 `json:"bad_signatures"`
	Unsigned      int64 `json:"unsigned"`
	Crashes       int64 `json:"crashes"`
}

// meter is a live Tally.
type meter struct {
	Tally

	arrivals window
}

func (m *meter) arrive(now time.Time) {
	m.Requests++
	m.MaxPerSecond = max(m.MaxPerSecond, int64(m.arrivals.add(now)))
	m.InFlight++
	m.MaxInFlight = max(m.MaxInFlight, m.InFlight)
}

func (m *meter) leave(a answer, duplicate bool) {
	m.InFlight--
	if a.status/100 == 2 {
		m.OK++
	} else {
		m.Failed++
	}
	if duplicate {
		m.Duplicates++
	}
	switch a.cause {
	case causeDown:
		m.WhileDown++
	case causeRefused:
		m.Refused++
	case causeThrottled:
		m.Throttled++
	case causeServed, causeFailing:
	}
}

// reset starts the counts again. Who is in flight stays.
func (m *meter) reset() {
	m.Tally = Tally{InFlight: m.InFlight, MaxInFlight: m.InFlight}
	m.arrivals = window{}
}

// pathMeter is what one path has seen, and the silence it has asked for.
type pathMeter struct {
	meter

	hold hold
}

const idShards = 64

// idSet remembers which ids a path has answered with 2xx. It forgets the
// oldest half when it is full, so its memory is bounded; a duplicate of a
// forgotten id counts as new. Ids are kept as 64-bit hashes: among a million of
// them the chance of one false duplicate is about one in forty million.
type idSet struct {
	seed   maphash.Seed
	half   int // ids of one generation of one shard
	total  atomic.Int64
	shards [idShards]idShard
}

type idShard struct {
	mu       sync.Mutex
	new, old map[uint64]struct{}
}

func newIDSet(maxIDs int) *idSet {
	return &idSet{seed: maphash.MakeSeed(), half: max(maxIDs/idShards/2, 1)}
}

// add marks id for path and reports whether it was marked already.
func (s *idSet) add(path, id string) (again bool) {
	var h maphash.Hash
	h.SetSeed(s.seed)
	h.WriteString(path)
	h.WriteByte(0)
	h.WriteString(id)
	key := h.Sum64()
	shard := &s.shards[key%idShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if _, ok := shard.new[key]; ok {
		return true
	}
	if _, ok := shard.old[key]; ok {
		return true
	}
	if shard.new == nil || len(shard.new) >= s.half {
		shard.old, shard.new = shard.new, map[uint64]struct{}{}
	}
	shard.new[key] = struct{}{}
	s.total.Add(1)
	return false
}

// unique is the number of different ids answered with 2xx, per path.
func (s *idSet) unique() int64 { return s.total.Load() }

func (s *idSet) reset() {
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mu.Lock()
		shard.new, shard.old = nil, nil
		shard.mu.Unlock()
	}
	s.total.Store(0)
}
