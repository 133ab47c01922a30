package store

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// AppendDetail appends d as the JSON document that encoding/json would make,
// but for the order of headers. Every attempt is written with one, and
// reflection over two maps costs more than the rest of its row.
func AppendDetail(dst []byte, d *hook.AttemptDetail) []byte {
	o := object{dst: append(dst, '{')}
	o.text("url", d.URL)
	o.headers("request_headers", d.RequestHeaders)
	o.headers("response_headers", d.ResponseHeaders)
	o.flag("truncated", d.Truncated)
	o.text("remote_addr", d.RemoteAddr)
	o.text("retry_after", d.RetryAfter)
	o.flag("retry_after_capped", d.RetryAfterCapped)
	o.text("lane_state", d.LaneState)
	if d.LaneLimit != 0 {
		o.name("lane_limit")
		o.dst = strconv.AppendFloat(o.dst, d.LaneLimit, 'g', -1, 64)
	}
	o.number("lane_in_flight", int64(d.LaneInFlight))
	if d.Phases != (hook.Phases{}) {
		o.phases(d.Phases)
	}
	return append(o.dst, '}')
}

// object appends the members of a JSON object, leaving empty ones out.
type object struct {
	dst  []byte
	some bool
}

func (o *object) name(name string) {
	if o.some {
		o.dst = append(o.dst, ',')
	}
	o.some = true
	o.dst = appendText(o.dst, name)
	o.dst = append(o.dst, ':')
}

func (o *object) text(name, value string) {
	if value != "" {
		o.name(name)
		o.dst = appendText(o.dst, value)
	}
}

func (o *object) flag(name string, value bool) {
	if value {
		o.name(name)
		o.dst = append(o.dst, "true"...)
	}
}

func (o *object) number(name string, value int64) {
	if value != 0 {
		o.name(name)
		o.dst = strconv.AppendInt(o.dst, value, 10)
	}
}

func (o *object) phases(p hook.Phases) {
	o.name("phases")
	inner := object{dst: append(o.dst, '{')}
	for _, phase := range [...]struct {
		name string
		time.Duration
	}{{"dns_ns", p.DNS}, {"connect_ns", p.Connect}, {"tls_ns", p.TLS}, {"first_byte_ns", p.FirstByte}} {
		inner.number(phase.name, int64(phase.Duration))
	}
	inner.dst = append(inner.dst, '}')
	o.dst = inner.dst
}

func (o *object) headers(name string, headers map[string][]string) {
	if len(headers) == 0 {
		return
	}
	o.name(name)
	inner := object{dst: append(o.dst, '{')}
	for key, values := range headers {
		inner.name(key)
		inner.dst = append(inner.dst, '[')
		for i, v := range values {
			if i > 0 {
				inner.dst = append(inner.dst, ',')
			}
			inner.dst = appendText(inner.dst, v)
		}
		inner.dst = append(inner.dst, ']')
	}
	inner.dst = append(inner.dst, '}')
	o.dst = inner.dst
}

// appendText appends a JSON string. Plain ASCII needs no escaping; anything
// else is left to encoding/json.
func appendText(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // strings always encode
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
