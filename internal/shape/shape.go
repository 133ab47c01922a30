// Package shape makes what an endpoint is sent of an event: the payload as it is, or
// a body in a form that the endpoint's software expects.
//
// It is pure, and a body follows from the event alone: it is the same at every
// attempt, and whoever signs it signs the bytes that are sent. It reads no endpoint
// and sends nothing.
package shape

import (
	"encoding/base64"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// timeLayout is how bodies tell times: RFC 3339 in UTC, with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// Body returns the exact bytes that are sent of an event.
func Body(e *hook.Event, mode hook.BodyMode) []byte {
	switch mode {
	case hook.BodyEnvelope:
		return envelope(e)
	case hook.BodyCloudEvents:
		return cloudEvent(e)
	case hook.BodySlack:
		return slack(e)
	case hook.BodyDiscord:
		return discord(e)
	case hook.BodyTeams:
		return teams(e)
	default: // payload, and CloudEvents in binary mode
		return e.Payload
	}
}

// Type returns the media type of Body.
func Type(e *hook.Event, mode hook.BodyMode) string {
	switch mode {
	case hook.BodyEnvelope, hook.BodySlack, hook.BodyDiscord, hook.BodyTeams:
		return "application/json"
	case hook.BodyCloudEvents:
		return "application/cloudevents+json"
	default:
		return contentType(e)
	}
}

// Headers sets the headers that belong to the form of a body.
func Headers(e *hook.Event, mode hook.BodyMode, set func(name, value string)) {
	if mode == hook.BodyCloudEventsBinary {
		cloudEventHeaders(e, set)
	}
}

// Reserved reports whether a header of an endpoint would meet one of Headers.
func Reserved(mode hook.BodyMode, name string) bool {
	return mode == hook.BodyCloudEventsBinary && len(name) >= 3 && strings.EqualFold(name[:3], "ce-")
}

// contentType is that of the payload, as its publisher gave it.
func contentType(e *hook.Event) string {
	if e.ContentType == "" {
		return "application/json"
	}
	plain, _ := hook.CutHops(e.ContentType)
	return plain
}

func envelope(e *hook.Event) []byte {
	b := append(make([]byte, 0, len(e.Payload)+len(e.Type)+96), `{"type":"`...)
	b = append(b, e.Type...)
	b = append(b, `","timestamp":"`...)
	b = e.CreatedAt.UTC().AppendFormat(b, timeLayout)
	return appendData(append(b, '"'), e)
}

// appendData ends an object with the payload as its last member: as it is when it is
// JSON, which accepting has checked, else in base64.
func appendData(b []byte, e *hook.Event) []byte {
	if hook.IsJSON(e.ContentType) {
		b = append(b, `,"data":`...)
		b = append(b, e.Payload...)
		return append(b, '}')
	}
	b = append(b, `,"data_base64":"`...)
	b = base64.StdEncoding.AppendEncode(b, e.Payload)
	return append(b, `"}`...)
}
