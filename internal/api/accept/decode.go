package accept

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/jsonscan"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

const (
	maxAhead    = 30 * 24 * time.Hour // of deliver_at and delay
	maxTargets  = 1000
	maxKeyChars = 255
	maxBatch    = 1000
)

// decoded is an event as its publisher wrote it. Targets may be uids, which
// only the store can turn into ids.
type decoded struct {
	hook.Submission
	targets []string
}

// eventFields are the members of an event. Texts are kept as given: they are
// part of what an idempotency key stands for.
type eventFields struct {
	typ, deliverAt, delay  string
	contentType, key       string
	payload, payloadBase64 []byte // raw JSON; nil when absent
	targets                []string
}

// decodeEvent reads one event from JSON. Payload aliases obj when it is JSON.
// key is the idempotency key of the request; an event of a batch has its
// own. Problems name their fields, with prefix before the path.
func decodeEvent(obj []byte, inBatch bool, key, prefix string, now time.Time) (*decoded, error) {
	bad := &rest.Invalid{}
	f := &eventFields{}
	if err := f.readAll(bad, obj, inBatch); err != nil {
		return nil, err
	}
	d := &decoded{targets: f.targets}
	d.Type, d.Key = f.typ, cmp.Or(f.key, key)
	if err := hook.CheckType(f.typ); err != nil && !bad.Names("type") {
		bad.AddAs("type_invalid", "type", err.Error())
	}
	f.readPayload(bad, d)
	f.readTiming(bad, d, now)
	if f.key != "" && (len(f.key) > maxKeyChars || !rest.VisibleASCII(f.key)) {
		bad.Add("idempotency_key", "invalid", badKeyMessage)
	}
	if err := bad.Err(); err != nil {
		bad.Under(prefix)
		return nil, err
	}
	if d.Key != "" {
		d.ContentHash = f.contentHash(d.Payload)
	}
	return d, nil
}

var badKeyMessage = fmt.Sprintf("must have 1 to %d visible ASCII characters", maxKeyChars)

// readAll sorts the members of an event. Unknown and repeated ones are refused:
// either would be a misunderstanding. The error is about what is no JSON at all.
func (f *eventFields) readAll(bad *rest.Invalid, obj []byte, inBatch bool) error {
	var room [fewMembers]jsonscan.Member
	list, ok := jsonscan.AppendMembers(room[:0], obj, maxMembers)
	if !ok {
		if err := rest.CheckJSON(obj); err != nil {
			return err
		}
		bad.Add("body", "wrong_type", "must be an object")
		return nil
	}
	for i, m := range list {
		if slices.ContainsFunc(list[:i], func(o jsonscan.Member) bool { return o.Name == m.Name }) {
			bad.Add(m.Name, "not_allowed", "is given twice")
			continue
		}
		f.read(bad, m, inBatch)
	}
	return nil
}

const (
	// fewMembers is how many an event can have.
	fewMembers = 8
	// maxMembers is where reading an object ends: however many names are known,
	// more members than that have broken as many rules as an answer names.
	maxMembers = fewMembers + rest.MaxErrors
)

func (f *eventFields) read(bad *rest.Invalid, m jsonscan.Member, inBatch bool) {
	switch {
	case m.Name == "type":
		f.typ = readText(bad, m)
	case m.Name == "payload":
		f.payload = m.Value
	case m.Name == "payload_base64":
		f.payloadBase64 = m.Value
	case m.Name == "content_type":
		f.contentType = readText(bad, m)
	case m.Name == "deliver_at":
		f.deliverAt = readText(bad, m)
	case m.Name == "delay":
		f.delay = readText(bad, m)
	case m.Name == "endpoints":
		f.targets = readTargets(bad, m)
	case m.Name == "idempotency_key" && inBatch:
		if f.key = readText(bad, m); f.key == "" && !bad.Names(m.Name) {
			bad.Add(m.Name, "invalid", badKeyMessage)
		}
	default:
		bad.Add(m.Name, "unknown_field", "is not a known field")
	}
}

func readText(bad *rest.Invalid, m jsonscan.Member) string {
	s, ok := jsonscan.Text(m.Value)
	if !ok {
		bad.Add(m.Name, "wrong_type", "must be a string")
	}
	return s
}

func readTargets(bad *rest.Invalid, m jsonscan.Member) []string {
	items, ok := jsonscan.Elements(m.Value, maxTargets)
	switch {
	case !ok:
		bad.Add(m.Name, "wrong_type", "must be an array")
	case len(items) == 0 || len(items) > maxTargets:
		// An empty list would be read as "all that match" further on.
		bad.Add(m.Name, "out_of_range", fmt.Sprintf("must name 1 to %d endpoints", maxTargets))
		return nil
	}
	out := make([]string, 0, len(items))
	for i, it := range items {
		if bad.Full() {
			break
		}
		out = append(out, readText(bad, jsonscan.Member{Name: rest.At(m.Name, i), Value: it}))
	}
	return out
}

// readPayload takes the payload: raw JSON, or any bytes in base64.
func (f *eventFields) readPayload(bad *rest.Invalid, d *decoded) {
	switch {
	case f.payload != nil && f.payloadBase64 != nil:
		bad.Add("payload_base64", "not_allowed", "cannot be given together with payload")
	case f.payload != nil:
		if f.contentType != "" {
			bad.Add("content_type", "not_allowed", "goes with payload_base64 only: a payload is "+rest.JSON)
		}
		d.Payload = f.payload
		d.ContentType = rest.JSON
	case f.payloadBase64 != nil:
		f.readBinary(bad, d)
	default:
		bad.Add("payload", "required", "is required")
	}
}

func (f *eventFields) readBinary(bad *rest.Invalid, d *decoded) {
	text := readText(bad, jsonscan.Member{Name: "payload_base64", Value: f.payloadBase64})
	plain, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		bad.Add("payload_base64", "invalid_format", "must be standard base64 with padding")
	}
	media, _, err := mime.ParseMediaType(f.contentType)
	switch {
	case err != nil || len(f.contentType) > 255 || !printableASCII(f.contentType):
		bad.Add("content_type", "invalid_format", "must be a media type such as text/plain")
	case hook.IsMarked(f.contentType):
		bad.Add("content_type", "not_allowed", "has a parameter that is ours")
	case isJSON(media) && !bad.Names("payload_base64") && (!jsonscan.Valid(plain) || !utf8.Valid(plain)):
		// An envelope holds it as it is: anything else could end the member
		// early and add members of its own.
		bad.Add("payload_base64", "invalid", "must be JSON in UTF-8, as content_type says")
	}
	d.Payload, d.ContentType = plain, f.contentType
}

// isJSON reports whether a media type promises JSON.
func isJSON(media string) bool {
	return media == rest.JSON || strings.HasSuffix(media, "+json")
}

func printableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// readTiming takes deliver_at or delay. A time that has passed means now.
func (f *eventFields) readTiming(bad *rest.Invalid, d *decoded, now time.Time) {
	if f.deliverAt != "" && f.delay != "" {
		bad.Add("delay", "not_allowed", "cannot be given together with deliver_at")
		return
	}
	if f.deliverAt != "" {
		t, err := time.Parse(time.RFC3339, f.deliverAt)
		switch {
		case err != nil:
			bad.Add("deliver_at", "invalid_format", "must be an RFC 3339 time")
		case t.After(now.Add(maxAhead)):
			bad.Add("deliver_at", "out_of_range", "must be at most 30 days ahead")
		default:
			d.DeliverAt = t.UTC().Truncate(time.Microsecond)
		}
	}
	if f.delay != "" {
		delay, err := quantity.ParseDuration(f.delay)
		switch {
		case err != nil:
			bad.Add("delay", "invalid_format", err.Error())
		case delay < 0 || delay > maxAhead:
			bad.Add("delay", "out_of_range", "must be between 0s and 30d")
		default:
			d.Delay = delay
		}
	}
}

// contentHash covers everything but the idempotency key, as given. Every part
// is preceded by its length, so that no two events run together alike.
func (f *eventFields) contentHash(payload []byte) [32]byte {
	head := make([]byte, 0, 256)
	head = appendPart(head, f.typ)
	head = appendPart(head, strconv.Itoa(len(f.targets)))
	for _, t := range f.targets {
		head = appendPart(head, t)
	}
	head = appendPart(head, f.deliverAt)
	head = appendPart(head, f.delay)
	head = appendPart(head, f.contentType)
	head = binary.BigEndian.AppendUint64(head, uint64(len(payload)))
	h := sha256.New()
	h.Write(head)
	h.Write(payload)
	return [32]byte(h.Sum(nil))
}

func appendPart(b []byte, part string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
}

// ForEndpoint returns the submission of an event that goes to one endpoint,
// whatever types it takes. payload is JSON; key is the idempotency key of the
// request, empty for none.
func ForEndpoint(endpoint hook.ID, typ string, payload []byte, key string) (*hook.Submission, error) {
	if err := hook.CheckType(typ); err != nil {
		bad := &rest.Invalid{}
		bad.AddAs("type_invalid", "type", err.Error())
		return nil, bad
	}
	if key != "" && !rest.VisibleASCII(key) {
		return nil, rest.BadParameter("header.Idempotency-Key", badKeyMessage)
	}
	f := eventFields{typ: typ, targets: []string{hook.EndpointPrefix.Format(endpoint)}}
	return &hook.Submission{
		Type: typ, Payload: payload, ContentType: rest.JSON, Endpoints: []hook.ID{endpoint},
		Key: key, ContentHash: f.contentHash(payload),
	}, nil
}
