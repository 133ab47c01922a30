package receiver

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// maxSignatures bounds the work that one request can cause. A sender needs as
// many as it has active secrets, which are a handful.
const maxSignatures = 20

// The size of HMAC keys in bytes that Standard Webhooks allows.
const (
	minKeySize = 24
	maxKeySize = 64
)

// encoding refuses text that is not the one encoding of its bytes.
var encoding = base64.StdEncoding.Strict()

// keyring holds the keys of all configured secrets.
type keyring struct {
	hmac   [][]byte // keys of v1
	text   [][]byte // the same secrets as characters: keys of the Stripe style
	public []ed25519.PublicKey
}

func parseSecrets(secrets []string) (*keyring, error) {
	if len(secrets) == 0 {
		return nil, errors.New("receiver: at least one secret is required")
	}
	k := &keyring{}
	for i, s := range secrets {
		if err := k.add(s); err != nil {
			return nil, fmt.Errorf("receiver: secret %d of %d: %w", i+1, len(secrets), err)
		}
	}
	return k, nil
}

// add reads one secret. Its errors name the rule, never the secret.
func (k *keyring) add(secret string) error {
	prefix, text, _ := strings.Cut(secret, "_")
	switch prefix {
	case "whsec", "whpk":
	case "whsk":
		return errors.New("whsk_ is the sender's private key, use the public key (whpk_)")
	default:
		return errors.New("must start with whsec_ or whpk_")
	}
	key, err := encoding.DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") { // the decoder skips line breaks
		return errors.New("must be standard base64 with padding after the prefix")
	}
	if prefix == "whpk" {
		if len(key) != ed25519.PublicKeySize {
			return fmt.Errorf("whpk_ key has %d bytes, must have %d", len(key), ed25519.PublicKeySize)
		}
		k.public = append(k.public, key)
		return nil
	}
	if len(key) < minKeySize || len(key) > maxKeySize {
		return fmt.Errorf("whsec_ key has %d bytes, must have %d to %d", len(key), minKeySize, maxKeySize)
	}
	k.hmac = append(k.hmac, key)
	k.text = append(k.text, []byte(secret))
	return nil
}

// matchStandard reports whether one of the space-separated signatures in list
// is right. Versions it does not know are skipped, so that senders can add new
// ones.
func (k *keyring) matchStandard(list, prefix string, body []byte) bool {
	var v1 [][]byte
	for _, key := range k.hmac {
		v1 = append(v1, encoding.AppendEncode(nil, sum(key, prefix, body)))
	}
	var message []byte // ed25519 needs the signed text in one piece
	if len(k.public) > 0 {
		message = append([]byte(prefix), body...)
	}
	for range maxSignatures {
		signature, rest, more := strings.Cut(list, " ")
		version, text, _ := strings.Cut(signature, ",")
		switch version {
		case "v1":
			if matchAny(v1, text) {
				return true
			}
		case "v1a":
			if k.matchEd25519(text, message) {
				return true
			}
		}
		if !more {
			break
		}
		list = rest
	}
	return false
}

// matchStripe compares hexadecimal signatures of "timestamp.body".
func (k *keyring) matchStripe(signatures []string, prefix string, body []byte) bool {
	var want [][]byte
	for _, key := range k.text {
		want = append(want, hex.AppendEncode(nil, sum(key, prefix, body)))
	}
	for _, s := range signatures {
		if matchAny(want, s) {
			return true
		}
	}
	return false
}

// matchAny compares encoded signatures over their full length, in constant
// time. Comparing the text leaves a decoder no room to accept a second
// spelling.
func matchAny(want [][]byte, got string) bool {
	for _, w := range want {
		if hmac.Equal(w, []byte(got)) {
			return true
		}
	}
	return false
}

func (k *keyring) matchEd25519(text string, message []byte) bool {
	if len(k.public) == 0 || len(text) != encoding.EncodedLen(ed25519.SignatureSize) {
		return false
	}
	signature, err := encoding.DecodeString(text)
	if err != nil {
		return false
	}
	for _, key := range k.public {
		if ed25519.Verify(key, message, signature) {
			return true
		}
	}
	return false
}

func sum(key []byte, prefix string, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(prefix))
	mac.Write(body)
	return mac.Sum(nil)
}

// splitStripe reads "t=<unix>,v1=<hex>,v1=<hex>" with the fields in any order;
// other fields are skipped. Of several timestamps the first one counts.
func splitStripe(header string) (timestamp string, signatures []string) {
	for range maxSignatures + 1 { // one more for the timestamp
		field, rest, more := strings.Cut(header, ",")
		switch name, value, _ := strings.Cut(strings.TrimSpace(field), "="); name {
		case "t":
			if timestamp == "" {
				timestamp = value
			}
		case "v1":
			signatures = append(signatures, value)
		}
		if !more {
			break
		}
		header = rest
	}
	return timestamp, signatures
}
