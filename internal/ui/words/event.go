package words

import (
	"encoding/json"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// eventDetail has what operational events tell; which members there are depends
// on the type.
type eventDetail struct {
	Retries    *int64  `json:"retries"`
	First      *int64  `json:"first"`
	Ratio      float64 `json:"ratio"`
	Depth      *int64  `json:"depth"`
	AtLeast    bool    `json:"at_least"`
	Seconds    float64 `json:"seconds"`
	Lanes      *int64  `json:"lanes"`
	Opened     *int64  `json:"opened"`
	Reason     string  `json:"reason"`
	Percent    float64 `json:"percent_of_disable_after"`
	Doing      string  `json:"doing"`
	LogBytes   int64   `json:"log_bytes"`
	LimitBytes int64   `json:"limit_bytes"`
	Suppressed *int64  `json:"suppressed"` // events like it that were not told
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
		return ""
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
