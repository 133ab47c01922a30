package hook

import (
	"encoding/json"
	"errors"
	"time"
)

// EventType is what a tenant says about one type of its events. Types that nobody has
// said anything about are events like all others.
type EventType struct {
	ID          ID
	TenantID    ID
	Type        string // unique within the tenant
	Description string
	Schema      json.RawMessage // JSON Schema that payloads have to fit; nil: none
	Example     json.RawMessage // a payload; nil: none
	Version     int64
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Reasons to keep nothing more about event types.
var (
	ErrTooManyTypes    = errors.New("too many event types")
	ErrSchemasTooLarge = errors.New("the schemas of the tenant are too large together")
)

// FilterErrors counts the events that an endpoint got because its filter could not be
// evaluated for them, since the filter was written.
type FilterErrors struct {
	Count int64
	Last  string
	At    time.Time
}
