package receive

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/receiver"
)

// broken names the rule that a request has broken, and says what may have happened.
func (r *request) broken(err error) (rule, why string) {
	_, detail, _ := strings.Cut(err.Error(), ": ")
	switch {
	case errors.Is(err, receiver.ErrHeaders):
		return "headers", "headers incomplete: " + detail + "; keep all headers whose names begin with webhook-"
	case errors.Is(err, receiver.ErrTimestamp):
		return "timestamp", r.age(detail)
	case errors.Is(err, receiver.ErrSignature):
		return "signature", r.mismatch()
	default:
		return "body", err.Error()
	}
}

// age says how far a timestamp is off, and whether the rest would be right.
func (r *request) age(detail string) string {
	sent, ok := r.timestamp()
	if !ok {
		return "timestamp " + detail
	}
	limit := r.flags.tolerance.Round(time.Second)
	age := r.at.Sub(sent).Round(time.Second)
	why := fmt.Sprintf("timestamp %.0f s old (limit %.0f s)", age.Seconds(), limit.Seconds())
	if age < 0 {
		why = fmt.Sprintf("timestamp %.0f s ahead (limit %.0f s): is the clock right?", -age.Seconds(), limit.Seconds())
	}
	if r.keyOf(r.body) == 0 {
		return why + "; and no signature matches"
	}
	return why + "; the signature is right: for a request of that time use --at " + sent.UTC().Format(time.RFC3339)
}

// mismatch looks for what was done to the body, or what is wrong with the secret.
func (r *request) mismatch() string {
	for _, change := range changes {
		for _, body := range change.undo(r.body) {
			if !bytes.Equal(body, r.body) && r.keyOf(body) > 0 {
				return "body differs: signature matches " + change.name
			}
		}
	}
	versions := map[string]bool{}
	for signature := range strings.FieldsSeq(r.headers.Get("Webhook-Signature")) {
		version, _, _ := strings.Cut(signature, ",")
		versions[version] = true
	}
	public := 0
	for _, secret := range r.secrets {
		if strings.HasPrefix(secret, "whpk_") {
			public++
		}
	}
	switch {
	case r.headers.Get("Webhook-Signature") != "" && !versions["v1"] && !versions["v1a"]:
		return "signature differs: webhook-signature must hold v1,... or v1a,..."
	case versions["v1a"] && !versions["v1"] && public == 0:
		return "signature differs: it is of version v1a, which needs the public key of the endpoint (whpk_...)"
	case versions["v1"] && !versions["v1a"] && public == len(r.secrets):
		return "signature differs: it is of version v1, which needs the secret of the endpoint (whsec_...)"
	case len(r.body) == 0:
		return "body differs: it is empty; was it read before it was kept?"
	}
	return fmt.Sprintf("signature differs: no secret of %d fits these headers and %d bytes of body; is it the secret of this endpoint, and the body byte for byte?", len(r.secrets), len(r.body))
}

// changes are what usually happens to a body between the wire and a check.
var changes = []struct {
	name string
	undo func(body []byte) [][]byte
}{
	{"with trailing newline removed", func(b []byte) [][]byte {
		return [][]byte{bytes.TrimSuffix(b, []byte("\n")), bytes.TrimSuffix(b, []byte("\r\n")), bytes.TrimRight(b, "\r\n")}
	}},
	{"with white space around it removed", func(b []byte) [][]byte { return [][]byte{bytes.TrimSpace(b)} }},
	{"with a trailing newline added", func(b []byte) [][]byte {
		return [][]byte{append(bytes.Clone(b), '\n'), append(bytes.Clone(b), "\r\n"...)}
	}},
	{"with the byte order mark removed", func(b []byte) [][]byte { return [][]byte{bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))} }},
	{"with line ends changed (LF and CRLF)", func(b []byte) [][]byte {
		unix := bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
		return [][]byte{unix, bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n"))}
	}},
	{"with the body decoded from base64", func(b []byte) [][]byte {
		raw, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(b)))
		if err != nil {
			return nil
		}
		return [][]byte{raw}
	}},
	{"when the JSON is written in another way: check the raw bytes, before anything parses them", rewritten},
}

// rewritten returns the ways in which common libraries write the same JSON.
func rewritten(body []byte) (out [][]byte) {
	var compact bytes.Buffer
	if json.Compact(&compact, body) != nil {
		return nil
	}
	out = append(out, compact.Bytes(), spaced(compact.Bytes()))
	for _, indent := range []string{"  ", "    ", "\t"} {
		var b bytes.Buffer
		if json.Indent(&b, compact.Bytes(), "", indent) == nil {
			out = append(out, b.Bytes(), append(bytes.Clone(b.Bytes()), '\n'))
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return out
	}
	for _, escape := range []bool{true, false} {
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(escape)
		if encoder.Encode(value) == nil { // names sorted
			sorted := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
			out = append(out, sorted, spaced(sorted))
		}
	}
	return out
}

// spaced writes compact JSON with a space after every comma and colon.
func spaced(compact []byte) (out []byte) {
	inside, escaped := false, false
	for _, c := range compact {
		out = append(out, c)
		switch {
		case escaped:
			escaped = false
		case inside && c == '\\':
			escaped = true
		case c == '"':
			inside = !inside
		case !inside && (c == ',' || c == ':'):
			out = append(out, ' ')
		}
	}
	return out
}
