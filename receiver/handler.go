package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"
)

// DefaultTimeout is how long the function of a Handler may take. Breakwater waits
// for an answer 30 seconds by default.
const DefaultTimeout = 10 * time.Second

// grace is for a function that heeds the end of its context, to say what it has to
// say.
const grace = 100 * time.Millisecond

// HandlerOptions are the settings of [Verifier.Handler]; all may be left out.
type HandlerOptions struct {
	// Dedupe makes fn run at most once per event. Nil means that it runs for
	// every request: right only if fn itself can tell copies, as
	// [SQL.Accept] does.
	Dedupe Deduper
	// Timeout is how long fn may take. Zero or less means 10 seconds.
	Timeout time.Duration
	// OnError is told of everything that was not answered 2xx, but not of requests
	// that are refused for their signature. The answer has none of its
	// text. Nil means that errors are logged with slog.Default.
	OnError func(Event, error)
}

// Handler verifies, runs fn at most once per event, and answers: 204 when fn
// returned nil, now or for an earlier copy of the event, else by [Status].
//
// The context of fn ends after the timeout, or when the sender hangs up. Then the
// answer is 503, so that the sender tries again: even if fn takes no notice of
// its context and goes on. A panic of fn is an error like any other: 500.
//
// Requests that are not verified are answered as by [Verifier.Middleware].
func (v *Verifier) Handler(o HandlerOptions, fn func(context.Context, Event) error) http.Handler {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.OnError == nil {
		o.OnError = logError
	}
	return v.Middleware(&handler{o, fn})
}

func logError(e Event, err error) {
	slog.Default().Error("webhook failed", "id", e.ID, "type", e.Type, "attempt", e.Attempt, "error", err)
}

type handler struct {
	HandlerOptions
	fn func(context.Context, Event) error
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	event, _ := FromContext(r.Context()) // Middleware put it there
	err := h.work(r.Context(), event)
	if err != nil {
		h.OnError(event, err)
	}
	code, after := Status(err)
	if after > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64(after/time.Second), 10))
	}
	if err == nil {
		w.WriteHeader(code)
		return
	}
	http.Error(w, http.StatusText(code), code)
}

// errUnfinished is for a goroutine that was ended from within (runtime.Goexit).
var errUnfinished = errors.New("receiver: the work was given up without a result")

// work waits for the work of one event, but no longer than the timeout.
func (h *handler) work(ctx context.Context, event Event) error {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := errUnfinished
		defer func() { done <- err }()
		err = protect(func() error { return h.once(ctx, event) })
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case err = <-done:
		case <-late.C:
			err = fmt.Errorf("receiver: still at work: %w", ctx.Err())
		}
	}
	if err != nil && ctx.Err() != nil {
		return unavailable(err)
	}
	return err
}

func (h *handler) once(ctx context.Context, event Event) error {
	if h.Dedupe == nil {
		return h.fn(ctx, event)
	}
	_, err := h.Dedupe.Once(ctx, event.ID, func(ctx context.Context) error { return h.fn(ctx, event) })
	return err
}

// protect makes an error of a panic.
func protect(fn func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value, debug.Stack()}
		}
	}()
	return fn()
}
