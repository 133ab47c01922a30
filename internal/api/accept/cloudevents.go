package accept

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/jsonscan"
)

// The media types of CloudEvents 1.0 in JSON: one, and a list of them.
const (
	cloudEventType  = "application/cloudevents+json"
	cloudEventsType = "application/cloudevents-batch+json"
)

// sentAs reports whether the body of a request has a media type.
func sentAs(h http.Header, media string) bool {
	given := h["Content-Type"]
	if len(given) == 0 || len(given[0]) < len(media) || !strings.EqualFold(given[0][:len(media)], media) {
		return false
	}
	got, _, err := mime.ParseMediaType(given[0])
	return err == nil && got == media
}

// cloudEvent are the attributes of a CloudEvent that mean something here. Of others,
// which its format allows, the names and kinds are checked.
type cloudEvent struct {
	specversion, id, source, typ string
	contentType                  string
	data, dataBase64             []byte // raw JSON; nil when absent
}

// maxAttributes bounds the attributes of a CloudEvent, data included.
const maxAttributes = 100

// decodeCloudEvent reads an event in the JSON format of CloudEvents 1.0. Payload
// aliases obj when it is JSON. Without an idempotency key of the request, source and id
// are one: together they tell events apart. Problems name the attribute.
func decodeCloudEvent(obj []byte, key, prefix string) (*decoded, error) {
	bad := &rest.Invalid{}
	ce := &cloudEvent{}
	if err := ce.readAll(bad, obj); err != nil {
		return nil, err
	}
	d := &decoded{}
	d.Type = ce.typ
	if bad.Err() == nil {
		ce.check(bad)
		ce.readData(bad, d)
	}
	if bad.Err() != nil {
		bad.Under(prefix)
		return nil, bad
	}
	d.Key = cmp.Or(key, keyOf(ce.source, ce.id))
	f := eventFields{typ: ce.typ, contentType: ce.contentType}
	d.ContentHash = f.contentHash(d.Payload)
	return d, nil
}

func (ce *cloudEvent) readAll(bad *rest.Invalid, obj []byte) error {
	list, ok := jsonscan.AppendMembers(nil, obj, maxAttributes+1)
	switch {
	case !ok:
		if err := rest.CheckJSON(obj); err != nil {
			return err
		}
		bad.Add("body", "wrong_type", "must be an object")
		return nil
	case len(list) > maxAttributes:
		bad.Add("body", "out_of_range", fmt.Sprintf("must have at most %d attributes", maxAttributes))
		return nil
	}
	seen := make(map[string]bool, len(list))
	for _, m := range list {
		if seen[m.Name] {
			bad.Add(m.Name, "not_allowed", "is given twice")
			continue
		}
		seen[m.Name] = true
		if string(m.Value) != "null" || m.Name == "data" { // null is how some say that it is not there
			ce.read(bad, m)
		}
	}
	return nil
}

func (ce *cloudEvent) read(bad *rest.Invalid, m jsonscan.Member) {
	switch m.Name {
	case "specversion":
		ce.specversion = readText(bad, m)
	case "id":
		ce.id = readText(bad, m)
	case "source":
		ce.source = readText(bad, m)
	case "type":
		ce.typ = readText(bad, m)
	case "datacontenttype":
		ce.contentType = readText(bad, m)
	case "data":
		ce.data = m.Value
	case "data_base64":
		ce.dataBase64 = m.Value
	case "time":
		if _, err := time.Parse(time.RFC3339, readText(bad, m)); err != nil && !bad.Names(m.Name) {
			bad.Add(m.Name, "invalid_format", "must be an RFC 3339 time")
		}
	case "subject", "dataschema":
		if readText(bad, m) == "" && !bad.Names(m.Name) {
			bad.Add(m.Name, "invalid", "must not be empty")
		}
	default:
		checkExtension(bad, m)
	}
}

// checkExtension checks an attribute that CloudEvents leaves to its users.
func checkExtension(bad *rest.Invalid, m jsonscan.Member) {
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	switch {
	case m.Name == "" || strings.ContainsFunc(m.Name, odd):
		bad.Add(m.Name, "unknown_field", "is not the name of an attribute: they have small letters and digits only")
	case m.Value[0] == '{' || m.Value[0] == '[':
		bad.Add(m.Name, "wrong_type", "must be a string, a number, true or false")
	}
}

// check checks what every CloudEvent must have.
func (ce *cloudEvent) check(bad *rest.Invalid) {
	switch ce.specversion {
	case "1.0":
	case "":
		bad.Add("specversion", "required", "is required")
	default:
		bad.Add("specversion", "invalid", "must be 1.0")
	}
	if ce.id == "" {
		bad.Add("id", "required", "is required")
	}
	if ce.source == "" {
		bad.Add("source", "required", "is required")
	}
	if ce.typ == "" {
		bad.Add("type", "required", "is required")
	} else if err := hook.CheckType(ce.typ); err != nil {
		bad.AddAs("type_invalid", "type", err.Error())
	}
}

// readData takes the payload: JSON as it is, the text of a string when it is said to be
// something else, or any bytes in base64. Without data it is null.
func (ce *cloudEvent) readData(bad *rest.Invalid, d *decoded) {
	media := rest.JSON
	if ce.contentType != "" {
		var err error
		media, _, err = mime.ParseMediaType(ce.contentType)
		switch {
		case err != nil || len(ce.contentType) > 255 || !printableASCII(ce.contentType):
			bad.Add("datacontenttype", "invalid_format", "must be a media type such as text/plain")
			return
		case hook.IsMarked(ce.contentType):
			bad.Add("datacontenttype", "not_allowed", "has a parameter that is ours")
			return
		}
	}
	d.ContentType = cmp.Or(ce.contentType, rest.JSON)
	switch {
	case ce.data != nil && ce.dataBase64 != nil:
		bad.Add("data_base64", "not_allowed", "cannot be given together with data")
	case ce.dataBase64 != nil:
		ce.readBinary(bad, d, media)
	case ce.data == nil:
		d.Payload, d.ContentType = []byte("null"), rest.JSON
	case isJSON(media):
		d.Payload = ce.data
	default:
		text, ok := jsonscan.Text(ce.data)
		if !ok {
			bad.Add("data", "wrong_type", "must be a string, because datacontenttype is not JSON; bytes go into data_base64")
		}
		d.Payload = []byte(text)
	}
}

func (ce *cloudEvent) readBinary(bad *rest.Invalid, d *decoded, media string) {
	text := readText(bad, jsonscan.Member{Name: "data_base64", Value: ce.dataBase64})
	plain, err := base64.StdEncoding.Strict().DecodeString(text)
	switch {
	case bad.Names("data_base64"):
	case err != nil:
		bad.Add("data_base64", "invalid_format", "must be standard base64 with padding")
	case ce.contentType == "":
		bad.Add("datacontenttype", "required", "is required with data_base64")
	case isJSON(media) && (!jsonscan.Valid(plain) || !utf8.Valid(plain)):
		bad.Add("data_base64", "invalid", "must be JSON in UTF-8, as datacontenttype says")
	}
	d.Payload = plain
}

// keyOf makes an idempotency key of source and id: both joined by a # where nobody
// could mistake it, else their hash.
func keyOf(source, id string) string {
	key := source + "#" + id
	if len(key) <= maxKeyChars && rest.VisibleASCII(key) && !strings.Contains(source, "#") {
		return key
	}
	sum := sha256.Sum256(appendPart(appendPart(nil, source), id))
	return "cloudevents:" + hex.EncodeToString(sum[:])
}
