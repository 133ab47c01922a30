package sink

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Counts is what a sink has seen so far.
type Counts struct {
	Requests      int64 `json:"requests"`
	OK            int64 `json:"ok"`
	Failed        int64 `json:"failed"` // answered otherwise, or reset
	Duplicates    int64 `json:"duplicates"`
	BadSignatures int64 `json:"bad_signatures"`
	Unsigned      int64 `json:"unsigned"`
	Throttled     int64 `json:"throttled"`
	BrokenHolds   int64 `json:"broken_holds"` // came before a Retry-After had passed
	Crashes       int64 `json:"crashes"`
	InFlight      int64 `json:"in_flight"`
	MaxInFlight   int64 `json:"max_in_flight"`
}

func (c Counts) answered() int64 { return c.OK + c.Failed }

// counters are the live Counts.
type counters struct {
	requests, ok, failed, duplicates, badSignatures, unsigned, throttled, brokenHolds, crashes atomic.Int64

	inFlight gauge
}

func (c *counters) snapshot() Counts {
	return Counts{
		Requests: c.requests.Load(), OK: c.ok.Load(), Failed: c.failed.Load(), Duplicates: c.duplicates.Load(),
		BadSignatures: c.badSignatures.Load(), Unsigned: c.unsigned.Load(), Throttled: c.throttled.Load(),
		BrokenHolds: c.brokenHolds.Load(), Crashes: c.crashes.Load(), InFlight: c.inFlight.now.Load(), MaxInFlight: c.inFlight.peak.Load(),
	}
}

func (c *counters) reset() {
	for _, n := range []*atomic.Int64{
		&c.requests, &c.ok, &c.failed, &c.duplicates, &c.badSignatures, &c.unsigned, &c.throttled, &c.brokenHolds, &c.crashes,
	} {
		n.Store(0)
	}
	c.inFlight.peak.Store(c.inFlight.now.Load())
}

// gauge is a number that goes up and down, and its peak.
type gauge struct{ now, peak atomic.Int64 }

func (g *gauge) enter() int64 {
	n := g.now.Add(1)
	for {
		peak := g.peak.Load()
		if n <= peak || g.peak.CompareAndSwap(peak, n) {
			return n
		}
	}
}

func (g *gauge) leave() { g.now.Add(-1) }

// PathCount is what one path has seen.
type PathCount struct {
	Requests    int64 `json:"requests"`
	OK          int64 `json:"ok"`
	Failed      int64 `json:"failed"`
	Duplicates  int64 `json:"duplicates"`
	InFlight    int64 `json:"in_flight"`
	MaxInFlight int64 `json:"max_in_flight"`
}

type pathCount struct {
	requests, ok, failed, duplicates atomic.Int64

	inFlight gauge
	hold     hold
}

func (p *pathCount) snapshot() PathCount {
	return PathCount{
		Requests: p.requests.Load(), OK: p.ok.Load(), Failed: p.failed.Load(), Duplicates: p.duplicates.Load(),
		InFlight: p.inFlight.now.Load(), MaxInFlight: p.inFlight.peak.Load(),
	}
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
