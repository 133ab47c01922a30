package dispatch

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/egress"
)

// What is stored of an answer is the destination's choice, so all of it is
// bounded: per attempt, and, because the first few attempts tell the most, in
// all attempts of a delivery.
const (
	fullAnswers   = 3       // attempts of which the body is kept as far as the setting allows
	laterAnswer   = 1 << 10 // of the body of each attempt after them
	maxKeptHeader = 4 << 10 // names and values
	maxKeptText   = 1 << 10 // an error, a Retry-After

	// A value that short is no secret, and may stand anywhere by chance.
	leastSecret = 6
)

// record is what is stored of an answer.
type record struct {
	body      []byte
	header    http.Header
	truncated bool
}

// record bounds an answer to the given attempt and hides what of it repeats
// the endpoint's own headers: whoever may read attempts need not know them.
// The answer itself stays as it is.
func (t *destination) record(a *egress.Result, attempt int) record {
	r := record{body: a.Body, header: a.Header, truncated: a.Truncated}
	if attempt > fullAnswers && len(r.body) > laterAnswer {
		r.body, r.truncated = r.body[:laterAnswer:laterAnswer], true
	}
	r.header = bounded(r.header)
	for _, secret := range t.custom {
		if len(secret.Value) >= leastSecret {
			r.hide(secret.Value)
		}
	}
	return r
}

// hide masks a secret wherever it stands, and its beginning at the end of a
// body that was cut off.
func (r *record) hide(secret string) {
	if bytes.Contains(r.body, []byte(secret)) {
		r.body = bytes.ReplaceAll(r.body, []byte(secret), []byte(mask))
	}
	if r.truncated {
		for n := min(len(secret)-1, len(r.body)); n >= leastSecret; n-- {
			if bytes.HasSuffix(r.body, []byte(secret[:n])) {
				r.body = append(slices.Clone(r.body[:len(r.body)-n]), mask...)
				break
			}
		}
	}
	for name, values := range r.header {
		if !slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, secret) }) {
			continue
		}
		r.header = maps.Clone(r.header)
		values = slices.Clone(values)
		for i := range values {
			values[i] = strings.ReplaceAll(values[i], secret, mask)
		}
		r.header[name] = values
	}
}

const mask = "***"

// bounded keeps what fits of a header, by name, so that it is the same each
// time.
func bounded(h http.Header) http.Header {
	size := 0
	for name, values := range h {
		size += sizeOf(name, values)
	}
	if size <= maxKeptHeader {
		return h
	}
	kept, room := make(http.Header), maxKeptHeader
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if n := sizeOf(name, h[name]); n <= room {
			kept[name] = h[name]
			room -= n
		}
	}
	return kept
}

func sizeOf(name string, values []string) int {
	n := len(name)
	for _, v := range values {
		n += len(v)
	}
	return n
}

// brief cuts a text that a destination had a part in.
func brief(s string) string {
	if len(s) <= maxKeptText {
		return s
	}
	return strings.ToValidUTF8(s[:maxKeptText], "") + "…"
}
