package words

import (
	"maps"
	"slices"
)

// AlertRule is what people read for a rule of alerts.
type AlertRule struct {
	Word
	Do   string // what to do first; docs/alerts.md has the rest
	unit unit
	// below tells that the rule fires below its threshold.
	below bool
}

type unit int

const (
	state unit = iota // it is or it is not
	count
	ratio
	percent
	seconds
	size
)

// RuleOf is the word for a rule.
func RuleOf(rule string) AlertRule {
	r, known := rules[rule]
	r.API = rule
	if !known {
		r.unit = ratio
		if r.Word.Word = rule; rule == "" {
			r.Word.Word = None
		}
	}
	return r
}

// Rules lists the names of all rules, in order.
func Rules() []string { return slices.Sorted(maps.Keys(rules)) }

func rule(word, do string, u unit) AlertRule {
	return AlertRule{Word: Word{Word: word}, Do: do, unit: u}
}

func floor(word, do string, u unit) AlertRule {
	r := rule(word, do, u)
	r.below = true
	return r
}

var rules = map[string]AlertRule{
	"retry_storm":                rule("Retry storm", "Tell its owner which answers it gives. Pause it if the receiver asks for quiet.", ratio),
	"retry_queue_growing":        rule("Queue growing", "Look at its lane: is the breaker open, and what was the last error?", count),
	"endpoint_errors":            rule("Endpoint errors", "Look at its latest attempts and compare their beginning with a deployment of the receiver.", percent),
	"endpoint_failing":           rule("Endpoint failing", "Ask whoever runs it.", count),
	"breaker_open":               rule("Breaker open", "Nothing to do: it is probed by itself. Probe now if you know that it is back.", state),
	"breaker_open_long":          rule("Breaker open for long", "Ask whoever runs it; held deliveries expire in the end.", seconds),
	"hold_expiring":              rule("Held deliveries expire", "Bring the endpoint back, or raise breaker.max_hold.", percent),
	"endpoint_disabled":          rule("Endpoint disabled", "Resume it when it is back, or delete it.", state),
	"dead_letters_growing":       rule("New dead letters", "Look at them by reason. Replay them when the cause is gone.", count),
	"retry_rate":                 rule("Many retries", "Look at which errors the first attempts met.", percent),
	"dead_rate":                  rule("Many dead letters", "Look at the dead letters by reason, and replay them when the cause is gone.", percent),
	"success_rate":               floor("Low success rate", "Look at the dead letters by endpoint and reason.", percent),
	"attempts_to_success":        rule("Many attempts per success", "Look at which errors the failed attempts met.", ratio),
	"second_attempt_success":     floor("Second attempts fail", "Look at the reasons: failures last longer than the first wait.", percent),
	"delivery_latency_p99":       rule("Slow deliveries", "Look at what waits, and for what: pace, breaker or retries.", seconds),
	"long_retry":                 rule("Pending for long", "Look at which endpoints they wait for: one is down, paused or slow.", count),
	"replay_paused":              rule("Replay paused", "Look at the replay: it says whether it goes on by itself.", state),
	"dead_letters_expiring":      rule("Dead letters removed soon", "Replay what must still arrive, or discard it.", count),
	"retry_queue_growing_system": rule("Queues growing everywhere", "Look at which endpoints fail, and whether they share a cause.", count),
	"breakers_many":              rule("Many breakers open", "Look at our way out, DNS, or a host that they share.", count),
	"local_errors":               rule("Errors on our side", "Look at the log for local_error: memory, open files or keys.", count),
	"store_slow":                 rule("Slow store", "Look at the disk or the database: load, locks, a slow fsync.", seconds),
	"disk_low":                   floor("Little disk space", "Make room, or shorten retention.data.", size),
	"shard_unowned":              rule("Shards without an owner", "Look at which nodes live and can renew their leases.", seconds),
	"settle_stalled":             rule("Results not stored", "Look at the store and its writer.", seconds),
	"clock_skew":                 rule("Clock differs", "Look at the time synchronisation of the node.", seconds),
	"channel_failing":            rule("Channel failing", "Test it, and mend its address or secret.", count),
	"too_many_alerts":            rule("Too many alerts", "Look for a cause that they share.", count),
}

// SeverityOf is the badge of a severity.
func SeverityOf(severity string) Word { return severities.of(severity) }

// LevelOf is the word for what an alert is about.
func LevelOf(level string) Word { return levels.of(level) }

// AlertStatusOf is the badge of an alert.
func AlertStatusOf(status string) Word { return alertStatuses.of(status) }

// NoticeOf is the word for what a notice tells.
func NoticeOf(kind string) Word { return notices.of(kind) }

// NoticeResultOf is the badge of what became of a notice, or of a test of a channel.
func NoticeResultOf(result string) Word { return noticeResults.of(result) }

// ChannelOf is the word for how a channel reaches people.
func ChannelOf(kind string) Word { return channels.of(kind) }

// UnitOf is the word for the unit of a threshold.
func UnitOf(unit string) Word { return units.of(unit) }

var (
	severities = vocabulary{
		"page":    {Word: "Page", Class: bad, Icon: "storm", Meaning: "look now"},
		"warning": {Word: "Warning", Class: warn, Icon: "warnsev", Meaning: "look today"},
		"info":    {Word: "Info", Class: grey, Icon: "info", Meaning: "worth knowing"},
	}
	levels = vocabulary{
		"endpoint": {Word: "endpoint", Meaning: "for its owner"},
		"tenant":   {Word: "tenant", Meaning: "for whoever looks after the tenant"},
		"system":   {Word: "system", Meaning: "for the operator"},
	}
	alertStatuses = vocabulary{
		"firing":   {Word: "Firing", Class: bad, Icon: "storm"},
		"resolved": {Word: "Resolved", Class: ok, Icon: "delivering"},
		"pending":  {Word: "Pending", Class: grey, Icon: "wait", Meaning: "true, but not for long enough"},
	}
	notices = vocabulary{
		"firing":   {Word: "fired", Meaning: "the condition became true"},
		"repeat":   {Word: "repeated", Meaning: "it still fires, and nobody has acknowledged it"},
		"raised":   {Word: "raised", Meaning: "it is more severe now"},
		"flapping": {Word: "flapping", Meaning: "it fires and ends again and again; its end will be told"},
		"resolved": {Word: "resolved", Meaning: "the condition has been false for a while"},
		"folded":   {Word: "folded", Meaning: "told by the notice of another alert"},
	}
	noticeResults = vocabulary{
		"waiting": {Word: "waiting", Class: grey, Icon: "wait"},
		"sent":    {Word: "sent", Class: ok, Icon: "delivering"},
		"ok":      {Word: "arrived", Class: ok, Icon: "delivering"},
		"failed":  {Word: "failed", Class: bad, Icon: "permanent", Meaning: "in all its tries"},
		"skipped": {Word: "skipped", Class: grey, Icon: "disabled", Meaning: "it need not be sent any more"},
	}
	channels = vocabulary{
		"log":     {Word: "log", Meaning: "the server's own log"},
		"webhook": {Word: "webhook", Meaning: "a signed request to a URL"},
		"slack":   {Word: "Slack", Meaning: "a message in a channel of Slack"},
		"email":   {Word: "e-mail", Meaning: "a mail to each address"},
	}
	units = vocabulary{
		"count": {Word: "count"}, "number": {Word: "number"}, "percent": {Word: "%"}, "duration": {Word: "duration"},
	}
)
