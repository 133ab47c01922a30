// Package bench measures the product on this machine against a bare relay: the
// same requests, the same HTTP code, no storage. Every subject runs as a
// process of its own, so that its CPU time, memory and bytes written are the
// kernel's figures; publishers and receiver are in this process and as lean as
// possible. Subjects take turns, so that a change of the machine's mood hits
// all of them, and every figure is a median over the rounds with its spread.
//
// An event counts when it has arrived at the receiver. After each measurement
// everything that was accepted has to arrive; what does not is reported as lost.
//
// It tunes nothing: the product runs with its default settings, with --dev for
// destinations on this machine. It needs Linux, whose /proc it reads.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/bench/wire"
)

// Config says what is measured, and how long.
type Config struct {
	// Program runs Breakwater, with arguments of this package added. Empty: the
	// program that is running.
	Program []string
	Environ []string // of the subjects; what configures Breakwater is left out

	Dir         string // where data is kept while measuring; empty: the system's temporary folder
	DatabaseURL string // a Postgres to use; empty: a temporary one

	Subjects []Subject // empty: all
	// Settings are flags of the server. Where there are some, each store is measured
	// without and with them, in turns.
	Settings []string
	Rows     []Row // empty: DefaultRows
	Rounds   int   // 0: 3

	WarmUp   time.Duration // 0: 2 s
	Duration time.Duration // of one measurement; 0: 8 s
	Groups   int           // endpoints that events are spread over; 0: 8

	// Patience is how long a drain may go without an arrival before the rest
	// counts as lost; 0: 20 s, longer than the lane of a healthy endpoint pauses.
	Patience time.Duration

	ProfileDir string // for CPU profiles of the subjects; empty: none
	Version    string // of the product, for the report

	// Told is called before and after each measurement, and during long
	// preparations from another goroutine. May be nil.
	Told func(Step)
}

// Step is how far a benchmark has come.
type Step struct {
	Done, Total int
	Round       int // from 1
	What        string
	Subject     Subject
	Measure     *Measure // nil while it runs
	// Doing is set, and nothing else, while something long is prepared.
	Doing string
}

// Bench is one run of the benchmark.
type Bench struct {
	cfg      Config
	epoch    time.Time // all stamps count from here, on the monotonic clock
	place    *place
	receiver *wire.Receiver
	ledger   atomic.Pointer[ledger] // of the measurement that is running
	postgres *database              // nil: not wanted, or skipped
	skipped  []Skip
}

// Skip is a subject that was not measured.
type Skip struct {
	Subject Subject `json:"subject"`
	Reason  string  `json:"reason"`
}

// New checks cfg, fills in defaults, and starts nothing.
func New(cfg Config) (*Bench, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("the benchmark reads CPU time, memory and bytes written from /proc, which %s does not have", runtime.GOOS)
	}
	if len(cfg.Program) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find own program: %w", err)
		}
		cfg.Program = []string{self}
	}
	cfg.Dir = cmp.Or(cfg.Dir, os.TempDir())
	cfg.Rounds = cmp.Or(cfg.Rounds, 3)
	cfg.WarmUp = cmp.Or(cfg.WarmUp, 2*time.Second)
	cfg.Duration = cmp.Or(cfg.Duration, 8*time.Second)
	cfg.Patience = cmp.Or(cfg.Patience, 20*time.Second)
	cfg.Groups = cmp.Or(cfg.Groups, 8)
	if len(cfg.Subjects) == 0 {
		cfg.Subjects = Subjects()
	}
	if len(cfg.Settings) > 0 {
		cfg.Subjects = withTwins(cfg.Subjects)
	}
	if len(cfg.Rows) == 0 {
		cfg.Rows = DefaultRows()
	}
	if cfg.Told == nil {
		cfg.Told = func(Step) {}
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Bench{cfg: cfg, epoch: time.Now()}, nil
}

func (cfg *Config) check() error {
	switch {
	case cfg.Rounds < 1 || cfg.Rounds > 100:
		return errors.New("rounds must be 1 to 100")
	case cfg.Duration < 100*time.Millisecond || cfg.WarmUp < 0:
		return errors.New("duration must be at least 100ms, and the warm-up not negative")
	case cfg.Groups < 1 || cfg.Groups > maxGroups:
		return fmt.Errorf("endpoints must be 1 to %d", maxGroups)
	}
	for i := range cfg.Rows {
		if err := cfg.Rows[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// open prepares what all measurements share. undo is never nil, and returns
// when nothing of it is left.
func (b *Bench) open(ctx context.Context) (undo func(), err error) {
	// The generator must not spend the subjects' CPU on its own garbage.
	percent := debug.SetGCPercent(400)
	undo = func() { debug.SetGCPercent(percent) }
	if b.place, err = newPlace(&b.cfg); err != nil {
		return undo, err
	}
	restore, served := undo, make(chan struct{})
	undo = func() {
		if b.receiver != nil {
			b.receiver.Close()
			<-served
		}
		if b.postgres != nil {
			b.postgres.close()
		}
		b.place.close()
		restore()
	}
	if b.receiver, err = wire.Listen(ctx, b.arrived); err != nil {
		return undo, err
	}
	go func() {
		defer close(served)
		_ = b.receiver.Serve() // a receiver that fails shows as events lost
	}()
	if slices.Contains(b.cfg.Subjects, Postgres) {
		if err := b.openPostgres(); err != nil {
			return undo, err
		}
	}
	if len(b.cfg.Subjects) == 0 {
		return undo, fmt.Errorf("there is nothing to measure%s", b.skippedText())
	}
	return undo, nil
}

func (b *Bench) skippedText() string {
	var text strings.Builder
	for _, s := range b.skipped {
		fmt.Fprintf(&text, "; %s: %s", s.Subject, s.Reason)
	}
	return text.String()
}

// openPostgres finds a server. Without one the subject is skipped, and the
// report says so.
func (b *Bench) openPostgres() error {
	db, err := openDatabase(b.place.dir, b.cfg.DatabaseURL)
	if err != nil && b.cfg.DatabaseURL != "" {
		return err
	}
	if err != nil {
		b.skip(Postgres, err.Error())
		return nil
	}
	b.postgres = db
	return nil
}

func (b *Bench) skip(s Subject, reason string) {
	b.skipped = append(b.skipped, Skip{s, reason})
	b.cfg.Subjects = slices.DeleteFunc(slices.Clone(b.cfg.Subjects), func(x Subject) bool { return x.store() == s })
}

// preparing tells how far a preparation has come, until it is stopped.
func (b *Bench) preparing(text func() string) (stop func()) {
	ticker, done := time.NewTicker(5*time.Second), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				b.cfg.Told(Step{Doing: text()})
			}
		}
	})
	return func() {
		ticker.Stop()
		close(done)
		wg.Wait()
	}
}

// now is the time that stamps are made of.
func (b *Bench) now() time.Duration { return time.Since(b.epoch) }

// Run measures every row with every subject, in turns, and reports.
func (b *Bench) Run(ctx context.Context) (*Report, error) {
	undo, err := b.open(ctx)
	defer undo()
	if err != nil {
		return nil, err
	}
	report, err := b.newReport("comparison")
	if err != nil {
		return nil, err
	}
	rows := withBases(b.cfg.Rows)
	total, done := b.cfg.Rounds*b.measurements(rows), 0
	for round := range b.cfg.Rounds {
		peak := make(map[Subject]float64) // of this round
		for i := range rows {
			for _, s := range b.cfg.Subjects {
				if !s.takesPart(&rows[i]) {
					continue
				}
				step := Step{Done: done, Total: total, Round: round + 1, What: rows[i].Name, Subject: s}
				m, err := b.measureRow(ctx, s, rows[i], peak[s], step)
				if err != nil {
					return nil, fmt.Errorf("measure %s in row %s: %w", s, rows[i].Name, err)
				}
				if rows[i].Name == Base {
					peak[s] = m.Delivered
				}
				report.add(&rows[i], s, m)
				done++
			}
		}
	}
	report.conclude(time.Now())
	return report, nil
}

// measurements counts those of one round.
func (b *Bench) measurements(rows []Row) (n int) {
	for i := range rows {
		for _, s := range b.cfg.Subjects {
			if s.takesPart(&rows[i]) {
				n++
			}
		}
	}
	return n
}

// measureRow starts a fresh subject, measures it once and ends it. peak is what
// it delivered at most, for rows that ask for a share of it.
func (b *Bench) measureRow(ctx context.Context, s Subject, row Row, peak float64, step Step) (*Measure, error) {
	b.cfg.Told(step)
	site, err := b.start(ctx, s, &row)
	if err != nil {
		return nil, err
	}
	defer site.close()
	l := load{row: row, rate: row.Share * peak, group: anyGroup}
	if b.cfg.ProfileDir != "" {
		l.profile = fmt.Sprintf("%s-%s-%d.pprof", row.Name, s, step.Round)
	}
	m, err := b.measure(ctx, site, l)
	if err != nil {
		return nil, err
	}
	step.Done++
	step.Measure = m
	b.cfg.Told(step)
	return m, nil
}
