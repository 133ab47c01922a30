package store

import (
	"context"
	"errors"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// ErrFenced means that this node does not own the shard in that epoch any more.
// Nothing was written.
var ErrFenced = errors.New("this node does not own the shard any more")

// Fence names the owner of a shard in one epoch. Whoever owns shard 0 evaluates
// alerts and sends notices.
type Fence struct {
	Node hook.ID
	Held
}

// AlertBoard serves the evaluator of alerts.
type AlertBoard interface {
	// OpenAlerts returns what an evaluator goes on from, with notifications: the
	// alerts that are pending or firing, those that were resolved at since or
	// later, and those with a notice that waits.
	OpenAlerts(ctx context.Context, since time.Time) ([]hook.Alert, error)
	// AckedAlerts returns the firing alerts that somebody has acknowledged, without
	// notifications.
	AckedAlerts(ctx context.Context) ([]hook.Alert, error)
	// SaveAlerts stores a step in one transaction, or nothing of it: it fails with
	// ErrFenced when f is not the owner. It may be run again.
	SaveAlerts(ctx context.Context, f Fence, s AlertStep) error
	// Channels returns all channels, by id. The log channel has no row.
	Channels(ctx context.Context) ([]Channel, error)
}

// AlertStep is what a round of the evaluator has changed.
type AlertStep struct {
	Now time.Time
	// Save are rows to insert or update, but for their acknowledgements. Of their
	// notifications those decided last (at Memory.NoticeAt) are stored unless they
	// are there; what became of others is for EndNotice alone.
	Save []hook.Alert
	// Unacked are alerts whose acknowledgement has ended. One that was given after
	// Now stays.
	Unacked []hook.ID
	Drop    []hook.ID // alerts that never fired
}

// NoticeQueue serves the sender of notices.
type NoticeQueue interface {
	// DueNotices returns up to limit notices that wait and are due at now, longest
	// due first, leaving out the channels in busy. Of the notices of one alert for
	// one channel it returns only the earliest. Who is not the owner gets none.
	DueNotices(ctx context.Context, f Fence, now time.Time, busy []hook.ID, limit int) ([]Notice, error)
	// BeginNotice counts one try more and makes the notice due at again. It returns
	// false, with nothing written, when tries is not the number that is stored, the
	// notice has ended or is gone, or f is not the owner.
	BeginNotice(ctx context.Context, f Fence, k NoticeKey, tries int, again time.Time) (bool, error)
	// EndNotice stores what became of a notice that waits, and what that says about
	// its channel; else it changes nothing. From a node that is not the owner any
	// more it takes only that the notice was sent.
	EndNotice(ctx context.Context, f Fence, k NoticeKey, end NoticeEnd) error
	// TellOperational stores operational events, as OperationalLog does, and their
	// notices in one transaction. It may be run again. Of a channel with more than
	// MaxWaitingEvents such notices it drops the oldest; it returns how many.
	TellOperational(ctx context.Context, events []hook.OperationalEvent, to []EventNotice) (dropped int64, err error)
}

// MaxWaitingEvents is how many operational events wait for one channel at most.
const MaxWaitingEvents = 1000

// MaxWaitingNotices is how many notices of alerts wait for one channel at most.
const MaxWaitingNotices = 2_000

// NoticeKey names a notice.
type NoticeKey struct {
	About   hook.ID // the alert or, with kind 0, the operational event
	Channel hook.ID
	At      time.Time       // it was decided
	Kind    hook.NoticeKind // 0: an operational event
}

// Notice is a notice that is due. What it is about, or its channel, is nil when it
// is gone meanwhile; so is the log channel, which has no row.
type Notice struct {
	NoticeKey
	Alert   *hook.Alert // as it is now, without notifications
	Event   *hook.OperationalEvent
	To      *Channel
	Tries   int      // that have begun
	Reached []string // addresses that have it from earlier tries

	Endpoint string // the URL of the endpoint it is about; may be empty
	Tenant   string // the name of the tenant it is about; may be empty
}

// NoticeEnd is what became of a try.
type NoticeEnd struct {
	Now     time.Time
	Result  hook.NoticeResult // waiting: another try is due at Next
	Tries   int               // to count from now on
	Next    time.Time
	Error   string
	Reached []string
}

// EventNotice is an operational event that a channel wants.
type EventNotice struct {
	Event   hook.ID
	Channel hook.ID
	At      time.Time
}

// AlertLog reads alerts for people and takes their acknowledgements. Pending
// alerts, of which nobody was told, are hidden from it.
type AlertLog interface {
	// AlertByID returns an alert with its notifications, oldest first.
	AlertByID(ctx context.Context, tenant, id hook.ID) (hook.Alert, error)
	// ListAlerts returns alerts without notifications.
	ListAlerts(ctx context.Context, f AlertFilter, p Page) ([]hook.Alert, error)
	// AckAlert stores AckedBy, AckedAt, AckNote and SnoozedUntil of a while the
	// alert fires; else it fails with hook.ErrStateConflict.
	AckAlert(ctx context.Context, tenant hook.ID, a hook.Alert, record hook.Audit) (hook.Alert, error)
}

// AlertFilter selects alerts. Empty fields do not filter; values of one field are
// alternatives.
type AlertFilter struct {
	Tenant     hook.ID
	Endpoints  []hook.ID
	Statuses   []hook.AlertStatus
	Levels     []hook.AlertLevel
	Severities []hook.Severity
	Rules      []string
}

// AlertChannels keeps channels for people.
type AlertChannels interface {
	// CreateChannel fails with hook.ErrTooManyChannels when the tenant (or the
	// operator: 0) has most channels already, and with hook.ErrNotFound when there
	// is no such tenant.
	CreateChannel(ctx context.Context, c Channel, most int64, a hook.Audit) error
	ChannelByID(ctx context.Context, tenant, id hook.ID) (Channel, error)
	ListChannels(ctx context.Context, tenant hook.ID, p Page) ([]Channel, error)
	// UpdateChannel stores c if the stored Version is c.Version, else it fails with
	// hook.ErrVersionMismatch. Tenant and kind stay as they are. That the channel
	// failed says nothing about it as it is now, and is forgotten.
	UpdateChannel(ctx context.Context, c Channel, a hook.Audit) (Channel, error)
	// ChannelWorked forgets that a channel failed: it has just taken something.
	ChannelWorked(ctx context.Context, id hook.ID) error
	// DeleteChannel also ends its notices that wait, as skipped.
	DeleteChannel(ctx context.Context, tenant, id hook.ID, a hook.Audit) error
}

// Channel is a channel as it is stored.
type Channel struct {
	hook.Channel        // URL, Secret and Headers are empty: they are in Sealed
	Sealed       []byte // see vault.SealChannel

	FailingSince time.Time // its latest notice failed for good; zero: it works
	Error        string    // of that notice
	Dropped      int64     // operational events that it could not take in time
}

// AlertRetention removes alerts that are over.
type AlertRetention interface {
	// DropAlerts removes up to limit alerts that were resolved before a moment and
	// have no notice that waits, with their notices. It returns how many.
	DropAlerts(ctx context.Context, before time.Time, limit int) (int64, error)
}

// Alerting is all that a store does about alerts.
type Alerting interface {
	AlertBoard
	NoticeQueue
	AlertLog
	AlertChannels
	AlertRetention
}
