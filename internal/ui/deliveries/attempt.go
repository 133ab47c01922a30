package deliveries

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// attempt is the attempt that somebody looks at.
type attempt struct {
	view.Attempt
	Why      words.Why
	Tab      string // request, response, event
	Headers  []header
	MoreHead int // headers that are not shown
	Body     body
	Phases   []phase
	Status   string // 500 Internal Server Error
	Event    *view.Event
}

// header is a header of a request or an answer.
type header struct{ Name, Value string }

// phase is a part of a request.
type phase struct {
	Name    string
	Class   string // of the style sheet
	MS      float64
	From    float64 // percent
	Percent float64
}

const (
	// maxHeaders and maxHeader bound what is shown of headers.
	maxHeaders = 60
	maxHeader  = 500
)

// attemptOf reads what the chosen tab shows.
func attemptOf(v *site.Visit, a *view.Attempt) *attempt {
	c := &attempt{Attempt: *a, Tab: v.OneOf("tab", "response", "request", "event"), Phases: phasesOf(a)}
	if a.StatusCode != nil {
		c.Status = strings.TrimSpace(strconv.Itoa(*a.StatusCode) + " " + http.StatusText(*a.StatusCode))
	}
	raw := v.Query("raw") != ""
	switch c.Tab {
	case "request":
		c.Headers, c.MoreHead = headersOf(a.Request.Headers)
	case "response":
		c.Headers, c.MoreHead = headersOf(a.Response.Headers)
		c.Body = bodyOf(answerOf(a), raw)
		c.Body.Partial = a.Response.Truncated
		c.Body.Download = v.Frame.Link("/ui/deliveries/" + url.PathEscape(a.Delivery) + "/attempts/" + strconv.Itoa(a.Number) + "/response")
	case "event":
		c.Event = new(view.Event)
		if err := v.Get(v.API("events", a.Event), nil, c.Event); err != nil {
			c.Event = nil // it may be gone before its deliveries are
			return c
		}
		c.Body = payloadOf(v, c.Event)
	}
	return c
}

// answerOf returns the bytes of the answer that were kept.
func answerOf(a *view.Attempt) []byte {
	if len(a.Response.BodyBase64) > 0 {
		return a.Response.BodyBase64
	}
	return []byte(a.Response.Body)
}

// headersOf sorts headers by name, and shows no more than a page has room for.
func headersOf(all map[string][]string) (shown []header, more int) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, value := range all[name] {
			if len(shown) == maxHeaders {
				more++
				continue
			}
			shown = append(shown, header{words.Cut(strings.ToLower(name), maxHeader), words.Cut(value, maxHeader)})
		}
	}
	return shown, more
}

// phasesOf are the parts of a request on one scale.
func phasesOf(a *view.Attempt) []phase {
	p := a.Phases
	parts := []phase{{Name: "DNS", Class: "f-held", MS: p.DNS}, {Name: "connect", Class: "f-retry", MS: p.Connect}, {Name: "TLS", Class: "f-replay", MS: p.TLS}}
	before := p.DNS + p.Connect + p.TLS
	if p.FirstByte > before {
		parts = append(parts, phase{Name: "first byte", Class: "f-first", MS: p.FirstByte - before}, phase{Name: "body", Class: "f-ready", MS: max(a.LatencyMS-p.FirstByte, 0)})
	} else {
		parts = append(parts, phase{Name: "first byte", Class: "f-first", MS: p.FirstByte})
	}
	all := 0.0
	for _, part := range parts {
		all += part.MS
	}
	var out []phase
	at := 0.0
	for _, part := range parts {
		if part.MS <= 0 || all <= 0 {
			continue
		}
		part.From, part.Percent = at, part.MS/all*100
		at += part.Percent
		out = append(out, part)
	}
	return out
}

func responseFile(v *site.Visit) (site.File, error) {
	id := v.ID("id")
	var attempts site.List[view.Attempt]
	if err := v.Get(v.API("deliveries", id, "attempts"), nil, &attempts); err != nil {
		return site.File{}, err
	}
	for i := range attempts.Data {
		if a := &attempts.Data[i]; strconv.Itoa(a.Number) == v.ID("number") {
			return site.File{Name: a.ID + ".txt", Body: answerOf(a)}, nil
		}
	}
	return site.File{}, &site.Problem{Status: http.StatusNotFound, Detail: "The delivery has no such attempt."}
}
