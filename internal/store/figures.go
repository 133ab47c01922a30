package store

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

// Ledger is what one writer has counted. Its rows in the store are its own: its
// number is new with every process.
type Ledger struct {
	Writer hook.ID
	counts *stats.Ledger
}

// NewLedger returns the ledger of a writer that has stored nothing yet.
func NewLedger(writer hook.ID) *Ledger { return &Ledger{writer, stats.NewLedger()} }

// earlierRun is what an earlier run of a batch, whose outcome is not known, wanted
// to store. Halves of a batch share it.
type earlierRun struct {
	rows  []stats.Row
	known bool // what became of it
}

// Figures returns the figures to store with the batch. Commit asks for them when
// all outcomes are set, and stores them in the same transaction. repeated tells
// that the run found what an earlier run of the batch has stored: then that one's
// figures are stored, too.
func (b *Batch) Figures(repeated bool) []stats.Row {
	if b.Ledger == nil {
		return nil
	}
	if e := b.earlier; e != nil && repeated && !e.known {
		b.Ledger.counts.Committed(e.rows)
		e.known = true
	}
	d := b.Ledger.counts.Draft(b.Now)
	for _, a := range b.Accepts {
		if a.Written {
			a.count(d)
		}
	}
	for _, s := range b.Settles {
		if s.Written {
			s.count(d)
		}
	}
	b.earlier = &earlierRun{rows: b.Ledger.counts.Rows(d)}
	return b.earlier.rows
}

// Counted takes over the figures of a batch that is stored.
func (b *Batch) Counted() {
	if b.Ledger != nil && b.earlier != nil {
		b.Ledger.counts.Committed(b.earlier.rows)
		b.earlier = nil
	}
}

func (a *Accept) count(d *stats.Draft) {
	d.Of(a.Event.TenantID, 0).Add(stats.Events, 1)
	for i := range a.Deliveries {
		d.Of(a.Event.TenantID, a.Deliveries[i].EndpointID).Add(stats.Accepted, 1)
	}
}

func (s *Settle) count(d *stats.Draft) {
	v, a := &s.Delivery, s.Attempt
	add := d.Of(v.TenantID, v.EndpointID).Add
	if a != nil {
		add(stats.Attempts(a.Kind), 1)
		add(stats.AttemptTook(a.Latency), 1)
		if a.Number == 2 {
			add(stats.SecondTries, 1)
		}
		if a.Class != hook.Success {
			add(stats.Failed(a.Reason), 1)
			if a.Kind == hook.First {
				add(stats.FailedFirst, 1)
			}
		}
	}
	if !s.Ended {
		return
	}
	switch v.State {
	case hook.Delivered:
		add(stats.Delivered(v.Attempts), 1)
		add(stats.TriesOfDelivered, uint64(max(v.Attempts, 1)))
		add(stats.DeliveryTook(v.SettledAt.Sub(v.Progress.RunDueAt)), 1)
	case hook.Dead:
		add(stats.Dead(v.Reason), 1)
	case hook.Cancelled:
		add(stats.Cancelled, 1)
	case hook.Pending:
	}
}

// StatsReader reads figures.
type StatsReader interface {
	// Stats returns the figures of a subject between two moments: days, hours and
	// minutes, as they are kept. A piece that has begun before belongs to it, and it
	// may come in parts.
	Stats(ctx context.Context, s stats.Subject, from, to time.Time) ([]stats.Point, error)
}

// StatsKeeper keeps figures from growing for ever.
type StatsKeeper interface {
	// RollUp makes coarser pieces of those that are over at a moment, of at most
	// limit rows, and returns how many it took. All that was counted in them must be
	// stored by then.
	RollUp(ctx context.Context, from stats.Step, before time.Time, limit int) (int, error)
	// DropStats removes pieces that began before a moment, at most limit, and
	// returns how many it removed.
	DropStats(ctx context.Context, step stats.Step, before time.Time, limit int) (int, error)
}
