package stats

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Level is what figures are about.
type Level uint8

// The numbers of levels are stored.
const (
	OfSystem   Level = 0
	OfTenant   Level = 1
	OfEndpoint Level = 2
)

// Subject is an endpoint, a tenant, or the system, whose ID is 0.
type Subject struct {
	Level Level
	ID    hook.ID
}

// Row is what is stored of a subject's minute: everything that the writer has
// counted in it, so that writing it twice does no harm.
type Row struct {
	Subject Subject
	Minute  time.Time
	Counts  Counts
}

// Ledger knows what a writer has counted in the running minute. It hands out rows
// that hold all of it, each time anew: a commit that is tried again writes the
// same rows, and one that fails has counted nothing.
//
// A ledger has one writer, whose rows are its own: another one, of another node
// or of the process before, has rows beside them, and readers add them up.
type Ledger struct {
	minute time.Time
	counts map[Subject]Counts
}

// NewLedger returns a ledger that has counted nothing.
func NewLedger() *Ledger { return &Ledger{counts: make(map[Subject]Counts)} }

// Draft is what one commit counts.
type Draft struct {
	minute time.Time
	counts map[Subject]*Counts
}

// Draft begins to count for a commit at now. Minutes never go back, whatever the
// clock does: what is known of a minute must not be written over by less.
func (l *Ledger) Draft(now time.Time) *Draft {
	minute := now.Truncate(time.Minute)
	if minute.Before(l.minute) {
		minute = l.minute
	}
	return &Draft{minute: minute, counts: make(map[Subject]*Counts)}
}

// Tally counts for an endpoint, its tenant and the system.
type Tally struct{ endpoint, tenant, system *Counts }

// Of returns what counts for an endpoint of a tenant; an endpoint of 0 is none.
func (d *Draft) Of(tenant, endpoint hook.ID) Tally {
	t := Tally{tenant: d.of(Subject{OfTenant, tenant}), system: d.of(Subject{OfSystem, 0})}
	if endpoint != 0 {
		t.endpoint = d.of(Subject{OfEndpoint, endpoint})
	}
	return t
}

// Add counts.
func (t Tally) Add(counter Counter, n uint64) {
	if t.endpoint != nil {
		t.endpoint.Add(counter, n)
	}
	t.tenant.Add(counter, n)
	t.system.Add(counter, n)
}

func (d *Draft) of(s Subject) *Counts {
	c := d.counts[s]
	if c == nil {
		c = &Counts{}
		d.counts[s] = c
	}
	return c
}

// Rows are what to store with the commit.
func (l *Ledger) Rows(d *Draft) []Row {
	rows := make([]Row, 0, len(d.counts))
	for s, c := range d.counts {
		if c.Empty() {
			continue
		}
		row := Row{Subject: s, Minute: d.minute}
		if d.minute.Equal(l.minute) {
			before := l.counts[s]
			row.Counts = before.Clone()
		}
		row.Counts.Merge(*c)
		rows = append(rows, row)
	}
	return rows
}

// Committed takes over rows that are stored.
func (l *Ledger) Committed(rows []Row) {
	for _, r := range rows {
		if r.Minute.After(l.minute) {
			l.minute = r.Minute
			clear(l.counts)
		}
		l.counts[r.Subject] = r.Counts
	}
}
