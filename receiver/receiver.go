// Package receiver verifies, deduplicates and answers webhooks signed in the
// Standard Webhooks format, such as those that Breakwater sends.
//
// A request is accepted when one of its signatures matches one of the
// configured secrets and its timestamp is recent. Both have to be checked over
// the raw bytes of the body, before any parsing: use [Verifier.Handler] or
// [Verifier.Middleware], or hand the bytes to [Verifier.Verify].
//
// Delivery is at least once, so that an event may come again, with the same
// [Event.ID]. Three ways to work on it once:
//
//   - [Verifier.Handler] with [SQL]: your statements and the mark are committed in
//     one transaction, before the answer;
//   - [Verifier.Handler] with [SQL.Accept], and [SQL.Work]: the event is stored and answered at
//     once, and worked on later, in one transaction with your statements;
//   - [Verifier.Handler] with [Memory]: for tests, and where a restart may repeat work.
//
// None of them makes calls to third parties happen once: only what is in the
// transaction does.
//
// What your function returns is what the sender does next: see [Permanent], [Later],
// [TooMany], [Gone] and [Status].
//
// Events that Work cannot do need to be seen and taken up again, and nobody is there to
// be answered: that is what SQLOptions.OnError, [SQL.SetAside] and [SQL.Retry] are for.
//
// The package needs nothing but the standard library: bring the driver of your
// database.
package receiver

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Verify's errors wrap one of these; the rest of the message names the rule
// that was broken. No message holds a secret or any part of the request.
var (
	// ErrHeaders means that a required header is missing.
	ErrHeaders = errors.New("webhook headers are incomplete")
	// ErrTimestamp means that the timestamp is malformed, too old or too new.
	ErrTimestamp = errors.New("webhook timestamp is not acceptable")
	// ErrSignature means that no signature matches any secret.
	ErrSignature = errors.New("webhook signature does not match")
	// ErrTooLarge means that the body exceeds Config.MaxBody.
	ErrTooLarge = errors.New("webhook body is too large")
)

// The defaults of Config.
const (
	DefaultTolerance = 5 * time.Minute
	DefaultMaxBody   = 1 << 20
)

// Header names in the canonical form that http.Header uses.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
	headerDelivery  = "Breakwater-Delivery"
	headerAttempt   = "Breakwater-Attempt"
	headerType      = "Breakwater-Type"
)

// Config says what a Verifier accepts.
type Config struct {
	// Secrets are those of the endpoint: whsec_... (HMAC) or whpk_... (public
	// key, ed25519). A match with any of them is enough, so list the old and
	// the new one while you rotate.
	Secrets []string
	// Tolerance is how far the timestamp may be from now, in both directions.
	// Zero means 5 minutes.
	Tolerance time.Duration
	// StripeHeader names a header whose "t=...,v1=..." signature is accepted
	// when the request has no webhook-signature. It needs a whsec_ secret and
	// does not sign the id: see [Event.ID]. Empty means that none is read.
	StripeHeader string
	// MaxBody is the greatest body in bytes. Zero means 1 MiB.
	MaxBody int64
	// Now tells the time. Nil means time.Now.
	Now func() time.Time
}

// Event is one verified request.
type Event struct {
	// ID is the webhook-id: the same for every retry and replay of an event,
	// hence what to deduplicate by. It is signed, except when the request was
	// accepted by its Stripe-style header alone.
	ID string
	// Type is the top-level "type" of a JSON body, which is signed; else what the
	// header breakwater-type says, which is a hint like those below: choose by it
	// what to do with a body that cannot be mistaken for another, not whether to
	// trust it. Empty when there is neither.
	Type string
	// DeliveryID and Attempt are hints for logs. They are not signed.
	DeliveryID string
	Attempt    int
	// Timestamp is when this attempt was made. Signed.
	Timestamp time.Time
	// Body is the exact body. Signed.
	Body []byte
}

// Verifier checks requests. It is safe for concurrent use.
type Verifier struct {
	keys         func() *keyring // prints as an address under every verb of fmt
	tolerance    time.Duration
	stripeHeader string
	maxBody      int64
	now          func() time.Time
}

// New checks cfg and fills in defaults. It fails without secrets: a Verifier
// never accepts an unsigned request.
func New(cfg Config) (*Verifier, error) {
	keys, err := parseSecrets(cfg.Secrets)
	switch {
	case err != nil:
		return nil, err
	case cfg.Tolerance < 0:
		return nil, errors.New("receiver: Tolerance must not be negative")
	case cfg.MaxBody < 0:
		return nil, errors.New("receiver: MaxBody must not be negative")
	case cfg.StripeHeader != "" && len(keys.hmac) == 0:
		return nil, errors.New("receiver: StripeHeader needs a whsec_ secret")
	case strings.EqualFold(cfg.StripeHeader, headerSignature):
		return nil, errors.New("receiver: StripeHeader must not be webhook-signature")
	}
	v := &Verifier{
		keys:         func() *keyring { return keys },
		tolerance:    cmp.Or(cfg.Tolerance, DefaultTolerance),
		stripeHeader: cfg.StripeHeader,
		maxBody:      cmp.Or(cfg.MaxBody, DefaultMaxBody),
		now:          cfg.Now,
	}
	if v.now == nil {
		v.now = time.Now
	}
	return v, nil
}

// Verify checks age and signature of a request with these headers and this
// body, which must be the raw bytes. The comparison takes constant time. Errors
// match ErrHeaders, ErrTimestamp, ErrSignature or ErrTooLarge.
//
// The returned Event refers to body; do not change it afterwards.
func (v *Verifier) Verify(h http.Header, body []byte) (Event, error) {
	if int64(len(body)) > v.maxBody {
		return Event{}, v.tooLarge()
	}
	id := h.Get(headerID)
	if id == "" {
		return Event{}, missing("webhook-id")
	}
	at, err := v.verifySigned(h, id, body)
	if err != nil {
		return Event{}, err
	}
	return Event{
		ID:         id,
		Type:       cmp.Or(eventType(body), typeHint(h.Get(headerType))),
		DeliveryID: h.Get(headerDelivery),
		Attempt:    attemptNumber(h.Get(headerAttempt)),
		Timestamp:  at,
		Body:       body,
	}, nil
}

// verifySigned returns the time of the attempt once age and signature are
// right. The Stripe-style header counts only in the absence of the other: a
// wrong webhook-signature is never made up for.
func (v *Verifier) verifySigned(h http.Header, id string, body []byte) (time.Time, error) {
	list := h.Get(headerSignature)
	if list == "" && v.stripeHeader != "" {
		if stripe := h.Get(v.stripeHeader); stripe != "" {
			return v.verifyStripe(stripe, body)
		}
	}
	if list == "" {
		return time.Time{}, missing("webhook-signature")
	}
	timestamp := h.Get(headerTimestamp)
	if timestamp == "" {
		return time.Time{}, missing("webhook-timestamp")
	}
	at, err := v.checkAge(timestamp)
	if err != nil {
		return time.Time{}, err
	}
	if !v.keys().matchStandard(list, id+"."+timestamp+".", body) {
		return time.Time{}, noMatch()
	}
	return at, nil
}

func (v *Verifier) verifyStripe(header string, body []byte) (time.Time, error) {
	timestamp, signatures := splitStripe(header)
	at, err := v.checkAge(timestamp)
	if err != nil {
		return time.Time{}, err
	}
	if !v.keys().matchStripe(signatures, timestamp+".", body) {
		return time.Time{}, noMatch()
	}
	return at, nil
}

// maxTimestampDigits keeps all arithmetic on times far from overflow.
const maxTimestampDigits = 12

// checkAge reads whole Unix seconds, digits only, and compares them with now.
func (v *Verifier) checkAge(timestamp string) (time.Time, error) {
	sec, err := strconv.ParseUint(timestamp, 10, 63)
	if err != nil || len(timestamp) > maxTimestampDigits {
		return time.Time{}, fmt.Errorf("%w: must be Unix seconds", ErrTimestamp)
	}
	at := time.Unix(int64(sec), 0)
	switch age := v.now().Sub(at); {
	case age > v.tolerance:
		return time.Time{}, fmt.Errorf("%w: too old, %s s (limit %s s)", ErrTimestamp, seconds(age), seconds(v.tolerance))
	case age < -v.tolerance:
		return time.Time{}, fmt.Errorf("%w: too new, %s s ahead (limit %s s)", ErrTimestamp, seconds(-age), seconds(v.tolerance))
	}
	return at, nil
}

// seconds rounds up, so that what is over the limit also reads that way.
func seconds(d time.Duration) string { return strconv.FormatFloat(math.Ceil(d.Seconds()), 'f', 0, 64) }

func missing(header string) error { return fmt.Errorf("%w: %s is missing", ErrHeaders, header) }

func noMatch() error { return fmt.Errorf("%w: no signature fits any secret", ErrSignature) }

func (v *Verifier) tooLarge() error {
	return fmt.Errorf("%w: the limit is %d bytes", ErrTooLarge, v.maxBody)
}
