package alert

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// The names of rules that other parts know. Names are stored and are part of the
// API: they are never changed.
const (
	BreakerOpen    = "breaker_open"
	BreakersMany   = "breakers_many"
	HoldExpiring   = "hold_expiring"
	LongRetry      = "long_retry"
	LettersGrow    = "dead_letters_growing"
	LettersExpire  = "dead_letters_expiring"
	ChannelFailing = "channel_failing"
	TooManyAlerts  = "too_many_alerts"
)

const (
	info    = hook.SeverityInfo
	warning = hook.SeverityWarning
	page    = hook.SeverityPage

	day = 24 * time.Hour
)

func endpoint(steps ...hook.Severity) At { return At{hook.LevelEndpoint, steps} }
func tenant(steps ...hook.Severity) At   { return At{hook.LevelTenant, steps} }
func system(steps ...hook.Severity) At   { return At{hook.LevelSystem, steps} }

func samples(n float64, what string) Field {
	return Field{minSamples, n, 1, 1_000_000, Count, "least " + what + " in the window; with fewer the rule is silent"}
}

func percent(v float64, doc string) Field { return Field{"percent", v, 0.01, 100, Percent, doc} }

func lasting(v time.Duration) Field {
	return Field{forField, v.Seconds(), 0, 3600, Duration, "how long it must be true before anybody is told"}
}

func span(name string, v, low, high time.Duration, doc string) Field {
	return Field{name, v.Seconds(), low.Seconds(), high.Seconds(), Duration, doc}
}

func count(name string, v, low, high float64, doc string) Field {
	return Field{name, v, low, high, Count, doc}
}

// table is every rule. Rules about one endpoint come first.
var table = []*Rule{
	{
		Name:    "retry_storm",
		Meaning: "An endpoint gets far more retries than first attempts: its failures feed themselves.",
		Metric:  "retries against first attempts", Window: 15 * time.Minute, Healthy: "fewer retries than first attempts",
		At: []At{endpoint(page)},
		Fields: []Field{
			count("retries", 100, 1, 1_000_000, "fires above so many retries"),
			{"ratio", 5, 1, 1000, Number, "and above so many retries for each first attempt"},
		},
		query: "sum(breakwater_storms_active) > 0",
		judge: retryStorm,
	},
	{
		Name:    "retry_queue_growing",
		Meaning: "More and more deliveries of an endpoint wait for another attempt: a storm is forming.",
		Metric:  "deliveries that wait for another attempt or are held, against 5 minutes before", Healthy: "flat or falling",
		At: []At{endpoint(warning)},
		Fields: []Field{
			count("growth", 100, 1, 1_000_000, "fires above so many more"),
			{"factor", 1.5, 1, 100, Number, "and above so many times as many"},
			lasting(30 * time.Second),
		},
		query: "sum(breakwater_retry_queue_warnings) > 0",
		judge: queueGrowing,
	},
	{
		Name:    "endpoint_errors",
		Meaning: "Many first attempts at an endpoint fail.",
		Metric:  "share of first attempts that failed", Window: 15 * time.Minute, Healthy: "below 5 %",
		At:     []At{endpoint(warning)},
		Fields: []Field{percent(20, "fires above this share"), samples(20, "first attempts")},
		judge:  endpointErrors,
	},
	{
		Name:    "endpoint_failing",
		Meaning: "An endpoint fails again and again without a success in between.",
		Metric:  "failed attempts in a row", Healthy: "0",
		At:     []At{endpoint(warning)},
		Fields: []Field{count("failures", 5, 1, 1000, "fires from so many on")},
		judge:  endpointFailing,
	},
	{
		Name:    BreakerOpen,
		Meaning: "An endpoint's breaker opened: its deliveries are held until a probe succeeds.",
		Metric:  "state of the lane", Healthy: "closed",
		At:    []At{endpoint(warning)},
		judge: breakerOpen,
	},
	{
		Name:    "breaker_open_long",
		Meaning: "An endpoint has been down for long.",
		Metric:  "time since the breaker opened", Healthy: "closed",
		At:     []At{endpoint(page)},
		Fields: []Field{span("age", 30*time.Minute, time.Minute, 7*day, "fires when open for longer")},
		judge:  breakerOpenLong,
	},
	{
		Name:    HoldExpiring,
		Meaning: "Deliveries that an endpoint's breaker or pause holds will soon become dead letters.",
		Metric:  "time that the oldest delivery has been held, of breaker.max_hold", Healthy: "below 50 %",
		At: []At{endpoint(warning, page)},
		Fields: []Field{
			percent(50, "fires above this share"),
			{"page_percent", 90, 0.01, 100, Percent, "pages above this share"},
		},
		judge: holdExpiring,
	},
	{
		Name:    "endpoint_disabled",
		Meaning: "An endpoint was disabled: it answered 410, or did nothing but fail for disable_after.",
		Metric:  "state of the endpoint", Healthy: "active",
		At:    []At{endpoint(page), tenant(page)},
		judge: endpointDisabled,
	},
	{
		Name:    LettersGrow,
		Meaning: "Deliveries were given up.",
		Metric:  "new dead letters", Window: 15 * time.Minute, Healthy: "0",
		At:     []At{endpoint(warning), tenant(warning)},
		Fields: []Field{count("letters", 1, 1, 1_000_000, "fires from so many on")},
		Least:  time.Hour,
		query:  "sum(increase(breakwater_dead_letters_total[15m])) >= {letters}",
		judge:  deadLettersGrowing,
	},
	{
		Name:    "retry_rate",
		Meaning: "Many deliveries do not arrive at the first attempt.",
		Metric:  "share of what was delivered that needed a retry", Window: time.Hour, Healthy: "below 5 %",
		At:     []At{endpoint(warning), tenant(warning), system(warning)},
		Fields: []Field{percent(10, "fires above this share"), samples(100, "deliveries delivered")},
		query: `100 * sum(increase(breakwater_deliveries_settled_total{state="delivered",attempts!="1"}[1h])) / sum(increase(breakwater_deliveries_settled_total{state="delivered"}[1h])) > {percent}` +
			` and sum(increase(breakwater_deliveries_settled_total{state="delivered"}[1h])) >= {min_samples}`,
		judge: retryRate,
	},
	{
		Name:    "dead_rate",
		Meaning: "Too large a share of deliveries is given up.",
		Metric:  "dead letters of all deliveries that ended", Window: day, Healthy: "below 0.5 %",
		At:     []At{endpoint(warning), tenant(warning), system(page)},
		Fields: []Field{percent(1, "fires above this share"), samples(100, "deliveries that ended")},
		query: `100 * sum(increase(breakwater_deliveries_settled_total{state="dead"}[1d])) / sum(increase(breakwater_deliveries_settled_total{state=~"delivered|dead"}[1d])) > {percent}` +
			` and sum(increase(breakwater_deliveries_settled_total{state=~"delivered|dead"}[1d])) >= {min_samples}`,
		judge: deadRate,
	},
	{
		Name:    "success_rate",
		Meaning: "Too small a share of deliveries arrives.",
		Metric:  "deliveries delivered of all that ended", Window: time.Hour, Healthy: "99.5 % and more",
		At:     []At{tenant(warning), system(page)},
		Fields: []Field{percent(99, "fires below this share"), samples(100, "deliveries that ended")},
		query: `100 * sum(increase(breakwater_deliveries_settled_total{state="delivered"}[1h])) / sum(increase(breakwater_deliveries_settled_total{state=~"delivered|dead"}[1h])) < {percent}` +
			` and sum(increase(breakwater_deliveries_settled_total{state=~"delivered|dead"}[1h])) >= {min_samples}`,
		judge: successRate,
	},
	{
		Name:    "attempts_to_success",
		Meaning: "Deliveries need too many attempts.",
		Metric:  "mean attempts of deliveries that were delivered", Window: time.Hour, Healthy: "1.0 to 1.3",
		At: []At{endpoint(warning), system(warning)},
		Fields: []Field{
			{"attempts", 2, 1, 50, Number, "fires above this mean"},
			{"retries_per_delivery", 0, 0, 50, Number, "fires above this mean of retries instead, when it is not 0"},
			samples(100, "deliveries delivered"),
		},
		judge: attemptsToSuccess,
	},
	{
		Name:    "second_attempt_success",
		Meaning: "What fails once fails again: failures are not passing.",
		Metric:  "second attempts that delivered", Window: time.Hour, Healthy: "above 80 %",
		At:     []At{endpoint(info), system(info)},
		Fields: []Field{percent(60, "fires below this share"), samples(50, "second attempts")},
		judge:  secondAttemptSuccess,
	},
	{
		Name:    "delivery_latency_p99",
		Meaning: "Deliveries arrive late.",
		Metric:  "99th percentile of the time from due to delivered", Window: time.Hour, Healthy: "below 1 minute",
		At: []At{endpoint(warning), system(warning)},
		Fields: []Field{
			span("latency", 5*time.Minute, time.Second, 7*day, "fires above this time"),
			samples(100, "deliveries delivered"),
		},
		query: "histogram_quantile(0.99, sum by (le) (rate(breakwater_delivery_latency_seconds_bucket[1h]))) > {latency}" +
			" and sum(increase(breakwater_delivery_latency_seconds_count[1h])) >= {min_samples}",
		judge: deliveryLatency,
	},
	{
		Name:    LongRetry,
		Meaning: "Deliveries wait for very long.",
		Metric:  "deliveries pending for longer than the age since they were first due", Healthy: "below 10",
		At: []At{tenant(warning), system(warning)},
		Fields: []Field{
			span("age", day, time.Hour, 30*day, "what counts as long"),
			count("deliveries", 100, 1, 1_000_000, "fires above so many"),
		},
		judge: longRetry,
	},
	{
		Name:    "replay_paused",
		Meaning: "A replay paused itself because its destination fails; as a warning: it waits for a person.",
		Metric:  "state of the replay", Healthy: "running",
		At:    []At{tenant(info, warning)},
		judge: replayPaused,
	},
	{
		Name:    LettersExpire,
		Meaning: "Dead letters will soon be removed by retention and can then not be replayed.",
		Metric:  "dead letters that retention removes within the time", Healthy: "0",
		At: []At{tenant(warning)},
		Fields: []Field{
			span("within", 48*time.Hour, time.Hour, 30*day, "how long before they go"),
			count("letters", 1, 1, 1_000_000, "fires from so many on"),
		},
		judge: lettersExpiring,
	},
	{
		Name:    "retry_queue_growing_system",
		Meaning: "Over all endpoints, more deliveries fail than are drained.",
		Metric:  "all deliveries that wait for another attempt or are held, by the minute", Healthy: "flat or falling",
		At: []At{system(page)},
		Fields: []Field{
			count("minutes", 10, 2, 60, "fires when it grew in each of so many minutes"),
			count("depth", 100, 0, 1_000_000_000, "and is now above so many"),
		},
		judge: systemQueueGrowing,
	},
	{
		Name:    BreakersMany,
		Meaning: "Many breakers opened at about the same time: the cause is hardly theirs.",
		Metric:  "lanes opened within 5 minutes", Window: 5 * time.Minute, Healthy: "0",
		At: []At{system(page)},
		Fields: []Field{
			count("lanes", 5, 1, 1_000_000, "fires from so many on"),
			percent(10, "if they are at least this share of the lanes with traffic"),
		},
		query: `sum(increase(breakwater_breaker_transitions_total{to="open"}[5m])) >= {lanes}` +
			` and 100 * sum(increase(breakwater_breaker_transitions_total{to="open"}[5m])) / sum(breakwater_breakers) >= {percent}`,
		judge: breakersMany,
	},
	{
		Name:    "local_errors",
		Meaning: "Attempts fail on our side, before they reach a destination.",
		Metric:  "attempts that ended with local_error", Window: time.Minute, Healthy: "0",
		At:     []At{system(page)},
		Fields: []Field{count("errors", 3, 1, 1_000_000, "fires from so many a minute on")},
		query:  `sum(increase(breakwater_attempts_total{reason="local_error"}[1m])) >= {errors}`,
		judge:  localErrors,
	},
	{
		Name:    "store_slow",
		Meaning: "The store takes long to commit: accepting and settling wait for it.",
		Metric:  "99th percentile of commits in the last minute", Window: time.Minute, Healthy: "below 100 ms",
		At: []At{system(page)},
		Fields: []Field{
			span("p99", time.Second, 10*time.Millisecond, time.Minute, "fires above this time"),
			lasting(5 * time.Minute),
		},
		judge: storeSlow,
	},
	{
		Name:    "disk_low",
		Meaning: "The store's disk is nearly full; below store.disk_reserve new events are refused.",
		Metric:  "free space against store.disk_reserve", Healthy: "more than twice the reserve",
		At:     []At{system(page)},
		Fields: []Field{{"factor", 2, 1, 100, Number, "fires below so many times the reserve"}},
		judge:  diskLow,
	},
	{
		Name:    "shard_unowned",
		Meaning: "Nobody delivers to the endpoints of a shard: no node owns it.",
		Metric:  "time that a shard has been without an owner", Healthy: "0",
		At:     []At{system(page)},
		Fields: []Field{span("age", 30*time.Second, time.Second, time.Hour, "fires when it is longer")},
		judge:  shardUnowned,
	},
	{
		Name:    "settle_stalled",
		Meaning: "Results of attempts do not reach the store: after a crash they would be sent again.",
		Metric:  "age of the oldest result that is not stored", Healthy: "below 1 s",
		At:     []At{system(page)},
		Fields: []Field{span("age", 10*time.Second, time.Second, 10*time.Minute, "fires when it is older")},
		judge:  settleStalled,
	},
	{
		Name:    "clock_skew",
		Meaning: "A node's clock is off: its schedules and signatures carry wrong times.",
		Metric:  "offset of a node's clock from the database's", Healthy: "below 500 ms",
		At: []At{system(warning)},
		Fields: []Field{
			span("offset", 2*time.Second, 10*time.Millisecond, time.Hour, "fires above it, either way"),
			lasting(time.Minute),
		},
		judge: clockSkew,
	},
	{
		Name:    ChannelFailing,
		Meaning: "Notices over a channel failed in all their tries: those who watch it hear nothing.",
		Metric:  "channels whose latest notice failed", Healthy: "0",
		At:    []At{system(warning)},
		judge: channelFailing,
	},
	{
		Name:    TooManyAlerts,
		Meaning: "So many alerts are open that further ones are left out.",
		Metric:  "conditions that are true and have no alert", Healthy: "0",
		At: []At{system(warning)},
		// The board finds this one itself.
	},
}
