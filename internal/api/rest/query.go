package rest

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// readQuery parses the query string and refuses what the route does not know:
// a misspelt filter would otherwise select everything.
func (c *Call) readQuery(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return BadParameter("query", "is malformed")
	}
	unknown := &Invalid{}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		repeats, known := c.route.params[name]
		switch {
		case !known:
			unknown.Add("query."+name, "unknown_parameter", "is not a known parameter")
		case len(q[name]) > 1 && !repeats:
			return BadParameter("query."+name, "may be given once only")
		case len(q[name]) > maxRepeats:
			return BadParameter("query."+name, "is repeated too often")
		case slices.ContainsFunc(q[name], notPlain):
			return BadParameter("query."+name, "must be UTF-8 without control characters")
		}
	}
	c.query = q
	return unknown.Err()
}

// maxRepeats bounds the alternatives of one filter.
const maxRepeats = 100

// notPlain finds text that Postgres could not even compare.
func notPlain(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl)
}

// PageParams are the parameters of every list. Parameter types have exported
// names because huma skips embedded types whose name is not.
type PageParams struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"250" default:"50" doc:"Items per page."`
	Cursor string `query:"cursor" maxLength:"256" doc:"next_cursor of the page before; valid for the same filter and order."`
	Order  string `query:"order" enum:"desc,asc" default:"desc" doc:"By creation."`
}

// WindowParams select a time window.
type WindowParams struct {
	Since string `query:"since" maxLength:"64" doc:"RFC 3339 time, or a duration meaning that long ago (24h, 7d); inclusive."`
	Until string `query:"until" maxLength:"64" doc:"As since; exclusive."`
}

// Times returns the window, zero where it is open.
func (p WindowParams) Times(now time.Time) (since, until time.Time, err error) {
	if since, err = parseMoment("query.since", p.Since, now); err != nil {
		return since, until, err
	}
	until, err = parseMoment("query.until", p.Until, now)
	return since, until, err
}

func parseMoment(path, s string, now time.Time) (time.Time, error) {
	t, ok := readMoment(s, now)
	if !ok {
		return t, BadParameter(path, badMoment)
	}
	return t, nil
}

const badMoment = "must be an RFC 3339 time or a duration such as 24h or 7d"

// readMoment reads a time or a duration before now; nothing is no moment.
func readMoment(s string, now time.Time) (t time.Time, ok bool) {
	if s == "" {
		return t, true
	}
	if d, err := quantity.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), true
	}
	t, err := time.Parse(time.RFC3339, s)
	return t.UTC(), err == nil
}

// Moment reads a time of a body, or a duration before now.
func (e *Invalid) Moment(path, s string, now time.Time) time.Time {
	t, ok := readMoment(s, now)
	if !ok {
		e.Add(path, "invalid_format", badMoment)
	}
	return t
}
