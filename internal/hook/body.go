package hook

import (
	"encoding/base64"
	"mime"
	"strings"
)

// Body returns the exact bytes that are sent of an event. The envelope is built from
// the event alone, so it is the same at every attempt.
func (e *Event) Body(mode BodyMode) []byte {
	if mode != BodyEnvelope {
		return e.Payload
	}
	b := append(make([]byte, 0, len(e.Payload)+len(e.Type)+96), `{"type":"`...)
	b = append(b, e.Type...)
	b = append(b, `","timestamp":"`...)
	b = e.CreatedAt.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
	if contentType, _ := CutHops(e.ContentType); isJSON(contentType) {
		b = append(b, `","data":`...)
		b = append(b, e.Payload...)
		return append(b, '}')
	}
	b = append(b, `","data_base64":"`...)
	b = base64.StdEncoding.AppendEncode(b, e.Payload)
	return append(b, `"}`...)
}

// BodyType returns the media type of Body.
func (e *Event) BodyType(mode BodyMode) string {
	if mode == BodyEnvelope || e.ContentType == "" {
		return "application/json"
	}
	plain, _ := CutHops(e.ContentType)
	return plain
}

func isJSON(contentType string) bool {
	if contentType == "" || contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}
