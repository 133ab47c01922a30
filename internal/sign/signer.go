// Package sign makes the signatures that endpoints verify: Standard Webhooks
// v1 (HMAC-SHA256) and v1a (ed25519), and the header that Stripe made popular.
// It also reads and draws the secrets that sign.
//
// It is pure: the time of the attempt and the source of randomness come from
// the caller. It verifies nothing, which is the job of package receiver, and
// keeps no secret: storing them is the job of package vault.
package sign

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/textproto"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// The headers of Standard Webhooks in the canonical form of net/http.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// maxKeptMessage bounds the ed25519 message buffer that is kept between
// requests, so that one huge body does not stay in memory.
const maxKeptMessage = 64 << 10

// Signer signs the requests of one endpoint. It is safe for concurrent use.
type Signer struct {
	hmac    []Secret // newest first
	ed25519 []Secret // newest first
	stripe  []string // canonical names of the Stripe-style headers
	pool    sync.Pool
}

// NewSigner returns a signer that makes every configured signature with every
// secret of its kind. Secrets come newest first and sign in that order, at most
// hook.MaxActiveSecrets of each kind.
//
// Stripe-style headers come on top of v1, never instead of it: every attempt
// carries all three headers of Standard Webhooks, since only they sign the id.
func NewSigner(signatures []hook.Signature, secrets []Secret) (*Signer, error) {
	s := &Signer{}
	var wantHMAC, wantEd25519 bool
	for _, sig := range signatures {
		switch sig.Scheme {
		case hook.SchemeStandard:
			wantHMAC = true
		case hook.SchemeStandardEd25519:
			wantEd25519 = true
		case hook.SchemeStripe:
			wantHMAC = true
			if err := s.addStripe(sig.Header); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("signature %s: unknown scheme", sig.Scheme)
		}
	}
	if !wantHMAC && !wantEd25519 {
		return nil, errors.New("no signature is configured")
	}
	var err error
	if wantHMAC {
		if s.hmac, err = newestOf(secrets, hook.SchemeStandard); err != nil {
			return nil, err
		}
	}
	if wantEd25519 {
		if s.ed25519, err = newestOf(secrets, hook.SchemeStandardEd25519); err != nil {
			return nil, err
		}
	}
	s.pool.New = func() any { return s.newScratch() }
	return s, nil
}

func (s *Signer) addStripe(header string) error {
	if err := hook.CheckHeaderName(header); err != nil {
		return fmt.Errorf("stripe signature: %w", err)
	}
	name := textproto.CanonicalMIMEHeaderKey(header)
	if slices.Contains(s.stripe, name) {
		return fmt.Errorf("stripe signature: header %s is listed twice", name)
	}
	s.stripe = append(s.stripe, name)
	return nil
}

// newestOf picks the secrets that sign for a scheme. Having none is an error:
// a request without its signature must never leave.
func newestOf(secrets []Secret, scheme hook.Scheme) ([]Secret, error) {
	var out []Secret
	for _, s := range secrets {
		if !s.IsZero() && s.Scheme() == scheme && len(out) < hook.MaxActiveSecrets {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no active secret for signature scheme %s", scheme)
	}
	return out, nil
}

// scratch is what one call of Sign needs for itself. The keyed hashes are the
// point: keying one costs more than hashing a small body.
type scratch struct {
	v1      []hash.Hash
	stripe  []hash.Hash
	sum     [sha256.Size]byte
	text    []byte // everything that becomes header values, as one string
	message []byte // id.timestamp.body in one piece, for ed25519 only
}

func (s *Signer) newScratch() *scratch {
	sc := &scratch{}
	for _, secret := range s.hmac {
		m := secret.open()
		sc.v1 = append(sc.v1, keyedHash(m.key))
		if len(s.stripe) > 0 {
			// The characters are the key here, as Stripe's verifiers have it.
			sc.stripe = append(sc.stripe, keyedHash([]byte(m.text)))
		}
	}
	return sc
}

// keyedHash returns an HMAC that was reset once, which makes it keep the state
// of the hashed key for all later resets.
func keyedHash(key []byte) hash.Hash {
	h := hmac.New(sha256.New, key)
	h.Reset()
	return h
}

// Sign hands the id, the timestamp and all signatures of one attempt to set, as
// names and values of headers. The id must hold no dot, and body must be the
// exact bytes that will be sent.
func (s *Signer) Sign(set func(name, value string), id string, at time.Time, body []byte) {
	sc := s.pool.Get().(*scratch)
	defer s.pool.Put(sc)

	// All values are cut from one string. It starts with the signed prefix
	// "id.timestamp.", whose tail "timestamp." is that of the Stripe style.
	sc.text = append(append(sc.text[:0], id...), '.')
	tsStart := len(sc.text)
	sc.text = strconv.AppendInt(sc.text, at.Unix(), 10)
	tsEnd := len(sc.text)
	sc.text = append(sc.text, '.')
	prefixEnd := len(sc.text)

	s.appendStandard(sc, prefixEnd, body)
	standardEnd := len(sc.text)
	if len(s.stripe) > 0 {
		s.appendStripe(sc, tsStart, tsEnd, body)
	}

	text := string(sc.text)
	set(HeaderID, id)
	set(HeaderSignature, text[prefixEnd:standardEnd])
	set(HeaderTimestamp, text[tsStart:tsEnd])
	for _, name := range s.stripe {
		set(name, text[standardEnd:])
	}
}

// appendStandard appends "v1,<base64> v1a,<base64>": HMAC first, newest first.
func (s *Signer) appendStandard(sc *scratch, prefixEnd int, body []byte) {
	for _, mac := range sc.v1 {
		sc.startSignature(prefixEnd, "v1,")
		sc.text = base64.StdEncoding.AppendEncode(sc.text, sc.sumOf(mac, 0, prefixEnd, body))
	}
	if len(s.ed25519) == 0 {
		return
	}
	sc.message = append(append(sc.message[:0], sc.text[:prefixEnd]...), body...)
	for _, secret := range s.ed25519 {
		sc.startSignature(prefixEnd, "v1a,")
		sc.text = base64.StdEncoding.AppendEncode(sc.text, ed25519.Sign(secret.open().key, sc.message))
	}
	if cap(sc.message) > maxKeptMessage {
		sc.message = nil
	}
}

// appendStripe appends "t=<unix>,v1=<hex>,v1=<hex>", newest first.
func (s *Signer) appendStripe(sc *scratch, tsStart, tsEnd int, body []byte) {
	sc.text = append(sc.text, "t="...)
	sc.text = append(sc.text, sc.text[tsStart:tsEnd]...)
	for _, mac := range sc.stripe {
		sc.text = append(sc.text, ",v1="...)
		sc.text = hex.AppendEncode(sc.text, sc.sumOf(mac, tsStart, tsEnd+1, body))
	}
}

// startSignature writes the version, after a space unless it is the first.
func (sc *scratch) startSignature(listStart int, version string) {
	if len(sc.text) > listStart {
		sc.text = append(sc.text, ' ')
	}
	sc.text = append(sc.text, version...)
}

// sumOf hashes text[from:to] and body. The result is valid until the next call.
func (sc *scratch) sumOf(mac hash.Hash, from, to int, body []byte) []byte {
	mac.Reset()
	mac.Write(sc.text[from:to])
	mac.Write(body)
	return mac.Sum(sc.sum[:0])
}
