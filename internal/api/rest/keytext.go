package rest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
)

// KeyMark is how keys in our own form begin.
const KeyMark = "bw_"

const (
	keyPublic = 8  // characters shown in lists
	keySecret = 43 // characters: 256 bits
	keyLength = len(KeyMark) + keyPublic + keySecret

	minKeyLength = 16
	maxKeyLength = 256
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// ErrBadKey is returned for text that cannot be a key.
var ErrBadKey = fmt.Errorf("a key has %d to %d visible ASCII characters", minKeyLength, maxKeyLength)

// NewKey draws an API key from rand. The text is shown once and never stored;
// the prefix is its public part, and the hash is what is stored. A source that
// fails would mean guessable keys, so it ends the program, as crypto/rand does.
func NewKey(rand io.Reader) (text, prefix string, hash [32]byte) {
	b := []byte(KeyMark)
	var buf [64]byte
	for len(b) < keyLength {
		if _, err := io.ReadFull(rand, buf[:]); err != nil {
			panic("draw API key: " + err.Error())
		}
		for _, c := range buf {
			// 248 is the greatest multiple of 62 below 256: bytes beyond it would
			// make some characters likelier than others.
			if c < 248 && len(b) < keyLength {
				b = append(b, base62[c%62])
			}
		}
	}
	text = string(b)
	return text, publicPart(text), sha256.Sum256(b)
}

// HashKey returns what is stored of a key: its hash and, for keys in our own
// form, its public part. An operator may choose any key of 16 to 256 visible
// ASCII characters; nothing of such a key is shown.
func HashKey(text string) (prefix string, hash [32]byte, err error) {
	if hash, err = hashKey(text); err != nil {
		return "", hash, err
	}
	return publicPart(text), hash, nil
}

// hashKey is HashKey for requests, which need no public part.
func hashKey(text string) (hash [32]byte, err error) {
	if len(text) < minKeyLength || len(text) > maxKeyLength || !VisibleASCII(text) {
		return [32]byte{}, ErrBadKey
	}
	return sha256.Sum256([]byte(text)), nil
}

// publicPart returns the characters that lists show; none of a key that is not
// in our own form.
func publicPart(s string) string {
	rest, ok := strings.CutPrefix(s, KeyMark)
	notOurs := func(r rune) bool { return !strings.ContainsRune(base62, r) }
	if !ok || len(s) != keyLength || strings.ContainsFunc(rest, notOurs) {
		return ""
	}
	return rest[:keyPublic]
}

// VisibleASCII reports whether a text holds nothing but visible ASCII characters,
// which a space is not.
func VisibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

var errNoBearer = errors.New("no bearer key")

// bearer returns the key of an Authorization header.
func bearer(header []string) (string, error) {
	if len(header) != 1 {
		return "", errNoBearer
	}
	scheme, text, ok := strings.Cut(header[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", errNoBearer
	}
	return strings.TrimSpace(text), nil
}
