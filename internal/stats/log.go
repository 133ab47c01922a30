package stats

import (
	"encoding/binary"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Log is a Ledger that is packed as it is written. Each entry has the id of what must
// have been written for the entry to count: a statement can store the log together
// with what it writes, before anybody knows what that will be.
type Log struct {
	packed []byte
	before entry
}

// entry is where an entry stands; the log holds differences to the one before.
type entry struct {
	id    hook.ID
	owner Owner
}

// Marks stand in a log between counters, which are 2 and more there.
const (
	endOfEntry = 0
	onlyEnded  = 1
)

// Begin implements Ledger.
func (l *Log) Begin(id hook.ID, of Owner) {
	l.packed = binary.AppendVarint(l.packed, int64(id-l.before.id))
	l.packed = binary.AppendVarint(l.packed, int64(of.Tenant-l.before.owner.Tenant))
	l.packed = binary.AppendVarint(l.packed, int64(of.Endpoint-l.before.owner.Endpoint))
	l.before = entry{id, of}
}

// Tell implements Ledger.
func (l *Log) Tell(gauge Counter, v uint64) { l.Count(gauge, v+1) }

// Count implements Ledger.
func (l *Log) Count(c Counter, n uint64) {
	if n == 1 {
		l.packed = binary.AppendUvarint(l.packed, uint64(c)<<1)
		return
	}
	l.packed = binary.AppendUvarint(l.packed, uint64(c)<<1|1)
	l.packed = binary.AppendUvarint(l.packed, n)
}

// IfEnded implements Ledger.
func (l *Log) IfEnded() { l.packed = append(l.packed, onlyEnded) }

// End implements Ledger.
func (l *Log) End() { l.packed = append(l.packed, endOfEntry) }

// Packed is the log as it is stored, until it is changed.
func (l *Log) Packed() []byte { return l.packed }

// Reset empties the log.
func (l *Log) Reset() { l.packed, l.before = l.packed[:0], entry{} }

// Record is a log as it is stored.
type Record struct {
	At     time.Time
	Packed []byte
	// Written are the ids that were written, Ended those with which a delivery
	// ended; nil: all of them.
	Written, Ended map[hook.ID]bool
}

func among(ids map[hook.ID]bool, id hook.ID) bool { return ids == nil || ids[id] }

// Sums adds up logs by owner and minute.
type Sums map[ownMinute]*Counts

type ownMinute struct {
	owner  Owner
	minute int64
}

// Add adds a log; a damaged one up to the damage.
func (s Sums) Add(r *Record) error {
	minute := Minutes.Floor(r.At).Unix()
	in := reader{rest: r.Packed}
	for len(in.rest) > 0 {
		var counts *Counts // of the entry's owner
		in.entry(r, func(c Counter, n uint64) {
			if counts == nil {
				counts = s.of(in.at.owner, minute)
			}
			counts.Add(c, n)
		})
	}
	if in.damaged {
		return errPacked
	}
	return nil
}

func (s Sums) of(o Owner, minute int64) *Counts {
	k := ownMinute{o, minute}
	c := s[k]
	if c == nil {
		c = &Counts{}
		s[k] = c
	}
	return c
}

// Row is what is known of a subject's minute.
type Row struct {
	Subject Subject
	Minute  int64 // seconds
	Counts  Counts
}

// Rows returns the sums of endpoints, tenants and the system. What a gauge tells of
// an endpoint tells nothing of its tenant.
func (s Sums) Rows() []Row {
	type key struct {
		subject Subject
		minute  int64
	}
	sums := make(map[key]*Counts, len(s)+2)
	add := func(k key, c Counts) {
		sum := sums[k]
		if sum == nil {
			sum = &Counts{}
			sums[k] = sum
		}
		sum.Merge(c)
	}
	for k, c := range s {
		if k.owner.Endpoint != 0 {
			add(key{Subject{OfEndpoint, k.owner.Endpoint}, k.minute}, *c)
		}
		if k.owner.Tenant != 0 {
			add(key{Subject{OfTenant, k.owner.Tenant}, k.minute}, c.withoutGauges())
		}
		add(key{Subject{OfSystem, 0}, k.minute}, c.withoutGauges())
	}
	rows := make([]Row, 0, len(sums))
	for k, c := range sums {
		if !c.Empty() {
			rows = append(rows, Row{k.subject, k.minute, *c})
		}
	}
	return rows
}

// reader reads a log.
type reader struct {
	rest    []byte
	at      entry
	damaged bool
}

// entry reads an entry and hands over what counts of it.
func (r *reader) entry(in *Record, count func(Counter, uint64)) {
	r.at.id += hook.ID(r.varint())
	r.at.owner.Tenant += hook.ID(r.varint())
	r.at.owner.Endpoint += hook.ID(r.varint())
	valid := among(in.Written, r.at.id)
	for {
		mark := r.uvarint()
		switch {
		case r.damaged || mark == endOfEntry:
			return
		case mark == onlyEnded:
			valid = valid && among(in.Ended, r.at.id)
			continue
		}
		n := uint64(1)
		if mark&1 == 1 {
			n = r.uvarint()
		}
		if mark>>1 > maxCounter {
			r.advance(0)
		}
		if valid && !r.damaged {
			count(Counter(mark>>1), n)
		}
	}
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.advance(n)
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.advance(n)
	return v
}

func (r *reader) advance(n int) {
	if n <= 0 {
		r.damaged, r.rest = true, nil
		return
	}
	r.rest = r.rest[n:]
}
