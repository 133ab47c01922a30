package view

import (
	"net/url"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Alert is a condition that a rule found to be true of a subject.
type Alert struct {
	ID            string         `json:"id"`
	Rule          string         `json:"rule" doc:"What each one means and what to do: docs/alerts.md."`
	Level         string         `json:"level" enum:"endpoint,tenant,system"`
	Severity      string         `json:"severity" enum:"page,warning,info" doc:"The highest since it fired."`
	Status        string         `json:"status" enum:"firing,resolved"`
	Stale         bool           `json:"stale" doc:"It fired when alerts were last judged, which nobody does now (alert.enabled is false): whether it still does is not known."`
	Subject       AlertSubject   `json:"subject"`
	Summary       string         `json:"summary"`
	Value         float64        `json:"value"`
	Threshold     float64        `json:"threshold" doc:"That the value has crossed."`
	Since         Stamp          `json:"since"`
	LastAt        Stamp          `json:"last_at" doc:"The condition was last seen true; up to a minute old."`
	ResolvedAt    Stamp          `json:"resolved_at"`
	Count         int            `json:"count" doc:"How often the condition became true."`
	Flapping      bool           `json:"flapping" doc:"It changed so often that only its end is told."`
	AckedBy       *string        `json:"acked_by" doc:"The key of who knows of it: it is repeated no more."`
	AckedAt       Stamp          `json:"acked_at"`
	AckNote       *string        `json:"ack_note"`
	SnoozedUntil  Stamp          `json:"snoozed_until" doc:"It is repeated again from then on; null: acknowledged until it is resolved."`
	Notifications []Notification `json:"notifications,omitempty" nullable:"false" doc:"What was sent, or is to be, oldest first; not in lists. A tenant's key sees those over its own channels."`
}

// AlertSubject is what an alert is about; all null: the whole server.
type AlertSubject struct {
	Tenant   *string `json:"tenant"`
	Endpoint *string `json:"endpoint"`
	Replay   *string `json:"replay"`
	Node     *string `json:"node"`
}

// Notification is a notice over a channel.
type Notification struct {
	Channel string  `json:"channel" doc:"ach_…, or log."`
	At      Stamp   `json:"at" doc:"It was decided."`
	Kind    string  `json:"kind" enum:"firing,repeat,raised,flapping,resolved,folded" doc:"folded: told by the notice of another alert."`
	Result  string  `json:"result" enum:"waiting,sent,failed,skipped"`
	Tries   int     `json:"tries"`
	Error   *string `json:"error" doc:"Of the last try."`
}

// LogChannel stands for the channel that is always there, and has no other id.
const LogChannel = "log"

// OfAlert shows an alert.
func OfAlert(a hook.Alert) Alert {
	s := a.Subject
	v := Alert{
		ID: hook.AlertPrefix.Format(a.ID), Rule: a.Rule, Level: a.Level.String(), Severity: a.Severity.String(), Status: a.Status.String(),
		Subject: AlertSubject{
			Tenant: IDOrNull(hook.TenantPrefix, s.Tenant), Endpoint: IDOrNull(hook.EndpointPrefix, s.Endpoint),
			Replay: IDOrNull(hook.ReplayPrefix, s.Replay), Node: IDOrNull(hook.NodePrefix, s.Node),
		},
		Summary: a.Summary, Value: Rounded(a.Value), Threshold: Rounded(a.Threshold), Since: Stamp(a.Since), LastAt: Stamp(a.LastAt), ResolvedAt: Stamp(a.ResolvedAt),
		Count: a.Count, Flapping: a.Flapping, AckedBy: Nullable(a.AckedBy), AckedAt: Stamp(a.AckedAt), AckNote: Nullable(a.AckNote),
		SnoozedUntil: Stamp(a.SnoozedUntil),
	}
	for _, n := range a.Notifications {
		v.Notifications = append(v.Notifications, Notification{
			Channel: ChannelID(n.Channel), At: Stamp(n.At), Kind: n.Kind.String(), Result: n.Result.String(), Tries: n.Tries, Error: Nullable(n.Error),
		})
	}
	return v
}

// ChannelID shows the id of a channel.
func ChannelID(id hook.ID) string {
	if id == hook.LogChannelID {
		return LogChannel
	}
	return hook.ChannelPrefix.Format(id)
}

// AlertChannel is a way over which alerts are sent.
type AlertChannel struct {
	ID                string            `json:"id"`
	Name              string            `json:"name"`
	Kind              string            `json:"kind" enum:"log,webhook,slack,email"`
	Tenant            *string           `json:"tenant" doc:"null: the operator's; else only what is about this tenant."`
	Levels            []string          `json:"levels" nullable:"false" doc:"Empty: all."`
	MinSeverity       *string           `json:"min_severity" doc:"null: all."`
	Rules             []string          `json:"rules" nullable:"false" doc:"Empty: all."`
	OperationalEvents []string          `json:"operational_events" nullable:"false" doc:"Patterns of the types it gets; empty: none."`
	SendResolved      bool              `json:"send_resolved"`
	URL               *string           `json:"url" doc:"The path of a Slack URL is write-only and reads as ***."`
	SecretLast4       *string           `json:"secret_last4"`
	Headers           map[string]string `json:"headers" doc:"Values are write-only and read as ***."`
	To                []string          `json:"to" nullable:"false"`
	FailingSince      Stamp             `json:"failing_since" doc:"Its latest notice failed in all its tries; null: it works."`
	Error             *string           `json:"error" doc:"Of that notice."`
	EventsDropped     int64             `json:"events_dropped" doc:"Operational events that it could not take in time."`
	CreatedAt         Stamp             `json:"created_at"`
	UpdatedAt         Stamp             `json:"updated_at"`
	Version           int64             `json:"version"`
}

// OfChannel shows a channel that was opened. last4 is the end of its secret.
func OfChannel(c store.Channel, last4 string) AlertChannel {
	v := AlertChannel{
		ID: ChannelID(c.ID), Name: c.Name, Kind: c.Kind.String(), Tenant: IDOrNull(hook.TenantPrefix, c.Tenant), Levels: []string{},
		Rules: orEmptyList(c.Rules), OperationalEvents: orEmptyList(c.OperationalEvents), SendResolved: c.SendResolved,
		URL: Nullable(ChannelURL(&c.Channel)), SecretLast4: Nullable(last4), Headers: maskHeaders(c.Headers), To: orEmptyList(c.To),
		FailingSince: Stamp(c.FailingSince), Error: Nullable(c.Error), EventsDropped: c.Dropped,
		CreatedAt: Stamp(c.CreatedAt), UpdatedAt: Stamp(c.UpdatedAt), Version: c.Version,
	}
	for _, l := range c.Levels {
		v.Levels = append(v.Levels, l.String())
	}
	if c.MinSeverity != 0 {
		v.MinSeverity = Nullable(c.MinSeverity.String())
	}
	return v
}

// ChannelURL shows the URL of a channel. That of a chat is all that is needed to
// post there, so only its host can be read.
func ChannelURL(c *hook.Channel) string {
	if c.Kind != hook.ChannelSlack || c.URL == "" {
		return c.URL
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return Masked
	}
	return u.Scheme + "://" + u.Host + "/" + Masked
}

func orEmptyList(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// ChannelTest is how the test of a channel went.
type ChannelTest struct {
	Result string `json:"result" enum:"ok,failed"`
	Detail string `json:"detail" doc:"What the other side said."`
}

// AlertRule is a rule with the thresholds that are in force.
type AlertRule struct {
	Name       string           `json:"name"`
	Meaning    string           `json:"meaning"`
	Metric     string           `json:"metric"`
	Healthy    string           `json:"healthy"`
	Window     *string          `json:"window" doc:"Over which the metric is taken; null: it is a state."`
	Enabled    bool             `json:"enabled"`
	Levels     []AlertRuleLevel `json:"levels" nullable:"false"`
	Thresholds []Threshold      `json:"thresholds" nullable:"false"`
	Runbook    string           `json:"runbook"`
}

// AlertRuleLevel is a level that a rule looks at.
type AlertRuleLevel struct {
	Level      string   `json:"level" enum:"endpoint,tenant,system"`
	Severities []string `json:"severities" nullable:"false" doc:"That of a new alert, and those it may rise to."`
}

// Threshold is one that is set as alerts.<rule>.<name>.
type Threshold struct {
	Name    string `json:"name"`
	Value   string `json:"value" doc:"As it is written in settings."`
	Default string `json:"default"`
	Bounds  string `json:"bounds"`
	Unit    string `json:"unit" enum:"count,number,percent,duration"`
	Doc     string `json:"doc"`
}
