package alert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Notice is what is to be sent over one channel.
type Notice struct {
	Alert   hook.Alert // as it was when the notice was decided
	Kind    hook.NoticeKind
	Channel hook.ID
	At      time.Time
	Tries   int // that an earlier evaluator made
}

func compareNotices(x, y Notice) int {
	return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.Alert.ID, y.Alert.ID), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Channel, y.Channel))
}

// LogChannelID is the id of the channel that is always there.
const LogChannelID = hook.LogChannelID

// LogChannel returns the channel that is always there: every alert, in the log.
func LogChannel() hook.Channel {
	return hook.Channel{ID: LogChannelID, Name: "log", Kind: hook.ChannelLog, SendResolved: true}
}

// Wants reports whether a channel is for an alert: of its level, at least as
// severe, about its tenant, by one of its rules.
func Wants(c *hook.Channel, a *hook.Alert) bool {
	return (len(c.Levels) == 0 || slices.Contains(c.Levels, a.Level)) &&
		a.Severity >= c.MinSeverity &&
		(c.Tenant == 0 || c.Tenant == a.Subject.Tenant) &&
		(len(c.Rules) == 0 || slices.Contains(c.Rules, a.Rule))
}

// Route returns the channels that an alert goes to, in order.
func Route(a *hook.Alert, channels []hook.Channel) []hook.ID {
	var out []hook.ID
	for i := range channels {
		if Wants(&channels[i], a) {
			out = append(out, channels[i].ID)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// tells reports whether people who got the notice believe that the alert fires.
func tells(n hook.Notification) bool {
	switch n.Kind {
	case hook.NoticeFiring, hook.NoticeRepeat, hook.NoticeRaised, hook.NoticeFlapping:
		return n.Result == hook.NoticeWaiting || n.Result == hook.NoticeSent
	default:
		return false
	}
}

// told are the channels that know the alert to fire: they want to hear of its end.
func told(a *hook.Alert) map[hook.ID]bool {
	out := make(map[hook.ID]bool)
	for _, n := range a.Notifications {
		switch {
		case tells(n):
			out[n.Channel] = true
		case n.Kind == hook.NoticeResolved:
			delete(out, n.Channel)
		}
	}
	return out
}

func waits(a *hook.Alert) bool {
	return slices.ContainsFunc(a.Notifications, func(n hook.Notification) bool { return n.Result == hook.NoticeWaiting })
}

// maxNotifications bounds what is kept of the notices of an alert that lasts. At
// least the latest of every channel stays.
const maxNotifications = 200

// trim drops the oldest notices that a later one of the same channel makes
// needless.
func trim(list []hook.Notification) []hook.Notification {
	spare := len(list) - maxNotifications
	if spare <= 0 {
		return list
	}
	out := list[:0:0]
	for i, n := range list {
		if spare > 0 && n.Result != hook.NoticeWaiting && superseded(n, list[i+1:]) {
			spare--
			continue
		}
		out = append(out, n)
	}
	return out
}

func superseded(n hook.Notification, later []hook.Notification) bool {
	return slices.ContainsFunc(later, func(o hook.Notification) bool {
		return o.Channel == n.Channel && (!tells(n) || tells(o) || o.Kind == hook.NoticeResolved)
	})
}

// Bounds of an acknowledgement.
const (
	MaxAckNote = 1000 // characters
	MinSnooze  = time.Minute
	MaxSnooze  = 7 * 24 * time.Hour
)

// Acknowledge notes that a person knows of a firing alert. It is repeated no more,
// or not before snooze has passed when that is not 0; its end is told all the same.
func Acknowledge(a *hook.Alert, by, note string, snooze time.Duration, now time.Time) error {
	var wrong []hook.FieldError
	if by == "" {
		wrong = append(wrong, hook.FieldError{Path: "by", Message: "must name who acknowledges"})
	}
	if utf8.RuneCountInString(note) > MaxAckNote {
		wrong = append(wrong, hook.FieldError{Path: "note", Message: fmt.Sprintf("must have at most %d characters", MaxAckNote)})
	}
	if snooze != 0 && (snooze < MinSnooze || snooze > MaxSnooze) {
		wrong = append(wrong, hook.FieldError{Path: "snooze", Message: "must be between 1m and 7d"})
	}
	if len(wrong) > 0 {
		return &hook.Invalid{Code: "validation_failed", Fields: wrong}
	}
	if a.Status != hook.AlertFiring {
		return fmt.Errorf("acknowledge alert: it is %s: %w", a.Status, hook.ErrStateConflict)
	}
	a.AckedBy, a.AckedAt, a.AckNote, a.SnoozedUntil = by, round(now), note, time.Time{}
	if snooze > 0 {
		a.SnoozedUntil = a.AckedAt.Add(snooze)
	}
	return nil
}

// round cuts a time to what is stored.
func round(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// maxNamed bounds what is remembered of things that a finding names.
const maxNamed = 200

// maxFolded is how many folded notices are named.
const maxFolded = 10

// foldedText tells which notices an alert stands for.
func foldedText(m *hook.AlertMemory) string {
	if m.Folded == 0 {
		return ""
	}
	names := make([]string, len(m.FoldedIDs))
	for i, id := range m.FoldedIDs {
		names[i] = hook.EndpointPrefix.Format(id)
	}
	more := ""
	if rest := m.Folded - len(names); rest > 0 {
		more = " and " + number(rest) + " more"
	}
	return fmt.Sprintf(" This stands for %s of breaker_open: %s%s.", of(m.Folded, "notice", "notices"), strings.Join(names, ", "), more)
}
