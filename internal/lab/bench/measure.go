package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/bench/histogram"
	"github.com/breakwaterhq/breakwater/internal/lab/bench/usage"
)

// Latency are quantiles in milliseconds.
type Latency struct {
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
}

func latencyOf(h *histogram.Histogram) Latency {
	ms := func(q float64) float64 { return float64(h.Quantile(q)) / float64(time.Millisecond) }
	return Latency{P50: ms(0.5), P99: ms(0.99), P999: ms(0.999)}
}

// Measure is what one measurement found. An event that goes to several
// endpoints counts once per endpoint in everything that says "delivered".
type Measure struct {
	Seconds   float64 `json:"seconds"`
	Offered   float64 `json:"offered_per_second,omitzero"` // open loop only
	Accepted  float64 `json:"accepted_per_second"`
	Delivered float64 `json:"delivered_per_second"`

	Accept  Latency `json:"accept"`  // request to its answer
	Arrival Latency `json:"arrival"` // request to the arrival at the receiver

	// CPU time per delivered event, in microseconds.
	ServerCPU    float64 `json:"server_cpu_us"`
	DatabaseCPU  float64 `json:"database_cpu_us"`
	GeneratorCPU float64 `json:"generator_cpu_us"`
	// OtherCPU is the share of the machine that everybody else took.
	OtherCPU float64 `json:"other_cpu_share"`

	PeakMemory     int64   `json:"peak_memory_bytes"`     // of the server
	DatabaseMemory int64   `json:"database_memory_bytes"` // at the end
	Written        float64 `json:"written_bytes_per_event"`

	Lost    int64   `json:"lost"`
	Again   int64   `json:"duplicates"`
	Refused int64   `json:"refused"`
	Drain   float64 `json:"drain_seconds"` // last request to last arrival

	// DatabaseKnown is false when the database is not ours to look at.
	DatabaseKnown bool `json:"database_known"`
}

// snapshot is the state of everything at one moment.
type snapshot struct {
	at                time.Duration
	accepted, arrived int64
	server, database  usage.Usage
	own, busy         time.Duration
}

func (b *Bench) snapshot(st *site, l *ledger) (snapshot, error) {
	server, database, err := st.usage()
	if err != nil {
		return snapshot{}, err
	}
	busy, err := usage.Busy()
	if err != nil {
		return snapshot{}, err
	}
	own, err := ownCPU()
	if err != nil {
		return snapshot{}, err
	}
	return snapshot{
		at: b.now(), accepted: l.accepted.Load(), arrived: l.arrived.Load(), server: server, database: database,
		own: own, busy: busy,
	}, nil
}

// measure puts a load on a running subject: warm-up, window, drain.
func (b *Bench) measure(ctx context.Context, st *site, l load) (*Measure, error) {
	book := newLedger(l.row.Fanout, l.onTheWay(), b.now)
	book.last = l.events
	b.ledger.Store(book)
	if l.events > 0 {
		return b.measureAll(ctx, st, book, l)
	}
	runtime.GC() // the last measurement's garbage is not this one's
	p, err := b.publish(ctx, st, book, l)
	if err != nil {
		return nil, err
	}
	before, after, err := b.watch(ctx, st, book, l)
	if err := errors.Join(err, p.end()); err != nil {
		return nil, b.explain(st, err)
	}
	drained := b.now()
	if err := b.drain(ctx, book); err != nil {
		return nil, err
	}
	m := newMeasure(before, after)
	m.Offered = l.rate * float64(l.row.Fanout)
	m.Drain = (b.now() - drained).Seconds()
	m.note(st, book)
	return m, nil
}

// measureAll sends a given number of events, with no warm-up, and measures from
// the first request to the last arrival.
func (b *Bench) measureAll(ctx context.Context, st *site, book *ledger, l load) (*Measure, error) {
	before, err := b.snapshot(st, book)
	if err != nil {
		return nil, err
	}
	book.window(before.at, math.MaxInt64)
	p, err := b.publish(ctx, st, book, l)
	if err != nil {
		return nil, err
	}
	p.wg.Wait()
	if err := p.end(); err != nil {
		return nil, b.explain(st, err)
	}
	if err := b.drain(ctx, book); err != nil {
		return nil, err
	}
	after, err := b.snapshot(st, book)
	if err != nil {
		return nil, err
	}
	m := newMeasure(before, after)
	m.note(st, book)
	return m, nil
}

// note copies what the ledger knows.
func (m *Measure) note(st *site, book *ledger) {
	m.Accept, m.Arrival = latencyOf(&book.acceptIn), latencyOf(&book.wholly)
	m.Lost, m.Again, m.Refused = book.missing(), book.again.Load(), book.refused.Load()
	m.DatabaseKnown = st.database != nil && st.database.own != nil
}

// watch lets the load run and looks at everything before and after the window.
func (b *Bench) watch(ctx context.Context, st *site, book *ledger, l load) (before, after snapshot, err error) {
	if err := sleep(ctx, b.cfg.WarmUp); err != nil {
		return before, after, err
	}
	if before, err = b.snapshot(st, book); err != nil {
		return before, after, err
	}
	book.window(before.at, before.at+b.cfg.Duration)
	profiled := make(chan error, 1)
	if l.profile == "" {
		profiled <- nil
	} else {
		go func() { profiled <- b.profile(ctx, st, l.profile, b.cfg.Duration-b.cfg.Duration/8) }()
	}
	if err := sleep(ctx, b.cfg.Duration); err != nil {
		return before, after, err
	}
	if after, err = b.snapshot(st, book); err != nil {
		return before, after, err
	}
	return before, after, <-profiled
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain waits until everything accepted has arrived.
func (b *Bench) drain(ctx context.Context, book *ledger) error {
	const poll = 10 * time.Millisecond
	last, since := book.arrived.Load(), b.now()
	for book.missing() > 0 && b.now()-since < b.cfg.Patience {
		if err := sleep(ctx, poll); err != nil {
			return err
		}
		if n := book.arrived.Load(); n != last {
			last, since = n, b.now()
		}
	}
	return nil
}

// explain adds the subject's last words to an error.
func (b *Bench) explain(st *site, err error) error {
	for _, c := range st.nodes {
		if tail := c.logTail(); len(tail) > 0 {
			err = fmt.Errorf("%w\nits log ends with:\n%s", err, tail)
		}
	}
	return err
}

// newMeasure computes what follows from two snapshots.
func newMeasure(before, after snapshot) *Measure {
	length := after.at - before.at
	delivered := float64(after.arrived - before.arrived)
	per := func(d time.Duration) float64 {
		if delivered == 0 {
			return 0
		}
		return float64(d) / float64(time.Microsecond) / delivered
	}
	server, database, own := after.server.CPU-before.server.CPU, after.database.CPU-before.database.CPU, after.own-before.own
	m := &Measure{
		Seconds:  length.Seconds(),
		Accepted: float64(after.accepted-before.accepted) / length.Seconds(), Delivered: delivered / length.Seconds(),
		ServerCPU: per(server), DatabaseCPU: per(database), GeneratorCPU: per(own),
		PeakMemory: after.server.Peak, DatabaseMemory: after.database.Now,
	}
	others := after.busy - before.busy - server - database - own
	m.OtherCPU = max(0, float64(others)/(float64(length)*float64(runtime.NumCPU())))
	if delivered > 0 {
		written := after.server.Written - before.server.Written + after.database.Written - before.database.Written
		m.Written = float64(written) / delivered
	}
	return m
}

// String is the measurement in one line.
func (m *Measure) String() string {
	return fmt.Sprintf("%s/s delivered, %s+%s µs CPU, p99 %s ms, %d lost",
		thousands(m.Delivered), decimal(m.ServerCPU), decimal(m.DatabaseCPU), decimal(m.Arrival.P99), m.Lost)
}
