package shape

import (
	"encoding/json"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// source is what a CloudEvent names as its source: with the id it is unique, and it
// stays the same wherever the server runs.
func source(e *hook.Event) string {
	return "urn:breakwater:tenant:" + hook.TenantPrefix.Format(e.TenantID)
}

// cloudEvent is the event in the structured mode of CloudEvents 1.0.
func cloudEvent(e *hook.Event) []byte {
	b := append(make([]byte, 0, len(e.Payload)+len(e.Type)+256), `{"specversion":"1.0","id":"`...)
	b = hook.EventPrefix.Append(b, e.ID)
	b = append(b, `","source":"`...)
	b = append(b, source(e)...)
	b = append(b, `","type":"`...)
	b = append(b, e.Type...)
	b = append(b, `","time":"`...)
	b = e.CreatedAt.UTC().AppendFormat(b, timeLayout)
	b = append(b, `","datacontenttype":`...)
	b = appendText(b, contentType(e))
	return appendData(b, e)
}

// cloudEventHeaders are those of the binary mode, in which the payload is the body.
func cloudEventHeaders(e *hook.Event, set func(name, value string)) {
	set("Ce-Specversion", "1.0")
	set("Ce-Id", hook.EventPrefix.Format(e.ID))
	set("Ce-Source", source(e))
	set("Ce-Type", e.Type)
	set("Ce-Time", e.CreatedAt.UTC().Format(timeLayout))
}

// appendText adds a JSON string.
func appendText(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil { // a string cannot fail
		return append(b, `""`...)
	}
	return append(b, quoted...)
}
