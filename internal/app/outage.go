package app

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/store/postgres"
)

const (
	// outageLook is how often a database that is away is asked whether it is back.
	outageLook = 250 * time.Millisecond
	// outageCalm is how long it must answer, and nobody must complain, until an
	// outage is over: connections that it broke are found out one by one.
	outageCalm = 3 * time.Second
	outageCall = 2 * time.Second
)

// outage makes one line of the log out of an absence of the database, which every
// part of the server meets and tells of.
type outage struct {
	ping func(context.Context) error
	log  slog.Handler
	wake chan struct{} // capacity 1

	mu    sync.Mutex
	since time.Time // zero: the database answers
	last  time.Time // when somebody complained last
}

func newOutage(h slog.Handler) *outage { return &outage{log: h, wake: make(chan struct{}, 1)} }

// met notes that somebody found the database away, and tells so if nobody has.
func (o *outage) met(ctx context.Context, at time.Time, err error) {
	o.mu.Lock()
	first := o.since.IsZero()
	if first {
		o.since = at
	}
	o.last = at
	o.mu.Unlock()
	if !first {
		return
	}
	o.tell(ctx, slog.LevelWarn, at, "the database is away; everything waits until it is back", slog.String("error", oneLine(err)))
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outage) tell(ctx context.Context, level slog.Level, at time.Time, text string, a ...slog.Attr) {
	if !o.log.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(at, level, text, 0)
	r.AddAttrs(a...)
	_ = o.log.Handle(ctx, r) // as slog does: there is nobody to tell
}

// run tells of the end of each outage until ctx ends.
func (o *outage) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.wake:
		}
		if !o.awaitEnd(ctx) {
			return nil
		}
	}
}

// awaitEnd returns false when ctx ends first.
func (o *outage) awaitEnd(ctx context.Context) bool {
	tick := time.NewTicker(outageLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if o.answers(ctx) && o.end(ctx, time.Now()) {
			return true
		}
	}
}

func (o *outage) answers(ctx context.Context) bool {
	call, cancel := context.WithTimeout(ctx, outageCall)
	defer cancel()
	err := o.ping(call)
	if err != nil && postgres.Away(err) {
		o.met(ctx, time.Now(), err)
	}
	return err == nil
}

func (o *outage) end(ctx context.Context, now time.Time) bool {
	o.mu.Lock()
	if now.Sub(o.last) < outageCalm {
		o.mu.Unlock()
		return false
	}
	lasted := o.last.Sub(o.since)
	o.since = time.Time{}
	o.mu.Unlock()
	o.tell(ctx, slog.LevelInfo, now, "the database is back", slog.Duration("away", lasted.Round(time.Millisecond)))
	return true
}

// outageHandler is a log in which the absence of the database is told once.
// What all the parts say of it stays readable at level debug.
type outageHandler struct {
	slog.Handler
	outage *outage
}

// Handle implements slog.Handler.
func (h outageHandler) Handle(ctx context.Context, r slog.Record) error {
	err := errorOf(&r)
	if err == nil {
		return h.Handler.Handle(ctx, r)
	}
	level := r.Level
	if level >= slog.LevelWarn && postgres.Away(err) {
		h.outage.met(ctx, r.Time, err)
		level = slog.LevelDebug
		if !h.Enabled(ctx, level) {
			return nil
		}
	}
	flat := slog.NewRecord(r.Time, level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			a = slog.String(a.Key, oneLine(err))
		}
		flat.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, flat)
}

// WithAttrs implements slog.Handler.
func (h outageHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return outageHandler{h.Handler.WithAttrs(attrs), h.outage}
}

// WithGroup implements slog.Handler.
func (h outageHandler) WithGroup(name string) slog.Handler {
	return outageHandler{h.Handler.WithGroup(name), h.outage}
}

func errorOf(r *slog.Record) (err error) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			err, _ = a.Value.Any().(error)
		}
		return err == nil
	})
	return err
}

// oneLine is the text of an error without the line breaks of the driver, which
// puts every address that it tried on a line of its own.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\t' }), " ")
}
