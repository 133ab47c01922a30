package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// WriterConfig configures a Writer. Zero fields mean the defaults given.
type WriterConfig struct {
	DB       Committer
	Node     hook.ID
	MaxBatch int // of accepts and of settles per commit; 256
	// MaxCommit bounds what the accepts of one commit write; 2048 rows, 16 MiB.
	// An event with more deliveries has a commit of its own.
	MaxCommit Load
	MaxQueue  Load // that may wait; 65536 rows, 256 MiB
	// Gather is the least time between the starts of two commits when several
	// publishers or attempts share them; 4ms. When very many do and Local is set,
	// it is twice the time that a commit takes, up to GatherMost; 10ms.
	Gather, GatherMost time.Duration
	Local              bool // commits take the processor that everybody else wants
	// SettleWait is how long results, for which nobody waits, are kept back so
	// that several share a commit, unless SettleMany wait; 0: not at all, and 16.
	SettleWait time.Duration
	SettleMany int
	// Patience is how long a publisher waits for an answer; 20s.
	Patience time.Duration
	// Uncounted: no figures are kept.
	Uncounted bool
	// Committed is called after every commit, in commit order, before anybody
	// who waits for the batch hears of it. It must not block.
	Committed func(*Batch)
	// Timed is told how many rows each commit had and how long it took, those
	// that failed included; nil: nobody is. It must not block.
	Timed func(rows int, took time.Duration)
	Log   *slog.Logger
}

// Writer is the one path by which accepts, settles and lane checkpoints reach
// the store. It commits what queued up while the last commit ran: the slower
// the disk, the larger the batch. On a fast disk it waits a little for more.
type Writer struct {
	cfg WriterConfig

	mu      sync.Mutex
	accepts acceptQueue
	waiting []*ticket // in the order they came; those that have ended leave now and then
	settles []*Settle
	lanes   map[hook.ID]queuedSave
	queued  int64     // settles that ever joined the queue ...
	taken   int64     // ... and those of them that left it
	waits   time.Time // since when settles or checkpoints wait
	closed  bool
	failed  error // set once the store is lost for good
	// Of the latest commit: when it began and how many rows it had. load is how
	// many rows come within Gather and took how long commits take, smoothed. They
	// belong to Run's goroutine.
	began  time.Time
	shared int
	load   float64
	took   time.Duration

	pulse pulse // under mu

	wake chan struct{} // capacity 1
}

// queuedSave is a checkpoint that may be committed once so many settles have
// been taken: it never overtakes the result that led to it.
type queuedSave struct {
	*LaneSave
	after int64
}

const (
	// alone is how many rows a lone publisher causes at a time: an event and
	// the result of the one before.
	alone = 2
	// many is how many rows within Gather make it worth to wait longer: the
	// machine is busy, and so is everybody who waits.
	many = 72
)

// retry bounds of a commit whose outcome is unknown.
const (
	rerunFirst    = 50 * time.Millisecond
	rerunMax      = time.Second
	fullPause     = time.Second
	commitTimeout = 15 * time.Second
)

// NewWriter checks cfg and fills in defaults. It starts nothing.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	if cfg.DB == nil || cfg.Committed == nil || cfg.Log == nil {
		return nil, errors.New("store writer: DB, Committed and Log are required")
	}
	cfg.MaxBatch = cmp.Or(cfg.MaxBatch, 256)
	cfg.MaxCommit = cfg.MaxCommit.or(Load{Rows: 2048, Bytes: 16 << 20})
	cfg.MaxQueue = cfg.MaxQueue.or(Load{Rows: 65536, Bytes: 256 << 20})
	cfg.Gather = cmp.Or(cfg.Gather, 4*time.Millisecond)
	cfg.GatherMost = cmp.Or(cfg.GatherMost, 10*time.Millisecond)
	cfg.SettleMany = cmp.Or(cfg.SettleMany, 16)
	cfg.Patience = cmp.Or(cfg.Patience, 20*time.Second)
	return &Writer{
		cfg:     cfg,
		accepts: newAcceptQueue(cfg.MaxQueue),
		lanes:   make(map[hook.ID]queuedSave),
		wake:    make(chan struct{}, 1),
	}, nil
}

// Settle queues the result of an attempt and, when the lane changed with it,
// the lane's checkpoint; both are committed together. It never blocks: what is
// unsettled is bounded by the dispatcher's slots. save may be nil.
func (w *Writer) Settle(s *Settle, save *LaneSave) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.settles)+len(w.lanes) == 0 {
		w.waits = time.Now()
	}
	if s != nil {
		w.settles = append(w.settles, s)
		w.queued++
	}
	if save != nil {
		w.keep(save, w.queued)
	}
	w.signal()
}

// keep queues the newest checkpoint of a lane. It takes the place of an older
// one, so that a lane that changes all the time is saved all the same.
func (w *Writer) keep(save *LaneSave, after int64) {
	if older, ok := w.lanes[save.Endpoint]; ok {
		after = min(after, older.after)
	}
	w.lanes[save.Endpoint] = queuedSave{save, after}
}

func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run commits until ctx ends, then commits what is still queued and returns.
// It returns an error only when the store is lost for good.
func (w *Writer) Run(ctx context.Context) error {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { w.watch(watching) })
	defer watch.Wait()
	defer stop()
	later := time.NewTimer(0)
	defer later.Stop()
	for {
		select {
		case <-w.wake:
		case <-later.C:
		case <-ctx.Done():
			return w.finish()
		}
		for w.due() {
			w.gather()
			if err := w.commitNext(ctx); err != nil {
				return w.fail(err)
			}
			if err := w.tidy(ctx); err != nil {
				return w.fail(err)
			}
			if ctx.Err() != nil {
				return w.finish()
			}
		}
		later.Reset(w.untilDue())
	}
}

// gather waits a moment for others to join when the last commit was not long
// ago and several shared it. On a fast disk commits would otherwise follow each
// other with a few rows each, and most of the processor would go into commits.
func (w *Writer) gather() {
	if w.shared > alone {
		time.Sleep(w.apart() - time.Since(w.began))
	}
	now := time.Now()
	apart := max(now.Sub(w.began), w.cfg.Gather)
	w.load += (float64(w.shared)*float64(w.cfg.Gather)/float64(apart) - w.load) / 8
	w.began = now
}

// apart is the least time between the starts of two commits. Under full load one
// that takes the processor leaves it to the others for as long as it had it.
func (w *Writer) apart() time.Duration {
	if !w.cfg.Local || w.load < many {
		return w.cfg.Gather
	}
	return min(max(2*w.took, w.cfg.Gather), w.cfg.GatherMost)
}

// tidy lets the store do what it left over, while the next rows gather and
// nobody waits for an answer.
func (w *Writer) tidy(ctx context.Context) error {
	t, ok := w.cfg.DB.(Tidier)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err := t.Tidy(ctx); errors.Is(err, ErrFatal) {
		return err
	}
	return nil
}

// finish refuses new accepts and commits the rest, each batch once: the store
// may be gone, and what is not settled is simply sent again by the next owner.
func (w *Writer) finish() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no second try
	for w.pending() {
		if err := w.commitNext(ctx); err != nil {
			return w.fail(err)
		}
	}
	return nil
}

func (w *Writer) pending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accepts.waiting+len(w.settles)+len(w.lanes) > 0
}

// fail answers everybody who waits, now and later.
func (w *Writer) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = unavailable(err)
	for w.accepts.next() != nil {
		w.accepts.pop().ticket.answer(w.failed)
	}
	w.settles = nil
	return err
}

// take moves at most MaxBatch of each queue into a batch, and no more accepts
// than MaxCommit.
func (w *Writer) take() (*Batch, []*ticket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &Batch{Node: w.cfg.Node, Now: time.Now(), Uncounted: w.cfg.Uncounted}

	accepts := w.accepts.take(w.cfg.MaxBatch, w.cfg.MaxCommit)
	tickets := make([]*ticket, len(accepts))
	b.Accepts = make([]*Accept, len(accepts))
	for i, a := range accepts {
		b.Accepts[i], tickets[i] = a.Accept, a.ticket
	}
	w.forgetEnded()

	if !w.resultsDue(b.Now) {
		return b, tickets
	}
	n := min(len(w.settles), w.cfg.MaxBatch)
	b.Settles = append(make([]*Settle, 0, n), w.settles[:n]...)
	w.settles = shift(w.settles, n)
	w.taken += int64(n)

	for id, save := range w.lanes {
		if save.after <= w.taken {
			b.Lanes = append(b.Lanes, save.LaneSave)
			delete(w.lanes, id)
		}
	}
	return b, tickets
}

// shift drops the first n elements and keeps the memory.
func shift[T any](s []T, n int) []T {
	rest := copy(s, s[n:])
	clear(s[rest:])
	return s[:rest]
}

// commitNext takes one batch and sees it through. It returns an error only
// when the store is lost.
func (w *Writer) commitNext(ctx context.Context) error {
	b, tickets := w.take()
	w.shared = b.size()
	err := w.commit(ctx, b)
	w.timed(w.shared, time.Since(b.Now))
	switch {
	case err == nil:
		w.done(b, tickets, nil)
		return nil
	case errors.Is(err, ErrFatal):
		w.done(&Batch{}, tickets, unavailable(err))
		return err
	case errors.Is(err, hook.ErrStoreFull):
		w.done(&Batch{}, tickets, hook.ErrStoreFull)
		return w.settleWithoutRoom(ctx, b)
	case errors.Is(err, ErrRefused):
		return w.isolate(ctx, b, tickets, err)
	default: // given up while shutting down
		w.done(&Batch{}, tickets, unavailable(err))
		w.cfg.Log.Warn("results were not stored before the end; their events will be sent again", "settles", len(b.Settles), "error", err)
		return nil
	}
}

// settleWithoutRoom tries the results alone: they need less room than new
// events, and until they are stored nothing more may be sent.
func (w *Writer) settleWithoutRoom(ctx context.Context, b *Batch) error {
	b.Accepts = nil
	err := w.commit(ctx, b)
	switch {
	case err == nil:
		w.done(b, nil, nil)
		return nil
	case errors.Is(err, ErrFatal):
		return err
	case ctx.Err() != nil:
		return nil //nolint:nilerr // stopping: what is not settled is sent again
	}
	w.putBack(b)
	w.pause(ctx, fullPause)
	return nil
}

// commit runs the batch until its outcome is known or ctx ends. A store that
// turns out to be full says nothing about an earlier run that may have
// succeeded: what that stored would be handed over to nobody.
func (w *Writer) commit(ctx context.Context, b *Batch) error {
	return w.times(b, func() error { return w.commitUntilKnown(ctx, b) })
}

func (w *Writer) commitUntilKnown(ctx context.Context, b *Batch) error {
	wait := rerunFirst
	for {
		err := w.commitOnce(ctx, b)
		full := errors.Is(err, hook.ErrStoreFull) && !b.Rerun
		if err == nil || full || errors.Is(err, ErrFatal) || errors.Is(err, ErrRefused) || ctx.Err() != nil {
			return err
		}
		w.cfg.Log.Warn("commit has no known outcome; running the batch again", "accepts", len(b.Accepts), "settles", len(b.Settles), "error", err)
		b.Rerun = true
		w.pause(ctx, wait)
		wait = min(2*wait, rerunMax)
	}
}

func (w *Writer) commitOnce(ctx context.Context, b *Batch) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	return w.cfg.DB.Commit(ctx, b)
}

// isolate splits a batch that the database refuses until each culprit stands
// alone, so that one bad row fails nobody else. It goes from first to last:
// results of one delivery stay in order.
func (w *Writer) isolate(ctx context.Context, b *Batch, tickets []*ticket, cause error) error {
	if b.size() == 1 {
		return w.refuse(ctx, b, tickets, cause)
	}
	back := &Batch{} // what found no room
	for parts := b.halves(); len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]
		waiters := tickets[:len(part.Accepts)]
		err := w.commit(ctx, part)
		switch {
		case errors.Is(err, ErrRefused) && part.size() > 1:
			parts = append(part.halves(), parts...)
			continue
		case errors.Is(err, ErrRefused):
			err = w.refuse(ctx, part, waiters, err)
		case err == nil:
			w.done(part, waiters, nil)
		case !errors.Is(err, ErrFatal):
			w.done(&Batch{}, waiters, unavailable(err))
			back.Settles, back.Lanes = append(back.Settles, part.Settles...), append(back.Lanes, part.Lanes...)
			err = nil
		}
		if err != nil {
			w.done(&Batch{}, tickets, unavailable(err))
			return err
		}
		tickets = tickets[len(part.Accepts):]
	}
	if ctx.Err() == nil {
		w.putBack(back)
	}
	return nil
}

// refuse ends the one row of a batch that the database does not take. A result
// is tried once more without anything that the destination had a hand in: the
// delivery must not be sent again and again because of an odd answer.
func (w *Writer) refuse(ctx context.Context, b *Batch, tickets []*ticket, cause error) error {
	w.cfg.Log.Error("the store refuses a row", "accepts", len(b.Accepts), "settles", len(b.Settles), "lanes", len(b.Lanes), "error", cause)
	for _, s := range b.Settles {
		if s.Attempt == nil {
			continue
		}
		s.Attempt.Error, s.Attempt.Excerpt, s.Attempt.Detail = "", nil, hook.AttemptDetail{}
		switch err := w.commit(ctx, b); {
		case err == nil:
			w.done(b, nil, nil)
			return nil
		case errors.Is(err, ErrFatal):
			return err
		case !errors.Is(err, ErrRefused):
			w.putBack(b) // no room for it just now
			return nil
		}
	}
	for _, s := range b.Settles {
		s.Outcome = SettleGone
	}
	for _, l := range b.Lanes {
		l.Outcome = SettleGone
	}
	w.done(&Batch{Settles: b.Settles, Lanes: b.Lanes}, tickets, unavailable(cause))
	return nil
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", hook.ErrStoreUnavailable, err) }

func (b *Batch) size() int { return len(b.Accepts) + len(b.Settles) + len(b.Lanes) }

// halves splits the rows in the middle of accepts, settles and lanes, in this
// order: each half is smaller, and a checkpoint stays behind its settle.
func (b *Batch) halves() []*Batch {
	n := b.size() / 2
	a := min(n, len(b.Accepts))
	s := min(n-a, len(b.Settles))
	l := n - a - s
	return []*Batch{
		b.part(b.Accepts[:a], b.Settles[:s], b.Lanes[:l]),
		b.part(b.Accepts[a:], b.Settles[s:], b.Lanes[l:]),
	}
}

func (b *Batch) part(accepts []*Accept, settles []*Settle, lanes []*LaneSave) *Batch {
	p := *b
	p.Accepts, p.Settles, p.Lanes = accepts, settles, lanes
	return &p
}

// done hands the batch over and then answers its waiters.
func (w *Writer) done(b *Batch, tickets []*ticket, err error) {
	if b.size() > 0 {
		w.cfg.Committed(b)
	}
	for _, t := range tickets {
		t.answer(err)
	}
}

// putBack returns results to the front of the queue.
func (w *Writer) putBack(b *Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range b.Lanes {
		if _, newer := w.lanes[l.Endpoint]; !newer {
			w.keep(l, w.taken)
		}
	}
	w.settles = append(append(make([]*Settle, 0, len(b.Settles)+len(w.settles)), b.Settles...), w.settles...)
	w.taken -= int64(len(b.Settles))
}

func (w *Writer) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
