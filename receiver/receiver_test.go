package receiver_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/receiver"
)

// The published test vectors.
const (
	id       = "evt_01JQ8Z6V5T3M9K2X7C4B1N0RAW"
	unixTime = 1767225600
	keyA     = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	keyB     = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3"
	publicE  = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
	body     = `{"type":"order.paid","timestamp":"2026-01-01T00:00:00Z","data":{"order":"A-1001","total":4200}}`

	v1A     = "v1,qbNG4se8NEnjXC81w1x8mZUFM7jiRjNaMKYshLZYlMM="
	v1B     = "v1,W5OaoWOOzy+qj/WabYsUt0Z6kkD6wCQ68fBnI7Eu5yU="
	v1aE    = "v1a,ioUPR7niZNikgrKmrPwhDwsj64eQGVAd1n46VQw9bT0TOCClfh49O6kwEZ19CfLYPnDB/yEB4xa9zuuMazVmAA=="
	stripeA = "v1=40c8e7e0d444e04c349c802d243277c4ad5c3a64661fc8fbbc33affe2d78d943"
	stripeB = "v1=9641a7546e27a077e15a81a2fb1fe186b91913a8a1bc8877547f97b91defd5f4"

	stripeHeader = "X-Acme-Signature"
)

var sentAt = time.Unix(unixTime, 0)

func newVerifier(t testing.TB, change func(*receiver.Config)) *receiver.Verifier {
	t.Helper()
	cfg := receiver.Config{Secrets: []string{keyA}, Now: func() time.Time { return sentAt }}
	if change != nil {
		change(&cfg)
	}
	v, err := receiver.New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return v
}

func headers(signature string) http.Header {
	h := http.Header{}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", strconv.Itoa(unixTime))
	h.Set("webhook-signature", signature)
	return h
}

func withSecrets(secrets ...string) func(*receiver.Config) {
	return func(c *receiver.Config) { c.Secrets = secrets }
}

func withStripe(secrets ...string) func(*receiver.Config) {
	return func(c *receiver.Config) { c.Secrets, c.StripeHeader = secrets, "x-acme-signature" }
}

func TestVerifyReturnsTheEvent(t *testing.T) {
	t.Parallel()
	h := headers(v1A)
	h.Set("breakwater-delivery", "dlv_07b925m000w00")
	h.Set("breakwater-attempt", "3")
	got, err := newVerifier(t, nil).Verify(h, []byte(body))
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	want := receiver.Event{
		ID: id, Type: "order.paid", DeliveryID: "dlv_07b925m000w00", Attempt: 3,
		Timestamp: sentAt, Body: []byte(body),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event differs (-want +got):\n%s", diff)
	}
}

func TestVerifyAccepts(t *testing.T) {
	t.Parallel()
	twenty := strings.Repeat("v1,AAAA ", 19)
	for name, tc := range map[string]struct {
		config    func(*receiver.Config)
		signature string
		body      string
	}{
		"v1":                               {nil, v1A, body},
		"v1, empty body":                   {nil, "v1,twVsW7mQMnmqYoQD6tUmR7yI3+HpFTgwk+X/LT7Gb3Q=", ""},
		"v1, UTF-8 and newline":            {nil, "v1,iBTHtiVHrUvX5duVqudiP+15gIK/DNWrnDaUray2h9c=", "{\"a\":\"h\u00e9\"}\n"},
		"v1a":                              {withSecrets(publicE), v1aE, body},
		"sender rotates, we have the old":  {nil, v1B + " " + v1A, body},
		"sender rotates, we have the new":  {withSecrets(keyB), v1B + " " + v1A, body},
		"we rotate, sender has the old":    {withSecrets(keyB, keyA), v1A, body},
		"both kinds, v1 fits":              {withSecrets(publicE, keyA), v1A, body},
		"both kinds, v1a fits":             {withSecrets(keyB, publicE), v1A + " " + v1aE, body},
		"unknown versions are skipped":     {nil, "v2,AAAA v9z v1x,AAAA , " + v1A, body},
		"v1a without a public key":         {nil, v1aE + " " + v1A, body},
		"malformed ones are skipped":       {nil, "v1, v1 ,, v1a,!!! v1," + strings.Repeat("A", 5000) + " " + v1A, body},
		"double and trailing spaces":       {nil, "  " + v1A + " ", body},
		"the twentieth":                    {nil, twenty + v1A, body},
		"the Stripe header is not in play": {withStripe(keyA), v1A, body},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := newVerifier(t, tc.config).Verify(headers(tc.signature), []byte(tc.body)); err != nil {
				t.Errorf("Verify: %v", err)
			}
		})
	}
}

func TestVerifyRefusesSignatures(t *testing.T) {
	t.Parallel()
	flipped := strings.Replace(v1A, "qbNG", "qbNH", 1)
	for name, tc := range map[string]struct {
		config    func(*receiver.Config)
		signature string
	}{
		"another secret":             {withSecrets(keyB), v1A},
		"one bit":                    {nil, flipped},
		"no value":                   {nil, "v1,"},
		"no comma":                   {nil, "v1"},
		"only unknown versions":      {nil, "v2,AAAA"},
		"right value, wrong version": {nil, strings.Replace(v1A, "v1,", "v2,", 1)},
		"right value, v1a":           {withSecrets(keyA, publicE), strings.Replace(v1A, "v1,", "v1a,", 1)},
		"v1a value as v1":            {withSecrets(keyA, publicE), strings.Replace(v1aE, "v1a,", "v1,", 1)},
		"upper case version":         {nil, strings.Replace(v1A, "v1,", "V1,", 1)},
		"v1a only, no public key":    {nil, v1aE},
		"v1 only, public key only":   {withSecrets(publicE), v1A},
		"v1a altered":                {withSecrets(publicE), strings.Replace(v1aE, "ioUP", "ioUQ", 1)},
		"without padding":            {nil, strings.TrimRight(v1A, "=")},
		"other trailing bits":        {nil, strings.Replace(v1A, "lMM=", "lMN=", 1)},
		"text after it":              {nil, v1A + "A"},
		"third field":                {nil, v1A + ",x"},
		"hexadecimal":                {nil, "v1,a9b346e2c7bc3449e35c2f35c35c7c99950533b8e246335a30a62c84b65894c3"},
		"beyond the twentieth":       {nil, strings.Repeat("v1,AAAA ", 20) + v1A},
		"Stripe value in its place":  {withStripe(keyA), "t=1767225600," + stripeA},
		"a comma instead of a space": {nil, v1B + "," + v1A},
		"a tab instead of a space":   {nil, v1B + "\t" + v1A},
		"the empty value of v1a":     {withSecrets(publicE), "v1a,"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := newVerifier(t, tc.config).Verify(headers(tc.signature), []byte(body)); !errors.Is(err, receiver.ErrSignature) {
				t.Errorf("Verify = %v, want ErrSignature", err)
			}
		})
	}
}

// A comparison that stops at the shorter value would accept all of these.
func TestVerifyRefusesEveryPrefixOfTheSignature(t *testing.T) {
	t.Parallel()
	for signature, v := range map[string]*receiver.Verifier{
		v1A:  newVerifier(t, nil),
		v1aE: newVerifier(t, withSecrets(publicE)),
	} {
		for n := 1; n < len(signature); n++ {
			if _, err := v.Verify(headers(signature[:n]), []byte(body)); !errors.Is(err, receiver.ErrSignature) {
				t.Errorf("%q = %v, want ErrSignature", signature[:n], err)
			}
		}
	}
}

// Everything that is signed is: id, timestamp and body.
func TestVerifyRefusesAlteredRequests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header, value string
		body          string
	}{
		"id":               {"webhook-id", id + "X", body},
		"timestamp":        {"webhook-timestamp", strconv.Itoa(unixTime + 1), body},
		"leading zero":     {"webhook-timestamp", "0" + strconv.Itoa(unixTime), body},
		"body":             {"webhook-id", id, strings.Replace(body, "4200", "4201", 1)},
		"newline at end":   {"webhook-id", id, body + "\n"},
		"empty body":       {"webhook-id", id, ""},
		"moved dot":        {"webhook-id", id + ".1", body},
		"body into header": {"webhook-id", id + "." + strconv.Itoa(unixTime) + "." + body, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := headers(v1A + " " + v1aE)
			h.Set(tc.header, tc.value)
			v := newVerifier(t, withSecrets(keyA, publicE))
			if _, err := v.Verify(h, []byte(tc.body)); !errors.Is(err, receiver.ErrSignature) {
				t.Errorf("Verify = %v, want ErrSignature", err)
			}
		})
	}
}

func TestVerifyNamesTheMissingHeader(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		for _, config := range []func(*receiver.Config){nil, withStripe(keyA)} {
			for _, drop := range []func(http.Header){
				func(h http.Header) { h.Del(name) },
				func(h http.Header) { h.Set(name, "") },
			} {
				h := headers(v1A)
				drop(h)
				_, err := newVerifier(t, config).Verify(h, []byte(body))
				if !errors.Is(err, receiver.ErrHeaders) || !strings.Contains(err.Error(), name+" is missing") {
					t.Errorf("without %s: Verify = %v, want ErrHeaders that names it", name, err)
				}
			}
		}
	}
	if _, err := newVerifier(t, nil).Verify(nil, nil); !errors.Is(err, receiver.ErrHeaders) {
		t.Errorf("without any: Verify = %v, want ErrHeaders", err)
	}
}

func TestVerifyChecksTheAge(t *testing.T) {
	t.Parallel()
	minute := func(c *receiver.Config) { c.Tolerance = time.Minute }
	for name, tc := range map[string]struct {
		config func(*receiver.Config)
		after  time.Duration // from sending to now
		want   string        // "" means accepted
	}{
		"now":                    {nil, 0, ""},
		"299 s old":              {nil, 299 * time.Second, ""},
		"300 s old":              {nil, 300 * time.Second, ""},
		"just over 300 s old":    {nil, 300*time.Second + time.Millisecond, "too old, 301 s (limit 300 s)"},
		"301 s old":              {nil, 301 * time.Second, "too old, 301 s (limit 300 s)"},
		"a year old":             {nil, 365 * 24 * time.Hour, "too old, 31536000 s (limit 300 s)"},
		"299 s ahead":            {nil, -299 * time.Second, ""},
		"300 s ahead":            {nil, -300 * time.Second, ""},
		"301 s ahead":            {nil, -301 * time.Second, "too new, 301 s ahead (limit 300 s)"},
		"own tolerance, within":  {minute, 60 * time.Second, ""},
		"own tolerance, too old": {minute, 61 * time.Second, "too old, 61 s (limit 60 s)"},
		"own tolerance, too new": {minute, -61 * time.Second, "too new, 61 s ahead (limit 60 s)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVerifier(t, func(c *receiver.Config) {
				c.Now = func() time.Time { return sentAt.Add(tc.after) }
				c.StripeHeader = stripeHeader
				if tc.config != nil {
					tc.config(c)
				}
			})
			stripe := http.Header{stripeHeader: {fmt.Sprintf("t=%d,%s", unixTime, stripeA)}, "Webhook-Id": {id}}
			for style, h := range map[string]http.Header{"standard": headers(v1A), "stripe": stripe} {
				_, err := v.Verify(h, []byte(body))
				if tc.want == "" && err != nil {
					t.Errorf("%s: Verify = %v, want it accepted", style, err)
				}
				if tc.want != "" && (!errors.Is(err, receiver.ErrTimestamp) || !strings.Contains(err.Error(), tc.want)) {
					t.Errorf("%s: Verify = %v, want ErrTimestamp with %q", style, err, tc.want)
				}
			}
		})
	}
}

func TestVerifyRefusesMalformedTimestamps(t *testing.T) {
	t.Parallel()
	for _, timestamp := range []string{
		"now", "-1767225600", "+1767225600", " 1767225600", "1767225600 ", "1767225600.0", "1_767_225_600", "0x6955b900",
		"1767225600000000000", "9223372036854775807", "9223372036854775808", "99999999999999999999", "\u0661", "1e9",
	} {
		h := headers(v1A)
		h.Set("webhook-timestamp", timestamp)
		_, err := newVerifier(t, nil).Verify(h, []byte(body))
		if !errors.Is(err, receiver.ErrTimestamp) || !strings.Contains(err.Error(), "must be Unix seconds") {
			t.Errorf("%q: Verify = %v, want ErrTimestamp", timestamp, err)
		}
	}
	h := headers(v1A)
	h.Set("webhook-timestamp", "999999999999") // the greatest that is read
	if _, err := newVerifier(t, nil).Verify(h, []byte(body)); !errors.Is(err, receiver.ErrTimestamp) || !strings.Contains(err.Error(), "too new") {
		t.Errorf("far future: Verify = %v, want too new", err)
	}
}

func TestVerifyLimitsTheBody(t *testing.T) {
	t.Parallel()
	big := make([]byte, receiver.DefaultMaxBody+1)
	h := headers(sign(t, keyA, id, unixTime, big[1:]))
	if _, err := newVerifier(t, nil).Verify(h, big[1:]); err != nil {
		t.Errorf("1 MiB: Verify = %v, want it accepted", err)
	}
	if _, err := newVerifier(t, nil).Verify(h, big); !errors.Is(err, receiver.ErrTooLarge) {
		t.Errorf("1 MiB and a byte: Verify = %v, want ErrTooLarge", err)
	}
	small := newVerifier(t, func(c *receiver.Config) { c.MaxBody = int64(len(body)) - 1 })
	if _, err := small.Verify(headers(v1A), []byte(body)); !errors.Is(err, receiver.ErrTooLarge) {
		t.Errorf("own limit: Verify = %v, want ErrTooLarge", err)
	}
}

func TestStripeHeader(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config func(*receiver.Config)
		value  string
		want   error
	}{
		"accepted":               {withStripe(keyA), "t=1767225600," + stripeA, nil},
		"rotation, old":          {withStripe(keyA), "t=1767225600," + stripeB + "," + stripeA, nil},
		"rotation, new":          {withStripe(keyB), "t=1767225600," + stripeB + "," + stripeA, nil},
		"spaces, order, others":  {withStripe(keyA), "v0=abc, " + stripeA + ", t=1767225600, x", nil},
		"not configured":         {nil, "t=1767225600," + stripeA, receiver.ErrHeaders},
		"another secret":         {withStripe(keyB), "t=1767225600," + stripeA, receiver.ErrSignature},
		"another time":           {withStripe(keyA), "t=1767225601," + stripeA, receiver.ErrSignature},
		"first time counts":      {withStripe(keyA), "t=1767225601,t=1767225600," + stripeA, receiver.ErrSignature},
		"no time":                {withStripe(keyA), stripeA, receiver.ErrTimestamp},
		"no signature":           {withStripe(keyA), "t=1767225600", receiver.ErrSignature},
		"empty signature":        {withStripe(keyA), "t=1767225600,v1=", receiver.ErrSignature},
		"cut":                    {withStripe(keyA), "t=1767225600," + stripeA[:len(stripeA)-1], receiver.ErrSignature},
		"upper case":             {withStripe(keyA), "t=1767225600,v1=" + strings.ToUpper(stripeA[3:]), receiver.ErrSignature},
		"unknown version":        {withStripe(keyA), "t=1767225600,v2=" + stripeA[3:], receiver.ErrSignature},
		"the twentieth":          {withStripe(keyA), "t=1767225600," + strings.Repeat("v1=00,", 19) + stripeA, nil},
		"beyond the twentieth":   {withStripe(keyA), "t=1767225600," + strings.Repeat("v1=00,", 20) + stripeA, receiver.ErrSignature},
		"standard in its place":  {withStripe(keyA), v1A, receiver.ErrTimestamp},
		"decoded key, not chars": {withStripe(keyA), "t=1767225600,v1=" + hexHMAC(t, rawKey(t, keyA), "1767225600."+body), receiver.ErrSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{"Webhook-Id": {id}, stripeHeader: {tc.value}}
			event, err := newVerifier(t, tc.config).Verify(h, []byte(body))
			if !errors.Is(err, tc.want) {
				t.Fatalf("Verify = %v, want %v", err, tc.want)
			}
			if err == nil && (event.ID != id || !event.Timestamp.Equal(sentAt)) {
				t.Errorf("event %+v, want id and time of the request", event)
			}
		})
	}
}

// A wrong webhook-signature is final, or the weaker header would decide.
func TestStripeHeaderDoesNotOverruleTheStandardOne(t *testing.T) {
	t.Parallel()
	h := headers(v1B)
	h.Set(stripeHeader, "t=1767225600,"+stripeA)
	if _, err := newVerifier(t, withStripe(keyA)).Verify(h, []byte(body)); !errors.Is(err, receiver.ErrSignature) {
		t.Errorf("Verify = %v, want ErrSignature", err)
	}
}

func TestEventType(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ body, want string }{
		"first":             {`{"type":"order.paid","data":{}}`, "order.paid"},
		"last":              {`{"data":{"type":"inner"},"list":[{"type":"inner"}],"type":"order.paid"}`, "order.paid"},
		"escaped":           {`{"t\u0079pe":"order\u002epaid"}`, "order.paid"},
		"only inside":       {`{"data":{"type":"inner"}}`, ""},
		"spelled otherwise": {`{"Type":"order.paid"}`, ""},
		"exact one counts":  {`{"TYPE":"other","type":"order.paid"}`, "order.paid"},
		"not a string":      {`{"type":1}`, ""},
		"null":              {`{"type":null}`, ""},
		"array":             {`[{"type":"order.paid"}]`, ""},
		"string":            {`"type"`, ""},
		"empty body":        {``, ""},
		"not JSON":          {`type=order.paid`, ""},
		"cut":               {`{"data":{"a":1`, ""},
		"deep":              {`{"data":` + strings.Repeat("[", 100_000) + `,"type":"x"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := headers(sign(t, keyA, id, unixTime, []byte(tc.body)))
			event, err := newVerifier(t, nil).Verify(h, []byte(tc.body))
			if err != nil || event.Type != tc.want {
				t.Errorf("Type = %q, %v, want %q", event.Type, err, tc.want)
			}
		})
	}
}

func TestHintsNeverFail(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{"": 0, "1": 1, "12": 12, "-1": 0, "x": 0, "99999999999999999999": 0, "2147483648": 0} {
		h := headers(v1A)
		h.Set("breakwater-attempt", value)
		if event, err := newVerifier(t, nil).Verify(h, []byte(body)); err != nil || event.Attempt != want {
			t.Errorf("breakwater-attempt %q: Attempt = %d, %v, want %d", value, event.Attempt, err, want)
		}
	}
}

// TestTypeOfAHeader: the type in the body is signed and goes first; the header is
// for bodies without one.
func TestTypeOfAHeader(t *testing.T) {
	t.Parallel()
	plain := `{"total":4200}`
	for name, tc := range map[string]struct{ body, header, want string }{
		"of the body":          {body, "order.stolen", "order.paid"},
		"of the header":        {plain, "order.paid", "order.paid"},
		"of a text":            {"hello", "note-1.new_one", "note-1.new_one"},
		"nowhere":              {plain, "", ""},
		"not a type":           {plain, "order paid", ""},
		"not in ASCII":         {plain, "b\u00fccher", ""},
		"longer than any type": {plain, strings.Repeat("a", 129), ""},
	} {
		h := headers(sign(t, keyA, id, unixTime, []byte(tc.body)))
		h.Set("breakwater-type", tc.header)
		if event, err := newVerifier(t, nil).Verify(h, []byte(tc.body)); err != nil || event.Type != tc.want {
			t.Errorf("%s: Type = %q, %v, want %q", name, event.Type, err, tc.want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg  receiver.Config
		want string
	}{
		"no secrets":           {receiver.Config{}, "at least one secret"},
		"empty secret":         {receiver.Config{Secrets: []string{""}}, "must start with"},
		"no prefix":            {receiver.Config{Secrets: []string{keyA, keyB[6:]}}, "secret 2 of 2: must start with whsec_ or whpk_"},
		"private key":          {receiver.Config{Secrets: []string{"whsk_" + keyA[6:]}}, "use the public key"},
		"prefix only":          {receiver.Config{Secrets: []string{"whsec_"}}, "0 bytes"},
		"no padding":           {receiver.Config{Secrets: []string{strings.TrimRight(keyA, "=")}}, "base64 with padding"},
		"trailing newline":     {receiver.Config{Secrets: []string{keyA + "\n"}}, "base64 with padding"},
		"23 bytes":             {receiver.Config{Secrets: []string{"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23))}}, "23 bytes"},
		"65 bytes":             {receiver.Config{Secrets: []string{"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))}}, "65 bytes"},
		"short public key":     {receiver.Config{Secrets: []string{"whpk_" + base64.StdEncoding.EncodeToString(make([]byte, 31))}}, "31 bytes, must have 32"},
		"tolerance":            {receiver.Config{Secrets: []string{keyA}, Tolerance: -1}, "Tolerance"},
		"body limit":           {receiver.Config{Secrets: []string{keyA}, MaxBody: -1}, "MaxBody"},
		"stripe, no HMAC":      {receiver.Config{Secrets: []string{publicE}, StripeHeader: stripeHeader}, "needs a whsec_ secret"},
		"stripe over standard": {receiver.Config{Secrets: []string{keyA}, StripeHeader: "webhook-signature"}, "must not be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := receiver.New(tc.cfg)
			if err == nil || v != nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("New = %v, want an error with %q", err, tc.want)
			}
			for _, s := range tc.cfg.Secrets {
				if len(s) > 16 && strings.Contains(err.Error(), s[6:14]) {
					t.Errorf("error %q holds the secret", err)
				}
			}
		})
	}
}

func TestVerifierNeverPrintsSecrets(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, withStripe(keyA))
	holder := struct{ v *receiver.Verifier }{v}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		out := fmt.Sprintf(verb, v) + fmt.Sprintf(verb, *v) + fmt.Sprintf(verb, holder)
		for _, form := range []string{"AAECAwQF", "0 1 2 3 4", "00010203", "0x0, 0x1", "AQID"} {
			if strings.Contains(out, form) {
				t.Errorf("%s prints the secret: %s", verb, out)
			}
		}
	}
}
