package hook

import (
	"encoding/json"
	"time"
)

// In every noun a zero time.Time stands for "not yet" and is stored as NULL,
// and times are cut to microseconds before they are stored.

// Tenant is one customer of the operator; everything else belongs to one.
type Tenant struct {
	ID     ID
	UID    string // chosen by the operator, unique, may be empty
	Name   string
	Policy json.RawMessage // the tenant's policy level, "{}" when empty
	// PolicyName is the named policy that Policy refers to, empty for none. Reads
	// fill in what it says.
	PolicyName  string
	NamedPolicy json.RawMessage
	Limits      TenantLimits
	Metadata    map[string]string
	Rev         int64 // counts changes of the tenant itself
	ConfigRev   int64 // counts changes of the tenant or any of its endpoints
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// TenantLimits narrow what one tenant may use; zero means the server's setting.
type TenantLimits struct {
	EventsPerSecond float64 `json:"events_per_second,omitempty"`
	MaxPending      int64   `json:"max_pending,omitempty"`
	MaxEndpoints    int64   `json:"max_endpoints,omitempty"`
	MaxStoredBytes  int64   `json:"max_stored_bytes,omitempty"`
}

// DefaultTenantUID names the tenant that exists from the start.
const DefaultTenantUID = "default"

// Endpoint is a destination.
type Endpoint struct {
	ID            ID
	TenantID      ID
	UID           string // unique within the tenant, may be empty
	URL           string
	Description   string
	Types         []string // patterns: "*", "order.paid", "order.*"
	Filter        string   // expression over the event; empty: none
	FilterErrors  FilterErrors
	HeadersSealed []byte // custom headers, sealed JSON; nil when none
	Policy        json.RawMessage
	PolicyName    string          // the named policy that Policy refers to, empty for none
	NamedPolicy   json.RawMessage // what that says; reads fill it in
	Signatures    []Signature
	Body          BodyMode
	TraceContext  TraceContext
	Metadata      map[string]string
	State         EndpointState
	StateReason   string // "", "manual", "gone", "failing"
	Rev           int64
	// The owner of the lane acts once on each new value of these two.
	ProbeWantedAt time.Time
	ResetWantedAt time.Time
	CreatedAt     time.Time
	UpdatedAt     time.Time
	DeletedAt     time.Time
}

// Signature is one signature that an endpoint gets. Header is used by
// SchemeStripe only.
type Signature struct {
	Scheme Scheme
	Header string
}

// Secret is a sealed signing key of an endpoint.
type Secret struct {
	ID         ID
	TenantID   ID
	EndpointID ID
	Scheme     Scheme // SchemeStandard (also used by Stripe) or SchemeStandardEd25519
	KeyID      string // which key of the vault sealed it
	Sealed     []byte
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero: does not expire
}

// MaxActiveSecrets bounds the keys that sign at once during rotation.
const MaxActiveSecrets = 5

// Event is what a publisher handed over. Payload is opaque and never changed.
type Event struct {
	ID          ID
	TenantID    ID
	Type        string
	CreatedAt   time.Time
	ContentType string
	Payload     []byte
}

// Delivery is one event to one endpoint: one row for ever.
type Delivery struct {
	ID         ID
	TenantID   ID
	EventID    ID
	EndpointID ID
	State      DeliveryState
	DueAt      time.Time
	Attempts   int // all attempts of all runs; the fence of every settle
	Size       int // payload bytes, for quotas
	Progress   Progress
	ReplayID   ID        // 0: none
	Reason     EndReason // set when dead or cancelled

	// A manual send of a delivery keeps what it was before and puts it back
	// when the send fails.
	Restore *Restore

	Last             LastResult
	SettledAt        time.Time
	FirstDeliveredAt time.Time
}

// Restore is what a delivery was before a manual send was asked for.
type Restore struct {
	State  DeliveryState
	DueAt  time.Time
	Reason EndReason
}

// Progress is what the current run has used up. A run starts at accept or at a
// replay.
type Progress struct {
	Run            int
	RunDueAt       time.Time     // first due time of the run; age counts from here
	Charged        int           // charged attempts
	BackoffSteps   int           // failed attempts that advance the backoff
	FailedAttempts int           // failed attempts of any kind, probes included
	Throttles      int           // throttled attempts in a row
	PrevDelay      time.Duration // last decorrelated draw, 0 before the first
	Limited        Tally         // charged attempts by limited reason, and all that were told that it is gone
}

// Tally counts attempts by reason. It is nil for nearly every delivery.
type Tally map[Reason]int

// LastResult is the latest attempt's result, kept with the delivery so that
// lists need no join.
type LastResult struct {
	AttemptID ID
	Class     Class
	Reason    Reason
	Status    int
	Latency   time.Duration
	At        time.Time
}

// Attempt is one request and its outcome, with everything needed to explain
// the wait that followed.
type Attempt struct {
	ID         ID
	TenantID   ID
	DeliveryID ID
	EndpointID ID
	EventID    ID
	NodeID     ID
	Number     int // 1-based over all runs, no gaps
	Run        int
	Kind       AttemptKind
	Class      Class
	Reason     Reason
	Charged    bool
	Status     int // 0: no answer
	Latency    time.Duration
	StartedAt  time.Time

	PolicyHash  PolicyHash
	RetryN      int // n of the backoff, 0 when no wait was computed
	Ceiling     time.Duration
	U           float64
	Delay       time.Duration
	DelaySource DelaySource
	NextDueAt   time.Time

	Error   string // user-safe text, empty on success
	Detail  AttemptDetail
	Excerpt []byte // head of the response body, at most 16 KiB
}

// AttemptDetail is shown with an attempt but never filtered by; it is stored
// as one JSON document.
type AttemptDetail struct {
	URL              string              `json:"url,omitempty"`
	RequestHeaders   map[string][]string `json:"request_headers,omitempty"` // secrets masked
	ResponseHeaders  map[string][]string `json:"response_headers,omitempty"`
	Truncated        bool                `json:"truncated,omitempty"` // the excerpt is not the whole body
	RemoteAddr       string              `json:"remote_addr,omitempty"`
	RetryAfter       string              `json:"retry_after,omitempty"` // header as it came
	RetryAfterCapped bool                `json:"retry_after_capped,omitempty"`
	LaneState        string              `json:"lane_state,omitempty"`
	LaneLimit        float64             `json:"lane_limit,omitempty"`
	LaneInFlight     int                 `json:"lane_in_flight,omitempty"`
	Phases           Phases              `json:"phases,omitzero"`
}

// Phases are the times an attempt spent getting to the first byte.
type Phases struct {
	DNS       time.Duration `json:"dns_ns,omitempty"`
	Connect   time.Duration `json:"connect_ns,omitempty"`
	TLS       time.Duration `json:"tls_ns,omitempty"`
	FirstByte time.Duration `json:"first_byte_ns,omitempty"`
}

// PolicyHash identifies an expanded policy: the first 8 bytes of its SHA-256.
type PolicyHash [8]byte

// APIKey is a stored key: only its hash is kept.
type APIKey struct {
	ID         ID
	TenantID   ID // 0 for admin scopes
	Name       string
	Prefix     string // public part, shown in lists
	Hash       [32]byte
	Scope      Scope
	CreatedAt  time.Time
	LastUsedAt time.Time
	ExpiresAt  time.Time
	RevokedAt  time.Time
}

// Valid reports whether the key opens anything at a moment.
func (k *APIKey) Valid(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// Audit is the record of one change made by a person or a rule.
type Audit struct {
	ID        ID
	TenantID  ID // 0: the server itself
	Actor     string
	Action    string // e.g. "endpoint.pause"
	Subject   string // shown id of what changed
	Diff      json.RawMessage
	RequestID string
	RemoteIP  string
	At        time.Time
	Claim     *Claim // of a request under an idempotency key; not part of the record
}

// Node is one serving process, known by a name that outlives its restarts.
type Node struct {
	ID        ID
	Slot      int
	Name      string
	Addr      string
	Version   string
	Draining  bool
	StartedAt time.Time
}

// DeadGrace is how long a dead letter stays at least, whatever its age: a person must
// have had a chance to see it.
const DeadGrace = 48 * time.Hour

// KeptUntil returns until when a delivery that has ended is kept at least, where data
// is removed at some age: that of its event, which may be older than the delivery.
// Zero: it is pending, and is not removed.
func (d *Delivery) KeptUntil(age time.Duration) time.Time {
	switch until := d.EventID.Time().Add(age); {
	case d.State == Pending:
		return time.Time{}
	case d.State == Dead && d.SettledAt.Add(DeadGrace).After(until):
		return d.SettledAt.Add(DeadGrace)
	default:
		return until
	}
}
