package stats

import "github.com/breakwaterhq/breakwater/internal/hook"

// Ledger takes down what a commit counts: an entry for each event and each result.
type Ledger interface {
	// Begin begins the entry of what has this id.
	Begin(id hook.ID, of Owner)
	// Count adds to a counter.
	Count(c Counter, n uint64)
	// Tell tells the value of a gauge.
	Tell(gauge Counter, v uint64)
	// IfEnded makes what is counted next count only if the delivery has ended.
	IfEnded()
	// End ends the entry.
	End()
}

// Tally is a Ledger that adds up at once, by owner: it is for what was written, and
// whose deliveries have ended. It packs into far less than a Log of the same entries.
type Tally struct {
	place  map[Owner]int // in counts
	counts []ownCounts
	at     int
	log    Log
}

type ownCounts struct {
	owner  Owner
	counts Counts
}

// Begin implements Ledger.
func (t *Tally) Begin(_ hook.ID, of Owner) {
	if t.at < len(t.counts) && t.counts[t.at].owner == of {
		return
	}
	at, found := t.place[of]
	if !found {
		if t.place == nil {
			t.place = make(map[Owner]int)
		}
		at = len(t.counts)
		t.place[of] = at
		if at < cap(t.counts) { // with the memory of what stood there
			t.counts = t.counts[:at+1]
			t.counts[at].owner = of
		} else {
			t.counts = append(t.counts, ownCounts{owner: of})
		}
	}
	t.at = at
}

// Count implements Ledger.
func (t *Tally) Count(c Counter, n uint64) { t.counts[t.at].counts.Add(c, n) }

// Tell implements Ledger.
func (t *Tally) Tell(gauge Counter, v uint64) { t.Count(gauge, v+1) }

// IfEnded implements Ledger.
func (t *Tally) IfEnded() {}

// End implements Ledger.
func (t *Tally) End() {}

// Packed is what was counted as a log with an entry for each owner, until the tally
// is changed.
func (t *Tally) Packed() []byte {
	t.log.Reset()
	for i := range t.counts {
		c := &t.counts[i]
		t.log.Begin(0, c.owner)
		for _, e := range c.counts.cells {
			t.log.Count(e.counter, e.n)
		}
		t.log.End()
	}
	return t.log.Packed()
}

// mostKept is how many owners a tally keeps memory for.
const mostKept = 1024

// Reset empties the tally.
func (t *Tally) Reset() {
	if len(t.counts) > mostKept {
		*t = Tally{}
		return
	}
	for i := range t.counts {
		t.counts[i].counts.cells = t.counts[i].counts.cells[:0]
	}
	clear(t.place)
	t.counts, t.at = t.counts[:0], 0
}
