package hook

import (
	"mime"
	"strconv"
	"strings"
)

// HeaderHops says on a delivery how many servers like this one its event has
// passed: 1 for an event that a publisher posted, one more for each delivery
// that posted it again. It ends loops that lead through other machines.
const HeaderHops = "Breakwater-Hops"

// MaxHops is how many deliveries one event may become, one after the other.
const MaxHops = 3

// hopsMark is the parameter of a stored content type that says how many hops
// an event has behind it. Nearly all have none, so that it needs no column.
const hopsMark = "; breakwater-hops="

// WithHops notes the hops of an event in its content type. 0 leaves it as it
// is.
func WithHops(contentType string, hops int) string {
	if hops == 0 {
		return contentType
	}
	return contentType + hopsMark + strconv.Itoa(hops)
}

// NamedMark is the parameter of a stored content type that says that the
// publisher named the endpoints that get the event. No other endpoint ever does.
const NamedMark = "; breakwater-named=1"

// WithNamed notes in the content type of an event, after its hops, that it is for
// the endpoints that were named.
func WithNamed(contentType string) string { return contentType + NamedMark }

// CutHops returns a content type as its publisher gave it, without any note, and
// the hops that are noted in it.
func CutHops(contentType string) (plain string, hops int) {
	contentType, _ = CutTrace(contentType)
	contentType = strings.TrimSuffix(contentType, NamedMark)
	plain, text, ok := strings.Cut(contentType, hopsMark)
	if !ok {
		return contentType, 0
	}
	hops, err := strconv.Atoi(text)
	if err != nil || hops < 0 {
		return contentType, 0
	}
	return plain, hops
}

// IsJSON reports whether a stored content type is one of JSON.
func IsJSON(contentType string) bool {
	plain, _ := CutHops(contentType)
	if plain == "" || plain == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(plain)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}
