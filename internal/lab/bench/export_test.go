package bench

import (
	"bytes"
	"time"
)

// Conclude lets tests of the report make one.
func (r *Report) Conclude(now time.Time) { r.conclude(now) }

// Event returns an event of the benchmark as it is posted.
func Event(payload, group int, number int64, sent time.Duration) []byte {
	row := Row{Payload: payload, Batch: 1}
	m := newMessage(&site{}, "host", &row, newRandom(group))
	m.stamp(0, group, number, sent)
	_, body, _ := bytes.Cut(m.raw, []byte("\r\n\r\n"))
	return body
}

// ReadStamp reads what Event wrote.
var ReadStamp = readStamp

// MinPayload is the smallest payload.
const MinPayload = minPayload
