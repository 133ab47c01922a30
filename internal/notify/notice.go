package notify

import (
	"context"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Key names a notice. An alert has at most one for each channel, moment and
// kind; an operational event has one for each channel.
type Key struct {
	Alert   hook.ID // 0: the notice is about an operational event
	Event   hook.ID // 0: the notice is about an alert
	Channel hook.ID
	Kind    hook.NoticeKind // 0 for an operational event
	At      time.Time       // it was decided
}

// Notice is something to tell over a channel.
type Notice struct {
	Channel hook.Channel // with its secret and headers in the clear

	// One of the two is set: the alert as it is now, or what happened.
	Alert *hook.Alert
	Event *hook.OperationalEvent

	Kind hook.NoticeKind // of a notice about an alert
	At   time.Time       // it was decided

	// Tries counts those that have begun, also the ones of which nobody knows how
	// they ended.
	Tries int
	// Reached are the addresses of an e-mail channel that have it from earlier
	// tries.
	Reached []string

	// Endpoint is the URL of the endpoint it is about, and Tenant the name of its
	// tenant, for people to read. Both may be empty.
	Endpoint string
	Tenant   string

	test bool // nothing is wrong: somebody tries the channel
}

// word names the kind of the notice.
func (n *Notice) word() string {
	if n.test {
		return "test"
	}
	return n.Kind.String()
}

// Key returns the name of the notice.
func (n *Notice) Key() Key {
	k := Key{Channel: n.Channel.ID, Kind: n.Kind, At: n.At}
	if n.Event != nil {
		k.Event, k.Kind = n.Event.ID, 0
	}
	if n.Alert != nil {
		k.Alert = n.Alert.ID
	}
	return k
}

// id is what receivers drop doubles by: the same for every try of a notice, and
// another one for every other notice to the same receiver. It holds no dot.
func (n *Notice) id() string {
	if n.Event != nil {
		return hook.OperationalPrefix.Format(n.Event.ID)
	}
	return n.thread() + "_" + n.word() + "_" + strconv.FormatInt(n.At.UnixMicro(), 10)
}

// thread is common to all notices of an alert.
func (n *Notice) thread() string { return hook.AlertPrefix.Format(n.Alert.ID) }

// Outcome is what became of a try.
type Outcome struct {
	// Result is Waiting when there will be another try at Next. Sent clears what
	// was said about the channel; Failed means that the channel is failing, which
	// is to be told over the other ones. Skipped says nothing about the channel.
	Result hook.NoticeResult
	Tries  int // to count from now on: those that have begun, less one called off
	Next   time.Time
	// Error says what went wrong and is safe to show to the owner of the channel. A
	// notice that was sent may have one, too: a single address was refused.
	Error   string
	Reached []string // see Notice
}

// Queue holds the notices that are still to be sent, beside the alerts they
// belong to. All of its methods may be called at the same time.
type Queue interface {
	// Due returns up to limit notices whose next try is due at now, longest due
	// first, leaving out the channels in busy. Of the notices of one alert for one
	// channel it returns only the earliest that has not ended, so that an end never
	// overtakes its beginning. A node that does not own shard 0 gets none.
	Due(ctx context.Context, now time.Time, busy []hook.ID, limit int) ([]Notice, error)

	// Begin notes that the next try begins: one more than tries, the number that
	// Due gave. Unless End follows, the notice is due again at again. It returns
	// false, and nothing may be sent, when tries is not the number that is stored,
	// when the notice has ended, or when this node may send no longer.
	Begin(ctx context.Context, key Key, tries int, again time.Time) (bool, error)

	// End notes what became of the notice, durably and once: an outcome of a notice
	// that has ended, or is gone, changes nothing and is no error.
	End(ctx context.Context, key Key, out Outcome) error
}

// WantsEvent reports whether an operational event goes over a channel. Only
// webhook channels get any, and those of a tenant only what is about it.
func WantsEvent(ch *hook.Channel, e *hook.OperationalEvent) bool {
	if ch.Kind != hook.ChannelWebhook || ch.Tenant != 0 && ch.Tenant != e.TenantID {
		return false
	}
	for _, pattern := range ch.OperationalEvents {
		if hook.MatchType(pattern, string(e.Type)) {
			return true
		}
	}
	return false
}
