package words

import (
	"encoding/json"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// eventDetail has what operational events tell; which members there are depends
// on the type.
type eventDetail struct {
	Retries    *int64   `json:"retries"`
	First      *int64   `json:"first"`
	Ratio      float64  `json:"ratio"`
	Depth      *int64   `json:"depth"`
	AtLeast    bool     `json:"at_least"`
	Seconds    float64  `json:"seconds"`
	Lanes      *int64   `json:"lanes"`
	Opened     *int64   `json:"opened"`
	Reason     string   `json:"reason"`
	Percent    float64  `json:"percent_of_disable_after"`
	Doing      string   `json:"doing"`
	LogBytes   int64    `json:"log_bytes"`
	LimitBytes int64    `json:"limit_bytes"`
	Suppressed *int64   `json:"suppressed"` // events like it that were not told
	Count      *int64   `json:"count"`
	RetryAfter float64  `json:"retry_after_seconds"`
	Value      float64  `json:"value"`
	Changed    []string `json:"changed"`
	Cancelled  int64    `json:"cancelled"`
	Scheme     string   `json:"scheme"`
	Replay     string   `json:"replay"`
	Total      *int64   `json:"total"`
	Delivered  int64    `json:"delivered"`
	Failed     int64    `json:"failed"`
	Skipped    int64    `json:"skipped"`
	Key        string   `json:"key"`
	Scope      string   `json:"scope"`
	Name       string   `json:"name"`
	Node       string   `json:"node"`
	Shards     int64    `json:"shards"`
}

// EventSentence says what an operational event tells, after the name of its
// endpoint if that is known.
func EventSentence(e *view.OperationalEvent, name string) string {
	var d eventDetail
	if json.Unmarshal(e.Detail, &d) != nil {
		d = eventDetail{} // of another version: the type still says what happened
	}
	t := d.say(e.Type)
	if t == "" {
		t = OperationalOf(e.Type).Word
	}
	if d.Suppressed != nil && *d.Suppressed > 0 {
		t += ", and " + Count(*d.Suppressed, "time", "times") + " before that was not told"
	}
	if name != "" {
		return name + ": " + t
	}
	return start(t)
}

func (d *eventDetail) say(typ string) string {
	lasted := ""
	if d.Seconds > 0 {
		lasted = " after " + Duration(spanOf(d.Seconds*1000).Truncate(time.Second))
	}
	switch {
	case typ == "storm.started" && d.Retries != nil:
		first := int64(0)
		if d.First != nil {
			first = *d.First
		}
		return Count(*d.Retries, "retry", "retries") + ", " + Count(first, "first attempt", "first attempts")
	case typ == "storm.ended":
		return "retry storm ended" + lasted
	case typ == "retry_queue.growing" && d.Depth != nil, typ == "system.retry_queue.growing" && d.Depth != nil:
		return countMore(*d.Depth, d.AtLeast) + plural(*d.Depth, " waits", " wait") + " for another attempt, and the number grows"
	case typ == "retry_queue.settled", typ == "system.retry_queue.settled":
		return "the queue grows no more" + lasted
	case typ == "breaker.closed":
		return "breaker closed" + lasted
	case typ == "system.breakers.many" && d.Opened != nil && d.Lanes != nil:
		return Number(*d.Opened) + " of " + Count(*d.Lanes, "lane", "lanes") + " opened within 5 minutes"
	case typ == "endpoint.disabled" && d.Reason != "":
		return "disabled, because " + orElse(StatusReasonOf(d.Reason).Meaning, d.Reason)
	case typ == "endpoint.failing" && d.Percent > 0:
		return "it does nothing but fail; " + trim(d.Percent, 0) + " % of the time after which it is disabled are over"
	case typ == "store.damaged" && d.Doing != "":
		return "the store is damaged (" + d.Doing + ")"
	case typ == "store.log.growing" && d.LogBytes > 0:
		return "the log of the store has " + Size(d.LogBytes) + ", limit " + Size(d.LimitBytes)
	default:
		return d.sayChange(typ)
	}
}

// sayChange says what people, replays and nodes did, and what lanes met.
func (d *eventDetail) sayChange(typ string) string {
	switch {
	case typ == "breaker.probe_failed" && d.Reason != "":
		return "a probe failed: " + ReasonOf(d.Reason).Word.Word
	case typ == "lane.throttled" && d.RetryAfter > 0:
		return "it asked for " + Duration(spanOf(d.RetryAfter*1000)) + " of quiet"
	case typ == "delivery.dead_lettered" && d.Count != nil:
		why := ""
		if d.Reason != "" {
			why = ", the last one: " + EndReasonOf(d.Reason).Word
		}
		return Count(*d.Count, "delivery", "deliveries") + " given up" + why
	case typ == "dead_letters.growing" && d.Value > 0:
		return Count(int64(d.Value), "dead letter", "dead letters") + " came within a short time"
	case typ == "dead_letters.expiring" && d.Value > 0:
		return Count(int64(d.Value), "dead letter", "dead letters") + plural(int64(d.Value), " is", " are") + " removed soon"
	case typ == "endpoint.updated" && len(d.Changed) > 0:
		return "changed: " + list(d.Changed, 6)
	case typ == "endpoint.deleted" && d.Cancelled > 0:
		return "deleted, and " + Count(d.Cancelled, "delivery", "deliveries") + " with it"
	case typ == "endpoint.secret_rotated" && d.Scheme != "":
		return "secret rotated (" + d.Scheme + ")"
	case typ == "key.created" && d.Key != "":
		return "key " + d.Key + " made, " + d.Scope
	case typ == "key.revoked" && d.Key != "":
		return "key " + d.Key + " revoked, " + d.Scope
	case typ == "node.lease_lost" && d.Shards > 0:
		return "node " + orElse(d.Name, d.Node) + " lost " + Count(d.Shards, "shard", "shards")
	case typ == "node.lease_lost" && d.Name+d.Node != "":
		return "node " + orElse(d.Name, d.Node) + " could not renew its leases in time"
	case typ == "node.joined" && d.Name+d.Node != "":
		return "node " + orElse(d.Name, d.Node) + " joined"
	case typ == "node.left" && d.Name+d.Node != "":
		return "node " + orElse(d.Name, d.Node) + " left"
	default:
		return d.sayReplay(typ)
	}
}

// sayReplay says how far a replay is.
func (d *eventDetail) sayReplay(typ string) string {
	if d.Replay == "" {
		return ""
	}
	switch typ {
	case "replay.started":
		if d.Total != nil {
			return "replay of " + Count(*d.Total, "delivery", "deliveries") + " began"
		}
	case "replay.paused":
		if d.Reason != "" {
			return "replay paused: " + PauseReasonOf(d.Reason).Word
		}
	case "replay.finished", "replay.cancelled":
		verb := map[string]string{"replay.finished": "done", "replay.cancelled": "cancelled"}[typ]
		return "replay " + verb + ": " + Number(d.Delivered) + " delivered, " + Number(d.Failed) + " failed, " + Number(d.Skipped) + " skipped"
	}
	return ""
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
