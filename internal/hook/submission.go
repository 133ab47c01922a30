package hook

import (
	"errors"
	"strings"
	"time"
)

// Submission is an event as a publisher hands it over.
type Submission struct {
	Type        string
	Payload     []byte // exactly the bytes that will be sent
	ContentType string // empty: application/json
	Endpoints   []ID   // empty: every endpoint whose types match
	DeliverAt   time.Time
	Delay       time.Duration
	Key         string // idempotency key, empty: none
	// ContentHash covers everything above but the key, as given; it tells a
	// repetition from another event under the same key. Without a key it is
	// empty.
	ContentHash [32]byte
	Trace       *EventTrace // nil: it belongs to no trace
}

// EventTrace is the trace context of an event that is handed over.
type EventTrace struct {
	Trace
	// Keep stores it with the event also if no endpoint that gets the event
	// forwards it.
	Keep bool
}

// Receipt is the promise made for one submission: the event is durable.
type Receipt struct {
	EventID    ID
	Deliveries int
	Replayed   bool // an earlier submission under the same key got this answer
}

// Result is the answer to one submission of a batch: a receipt or an error.
type Result struct {
	Receipt Receipt
	Err     error
}

// Reasons to refuse a submission that is not malformed.
var (
	ErrKeyReused     = errors.New("idempotency key was used with other content")
	ErrFanoutTooBig  = errors.New("event matches too many endpoints")
	ErrTooLarge      = errors.New("payload is too large")
	ErrRateLimited   = errors.New("rate limit reached")
	ErrBacklogFull   = errors.New("too much is pending for this tenant")
	ErrTenantFull    = errors.New("this tenant has stored as much as it may (limits.max_stored_bytes, ingest.tenant_max_stored)")
	ErrOverloaded    = errors.New("too many requests are waiting for the store")
	ErrDraining      = errors.New("server is shutting down")
	ErrUnknownTarget = errors.New("unknown endpoint")
)

// FieldError names a field by its JSON path and the rule it broke.
type FieldError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Invalid is bad input: all fields that broke a rule, at once.
type Invalid struct {
	Code   string // API error code, e.g. "validation_failed"
	Fields []FieldError
}

func (e *Invalid) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Path + " " + f.Message
	}
	return strings.Join(parts, "; ")
}
