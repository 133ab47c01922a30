package hook

import (
	"encoding/json"
	"fmt"
	"time"
)

// ReplayState is the durable state of a replay. Its numbers are stored, like
// those of all enums.
type ReplayState uint8

// A replay is queued until no other one feeds the same endpoint, and again
// after a person resumed it.
const (
	ReplayQueued    ReplayState = 0
	ReplayRunning   ReplayState = 1
	ReplayPaused    ReplayState = 2
	ReplayDone      ReplayState = 3
	ReplayCancelled ReplayState = 4
)

var replayStates = names[ReplayState]{"status", []string{"queued", "running", "paused", "done", "cancelled"}}

func (s ReplayState) String() string { return replayStates.text(s) }

// Ended reports whether nothing will happen to the replay any more.
func (s ReplayState) Ended() bool { return s == ReplayDone || s == ReplayCancelled }

// ParseReplayState reads the name of a replay state.
func ParseReplayState(s string) (ReplayState, error) { return replayStates.parse(s) }

// PauseReason is why a replay is paused: a closed list, stored by name.
type PauseReason string

// The reasons of pauses. A person ends the first two; the replay itself the
// others.
const (
	PausedByUser      PauseReason = "user"
	PausedStuck       PauseReason = "stuck"         // it pauses itself again and again, or is refused for good
	PausedByErrors    PauseReason = "error_rate"    // too many errors in the last minute
	PausedByBreaker   PauseReason = "breaker"       // the lane is open
	PausedEndpointOff PauseReason = "endpoint_held" // the endpoint is paused or disabled
)

// NeedsPerson reports whether only a person can end the pause.
func (r PauseReason) NeedsPerson() bool { return r == PausedByUser || r == PausedStuck }

// ReplayJob is a set of ended deliveries that are delivered again at a pace, and
// of events that an endpoint has no delivery of. The set is what matches the filter
// when the job is created: what ends or is accepted later is not in it.
type ReplayJob struct {
	ID          ID
	TenantID    ID
	EndpointID  ID // 0: any endpoint of the tenant
	Filter      ReplayFilter
	State       ReplayState
	PauseReason PauseReason // set while paused

	PerMinute         int     // deliveries per minute at the start
	CurrentPerMinute  int     // and now
	Ramp              float64 // growth after a clean minute
	MaxMultiple       float64 // of PerMinute
	PauseErrorPercent float64 // share of errors above which it pauses itself

	// Deliveries and events up to Cursor have been fed; those from EndID on are
	// younger than the job. PacedAt is how far the pace has been used up.
	Cursor  ID
	EndID   ID
	PacedAt time.Time

	Total  int64 // deliveries in the set, -1: not counted
	Counts ReplayCounts
	// SelfPauses counts pauses in a row between which nothing was delivered;
	// DeliveredAtPause is what was delivered by the last one.
	SelfPauses       int
	DeliveredAtPause int64

	CreatedBy  string
	CreatedAt  time.Time
	UpdatedAt  time.Time
	StartedAt  time.Time
	PausedAt   time.Time // of the last pause
	FinishedAt time.Time
	Version    int64 // counts changes of state and pace, not of counters
}

// ReplayCounts is what has become of the deliveries of a replay.
type ReplayCounts struct {
	Fed       int64 // pending again, or created
	Skipped   int64 // in the set, but not to be fed: pending, or its endpoint is gone
	Delivered int64
	Failed    int64 // ended without being delivered: dead again, or cancelled
	Answers   int64 // attempts that say something about the destination
	Errors    int64 // of them: it is down, failing or asks for less
	Refused   int64 // of them: refused for good
}

// Outstanding returns how many fed deliveries have not ended.
func (c ReplayCounts) Outstanding() int64 { return max(c.Fed-c.Delivered-c.Failed, 0) }

// AllFed reports whether the whole set has been walked.
func (j *ReplayJob) AllFed() bool { return j.Cursor >= j.EndID }

// ReplayFilter selects deliveries. Empty fields do not filter; values of one
// field are alternatives, fields must all match.
type ReplayFilter struct {
	Endpoint   ID
	States     []DeliveryState
	Reasons    []EndReason
	Types      []string // patterns over the event's type
	Since      time.Time
	Until      time.Time
	Deliveries []ID // these and no others
	All        bool // said out loud: everything else that was given selects all
	// Missing also selects events of the window that the endpoint has no delivery
	// of. Types and window apply to them, states and reasons cannot. nil: none.
	Missing *MissingFilter
}

// MissingFilter is what an endpoint asked for when a replay of events that it has no
// delivery of was created. It is kept, so that the set does not change with the
// endpoint.
type MissingFilter struct {
	Types  []string // patterns; none: no event
	Filter string   // over the content; empty: none
}

// replayFilterText is a ReplayFilter as it is stored and shown.
type replayFilterText struct {
	Endpoint   string    `json:"endpoint,omitempty"`
	States     []string  `json:"statuses,omitempty"`
	Reasons    []string  `json:"reasons,omitempty"`
	Types      []string  `json:"types,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	Until      time.Time `json:"until,omitzero"`
	Deliveries []string  `json:"delivery_ids,omitempty"`
	All        bool      `json:"all,omitempty"`

	Missing        bool     `json:"include_missing,omitempty"`
	EndpointTypes  []string `json:"endpoint_types,omitempty"`
	EndpointFilter string   `json:"endpoint_filter,omitempty"`
}

// MarshalJSON writes names and shown ids, so that the stored form does not
// depend on numbers.
func (f ReplayFilter) MarshalJSON() ([]byte, error) {
	t := replayFilterText{Types: f.Types, Since: f.Since, Until: f.Until, All: f.All}
	if f.Endpoint != 0 {
		t.Endpoint = EndpointPrefix.Format(f.Endpoint)
	}
	if m := f.Missing; m != nil {
		t.Missing, t.EndpointTypes, t.EndpointFilter = true, m.Types, m.Filter
	}
	for _, s := range f.States {
		t.States = append(t.States, s.String())
	}
	for _, r := range f.Reasons {
		t.Reasons = append(t.Reasons, r.String())
	}
	for _, id := range f.Deliveries {
		t.Deliveries = append(t.Deliveries, DeliveryPrefix.Format(id))
	}
	return json.Marshal(t)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (f *ReplayFilter) UnmarshalJSON(b []byte) error {
	var t replayFilterText
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	*f = ReplayFilter{Types: t.Types, Since: t.Since, Until: t.Until, All: t.All}
	if t.Missing {
		f.Missing = &MissingFilter{Types: t.EndpointTypes, Filter: t.EndpointFilter}
	}
	var err error
	if t.Endpoint != "" {
		if f.Endpoint, err = EndpointPrefix.Parse(t.Endpoint); err != nil {
			return fmt.Errorf("endpoint: %w", err)
		}
	}
	if f.States, err = parseEach(t.States, ParseDeliveryState); err != nil {
		return err
	}
	if f.Reasons, err = parseEach(t.Reasons, ParseEndReason); err != nil {
		return err
	}
	f.Deliveries, err = parseEach(t.Deliveries, DeliveryPrefix.Parse)
	return err
}

func parseEach[T any](texts []string, parse func(string) (T, error)) ([]T, error) {
	var out []T
	for _, s := range texts {
		v, err := parse(s)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
