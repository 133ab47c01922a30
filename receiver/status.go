package receiver

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// busyAfter is when a sender may come again with an event that someone else is
// working on.
const busyAfter = 5 * time.Second

// maxRetryAfter keeps arithmetic on times far from overflow. Senders wait less:
// Breakwater at most 24 hours.
const maxRetryAfter = 365 * 24 * time.Hour

// verdict is an error that says what to answer.
type verdict struct {
	code  int
	after time.Duration // whole seconds; 0 means that none is told
	name  string
	err   error // may be nil
}

func (v *verdict) Error() string {
	text := v.name
	if v.after > 0 {
		text += ", again in " + v.after.String()
	}
	if v.err != nil {
		text += ": " + v.err.Error()
	}
	return text
}

func (v *verdict) Unwrap() error { return v.err }

// Permanent marks err as one that no other attempt can mend: the answer is 422,
// and the sender gives this event up at once, as a dead letter. Calling it is the
// verdict: err may be nil when there is none to name.
func Permanent(err error) error {
	return &verdict{code: http.StatusUnprocessableEntity, name: "permanent", err: err}
}

// Later asks for patience: the answer is 503 with Retry-After, and the sender
// sends nothing at all to this endpoint before that time. It costs the event no
// attempt. The time is rounded up to whole seconds; without one, or with one in the past,
// the answer has no Retry-After and the sender waits as after any failure. err
// may be nil when there is none to name.
func Later(err error, after time.Duration) error {
	return &verdict{code: http.StatusServiceUnavailable, after: wholeSeconds(after), name: "later", err: err}
}

// TooMany says that requests come too fast: the answer is 429 with Retry-After,
// rounded up to whole seconds. Without a time the sender chooses one.
func TooMany(after time.Duration) error {
	return &verdict{code: http.StatusTooManyRequests, after: wholeSeconds(after), name: "too many requests"}
}

// Gone says that this endpoint wants no event any more: the answer is 410, and
// the sender switches the endpoint off. All that was not delivered waits there until
// a person switches it on again, so use it for an endpoint that is given up, not
// for an object that is no longer there.
func Gone() error {
	return &verdict{code: http.StatusGone, name: "gone: this endpoint wants no more events"}
}

// Status returns what Handler answers to an error of its function: 204 for nil,
// the status and Retry-After of [Permanent], [Later], [TooMany] and [Gone], 503 and
// 5 seconds for [ErrBusy], 500 for any other error. It looks through wrapped
// errors; of several joined ones the first that says something counts.
// retryAfter is in whole seconds, and 0 when the answer has none.
func Status(err error) (code int, retryAfter time.Duration) {
	if err == nil {
		return http.StatusNoContent, 0
	}
	if v, ok := errors.AsType[*verdict](err); ok {
		return v.code, v.after
	}
	if errors.Is(err, ErrBusy) {
		return http.StatusServiceUnavailable, busyAfter
	}
	return http.StatusInternalServerError, 0
}

// unavailable makes a 503 of an error that says nothing else: the time was up, so
// the same event may well succeed at another one.
func unavailable(err error) error {
	if code, _ := Status(err); code != http.StatusInternalServerError {
		return err
	}
	return &verdict{code: http.StatusServiceUnavailable, name: "not done in time", err: err}
}

func wholeSeconds(d time.Duration) time.Duration {
	d = min(max(d, 0), maxRetryAfter)
	return (d + time.Second - 1).Truncate(time.Second)
}

// panicError is what became of a panic.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", p.value, p.stack) }
