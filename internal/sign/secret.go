package sign

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// The prefixes of displayed keys, as Standard Webhooks defines them.
const (
	hmacPrefix    = "whsec_"
	privatePrefix = "whsk_"
	publicPrefix  = "whpk_"
)

// The size of HMAC keys in bytes: generated ones, and the bounds of those that
// a user brings along.
const (
	newKeySize = 32
	minKeySize = 24
	maxKeySize = 64
)

// ErrBadSecret is wrapped by every error of ParseSecret.
var ErrBadSecret = errors.New("malformed secret")

// encoding refuses what a lenient decoder lets through: text that is not the
// one encoding of its bytes.
var encoding = base64.StdEncoding.Strict()

// Secret is a signing key in the clear: an HMAC key (whsec_) or an ed25519 key
// pair (whsk_). It redacts itself wherever values get printed; only Reveal
// gives it away.
//
// The key sits behind a function because fmt calls no methods on unexported
// fields: a struct that holds a Secret then prints an address, not the key. A
// pointer would not do, since fmt follows it for verbs such as %s.
type Secret struct {
	hook.Redacted

	open func() *material
}

type material struct {
	scheme hook.Scheme
	text   string // the displayed form, prefix included
	key    []byte // HMAC key, or ed25519 private key (seed and public key)
}

// NewSecret draws an HMAC key of 32 bytes from rand.
func NewSecret(rand io.Reader) (Secret, error) {
	key := make([]byte, newKeySize)
	if _, err := io.ReadFull(rand, key); err != nil {
		return Secret{}, fmt.Errorf("draw HMAC key: %w", err)
	}
	return hmacSecret(key), nil
}

// NewEd25519 draws an ed25519 key pair from rand.
func NewEd25519(rand io.Reader) (Secret, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(rand, seed); err != nil {
		return Secret{}, fmt.Errorf("draw ed25519 key: %w", err)
	}
	return ed25519Secret(seed), nil
}

// ParseSecret reads a displayed secret: whsec_ and 24 to 64 bytes, or whsk_ and
// a seed with or without its public key, in standard base64 with padding. A
// bare seed is completed. Errors name the rule, never the secret.
func ParseSecret(s string) (Secret, error) {
	if text, ok := strings.CutPrefix(s, hmacPrefix); ok {
		return parseHMAC(text)
	}
	if text, ok := strings.CutPrefix(s, privatePrefix); ok {
		return parseEd25519(text)
	}
	return Secret{}, fmt.Errorf("%w: must start with %s or %s", ErrBadSecret, hmacPrefix, privatePrefix)
}

func parseHMAC(text string) (Secret, error) {
	key, err := decode(text)
	if err != nil {
		return Secret{}, err
	}
	if len(key) < minKeySize || len(key) > maxKeySize {
		return Secret{}, fmt.Errorf("%w: %s key has %d bytes, must have %d to %d",
			ErrBadSecret, hmacPrefix, len(key), minKeySize, maxKeySize)
	}
	return hmacSecret(key), nil
}

func parseEd25519(text string) (Secret, error) {
	key, err := decode(text)
	if err != nil {
		return Secret{}, err
	}
	if len(key) != ed25519.SeedSize && len(key) != ed25519.PrivateKeySize {
		return Secret{}, fmt.Errorf("%w: %s key has %d bytes, must have %d (seed and public key) or %d (seed)",
			ErrBadSecret, privatePrefix, len(key), ed25519.PrivateKeySize, ed25519.SeedSize)
	}
	seed := key[:ed25519.SeedSize]
	// A foreign public half would sign what nobody can verify, and signing
	// with it leaks the private key.
	if len(key) == ed25519.PrivateKeySize && !ed25519.NewKeyFromSeed(seed).Equal(ed25519.PrivateKey(key)) {
		return Secret{}, fmt.Errorf("%w: the public half of the %s key does not belong to its seed", ErrBadSecret, privatePrefix)
	}
	return ed25519Secret(seed), nil
}

// decode also refuses line breaks, which encoding/base64 skips: the characters
// of a secret are the key of the Stripe-style header, so they have to be
// exactly those that the receiver was shown.
func decode(text string) ([]byte, error) {
	key, err := encoding.DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("%w: must be standard base64 with padding after the prefix", ErrBadSecret)
	}
	return key, nil
}

func hmacSecret(key []byte) Secret {
	return hide(material{
		scheme: hook.SchemeStandard,
		text:   hmacPrefix + encoding.EncodeToString(key),
		key:    key,
	})
}

func ed25519Secret(seed []byte) Secret {
	key := ed25519.NewKeyFromSeed(seed)
	return hide(material{
		scheme: hook.SchemeStandardEd25519,
		text:   privatePrefix + encoding.EncodeToString(key),
		key:    key,
	})
}

func hide(m material) Secret { return Secret{open: func() *material { return &m }} }

// IsZero reports whether s holds no key.
func (s Secret) IsZero() bool { return s.open == nil }

// Reveal returns the secret as it is shown to its owner, and "" for a zero
// Secret. It is for the answers to create, rotate and the explicit secret
// read, and for the vault.
func (s Secret) Reveal() string {
	if s.IsZero() {
		return ""
	}
	return s.open().text
}

// Public returns the key that verifies an ed25519 secret (whpk_...), which is
// no secret itself. It is "" for HMAC secrets: they have none.
func (s Secret) Public() string {
	if s.Scheme() != hook.SchemeStandardEd25519 {
		return ""
	}
	return publicPrefix + encoding.EncodeToString(s.open().key[ed25519.SeedSize:])
}

// Scheme returns SchemeStandard for HMAC secrets, which also sign the
// Stripe-style header, and SchemeStandardEd25519 for key pairs.
func (s Secret) Scheme() hook.Scheme {
	if s.IsZero() {
		return hook.SchemeStandard
	}
	return s.open().scheme
}

// Last4 returns the last four characters of the displayed secret, by which its
// owner recognises it in lists.
func (s Secret) Last4() string {
	text := s.Reveal()
	return text[max(0, len(text)-4):]
}
