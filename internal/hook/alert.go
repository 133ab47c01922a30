package hook

import "time"

// The prefixes of shown ids of alerts and of the channels they are sent over.
const (
	AlertPrefix   Prefix = "alr_"
	ChannelPrefix Prefix = "ach_"
)

// LogChannelID is the id of the channel that is always there. No source draws it.
const LogChannelID ID = 1

// AlertLevel is what an alert is about, and so who can do something about it.
// The numbers of this and all enums below are stored.
type AlertLevel uint8

// The levels of alerts.
const (
	LevelEndpoint AlertLevel = 1
	LevelTenant   AlertLevel = 2
	LevelSystem   AlertLevel = 3
)

// Severity is how soon a person must look. Greater is sooner.
type Severity uint8

// The severities of alerts.
const (
	SeverityInfo    Severity = 1
	SeverityWarning Severity = 2
	SeverityPage    Severity = 3
)

// AlertStatus is the state of an alert.
type AlertStatus uint8

// A pending alert is one whose condition has not been true for long enough: it
// is stored so that another evaluator goes on from it, and nobody is told.
const (
	AlertFiring   AlertStatus = 1
	AlertResolved AlertStatus = 2
	AlertPending  AlertStatus = 3
)

// AlertSubject is what an alert is about. What does not apply is 0; for the
// whole system all of them are.
type AlertSubject struct {
	Tenant   ID
	Endpoint ID
	Replay   ID
	Node     ID
}

// Alert is a condition that a rule has found to be true of a subject. There is
// at most one that is not resolved for a rule and a subject.
type Alert struct {
	ID        ID
	Rule      string
	Level     AlertLevel
	Severity  Severity // the highest since it fired
	Status    AlertStatus
	Subject   AlertSubject
	Summary   string  // a sentence for people, with numbers
	Value     float64 // of the rule's metric
	Threshold float64 // that the value has crossed

	Since      time.Time // it fired
	LastAt     time.Time // the condition was last seen true
	ResolvedAt time.Time
	Count      int  // how often the condition became true
	Flapping   bool // it changed so often that only its end is told

	AckedBy      string
	AckedAt      time.Time
	AckNote      string
	SnoozedUntil time.Time // zero: acknowledged until it is resolved

	Notifications []Notification
	Memory        AlertMemory
}

// Open reports whether the alert is not over.
func (a *Alert) Open() bool { return a.Status == AlertFiring || a.Status == AlertPending }

// AlertMemory is what an evaluator must know of an alert, beside what people
// see, to go on where another one stopped. It is stored as one JSON document.
type AlertMemory struct {
	TrueSince  time.Time   `json:"true_since,omitzero"`  // zero: the condition is false
	FalseSince time.Time   `json:"false_since,omitzero"` // zero: the condition is true
	NoticeAt   time.Time   `json:"notice_at,omitzero"`   // of the last notice
	Changes    []time.Time `json:"changes,omitempty"`    // of status, lately
	Folded     int         `json:"folded,omitempty"`     // notices of others that this one stands for
	FoldedIDs  []ID        `json:"folded_ids,omitempty"` // endpoints of the first of them
	Named      []ID        `json:"named,omitempty"`      // things that were told of since it fires
}

// NoticeKind is what a notice tells.
type NoticeKind uint8

// The kinds of notices.
const (
	NoticeFiring   NoticeKind = 1
	NoticeRepeat   NoticeKind = 2 // still firing
	NoticeRaised   NoticeKind = 3 // now more severe
	NoticeFlapping NoticeKind = 4 // fires and ends again and again; its end will be told
	NoticeResolved NoticeKind = 5
	NoticeFolded   NoticeKind = 6 // told by the notice of another alert; not sent
)

// NoticeResult is what became of a notice.
type NoticeResult uint8

// A notice is waiting until it was sent or all its tries have failed. What need
// not be sent any more is skipped: its channel is gone.
const (
	NoticeWaiting NoticeResult = 1
	NoticeSent    NoticeResult = 2
	NoticeFailed  NoticeResult = 3
	NoticeSkipped NoticeResult = 4
)

// Notification is a notice that was sent, or is to be sent, over a channel. An
// alert has at most one for each channel, moment and kind.
type Notification struct {
	Channel ID           `json:"channel"`
	At      time.Time    `json:"at"` // it was decided
	Kind    NoticeKind   `json:"kind"`
	Result  NoticeResult `json:"result"`
	Tries   int          `json:"tries"`
	Error   string       `json:"error,omitempty"` // of the last try; safe to show
}

// ChannelKind is how a channel reaches people.
type ChannelKind uint8

// The kinds of channels.
const (
	ChannelLog     ChannelKind = 1
	ChannelWebhook ChannelKind = 2
	ChannelSlack   ChannelKind = 3
	ChannelEmail   ChannelKind = 4
)

// Channel is a way over which alerts and operational events are sent, and which
// of them it wants.
type Channel struct {
	ID          ID
	Name        string
	Kind        ChannelKind
	Levels      []AlertLevel // empty: all
	MinSeverity Severity     // 0: all
	Tenant      ID           // 0: the operator's; else only what is about this tenant
	Rules       []string     // empty: all
	// OperationalEvents are patterns of the types it wants; empty: none.
	OperationalEvents []string
	SendResolved      bool

	URL     string            // webhook, slack
	Secret  string            // webhook: signs what is sent
	Headers map[string]string // webhook
	To      []string          // e-mail

	Version   int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

var (
	alertLevels   = names[AlertLevel]{"level", []string{"", "endpoint", "tenant", "system"}}
	severities    = names[Severity]{"severity", []string{"", "info", "warning", "page"}}
	alertStatuses = names[AlertStatus]{"status", []string{"", "firing", "resolved", "pending"}}
	noticeKinds   = names[NoticeKind]{"notice", []string{"", "firing", "repeat", "raised", "flapping", "resolved", "folded"}}
	noticeResults = names[NoticeResult]{"result", []string{"", "waiting", "sent", "failed", "skipped"}}
	channelKinds  = names[ChannelKind]{"kind", []string{"", "log", "webhook", "slack", "email"}}
)

func (l AlertLevel) String() string   { return alertLevels.text(l) }
func (s Severity) String() string     { return severities.text(s) }
func (s AlertStatus) String() string  { return alertStatuses.text(s) }
func (k NoticeKind) String() string   { return noticeKinds.text(k) }
func (r NoticeResult) String() string { return noticeResults.text(r) }
func (k ChannelKind) String() string  { return channelKinds.text(k) }

// ParseAlertLevel reads the name of a level.
func ParseAlertLevel(s string) (AlertLevel, error) { return alertLevels.parse(s) }

// ParseSeverity reads the name of a severity.
func ParseSeverity(s string) (Severity, error) { return severities.parse(s) }

// ParseAlertStatus reads the name of an alert's status.
func ParseAlertStatus(s string) (AlertStatus, error) { return alertStatuses.parse(s) }

// ParseNoticeKind reads the name of a kind of notices.
func ParseNoticeKind(s string) (NoticeKind, error) { return noticeKinds.parse(s) }

// ParseNoticeResult reads the name of a notice's result.
func ParseNoticeResult(s string) (NoticeResult, error) { return noticeResults.parse(s) }

// ParseChannelKind reads the name of a kind of channels.
func ParseChannelKind(s string) (ChannelKind, error) { return channelKinds.parse(s) }
