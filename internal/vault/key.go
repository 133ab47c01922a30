package vault

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const (
	keySize   = 32 // AES-256
	keyIDSize = 4  // bytes; shown as 8 hexadecimal characters
)

// ErrBadKey is wrapped by every error of ParseKey.
var ErrBadKey = errors.New("malformed encryption key")

// Key is an encryption key in the clear. It redacts itself wherever values get
// printed. It sits behind a function because fmt calls no methods on unexported
// fields: a struct that holds a Key then prints an address, whatever the verb.
type Key struct {
	hook.Redacted

	open func() *[keySize]byte
}

func hide(key [keySize]byte) Key { return Key{open: func() *[keySize]byte { return &key }} }

// NewKey draws a key from rand.
func NewKey(rand io.Reader) (Key, error) {
	var key [keySize]byte
	if _, err := io.ReadFull(rand, key[:]); err != nil {
		return Key{}, fmt.Errorf("draw encryption key: %w", err)
	}
	return hide(key), nil
}

// ParseKey reads a key written as standard base64 of 32 bytes; white space
// around it is ignored. Errors never hold the key.
func ParseKey(s string) (Key, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(s))
	if err != nil || len(raw) != keySize {
		return Key{}, fmt.Errorf("%w: must be standard base64 of %d bytes", ErrBadKey, keySize)
	}
	return hide([keySize]byte(raw)), nil
}

// ParseKeys reads several keys. Errors say which one is malformed.
func ParseKeys(texts []string) ([]Key, error) {
	keys := make([]Key, len(texts))
	for i, text := range texts {
		key, err := ParseKey(text)
		if err != nil && len(texts) > 1 {
			err = fmt.Errorf("key %d of %d: %w", i+1, len(texts), err)
		}
		if err != nil {
			return nil, err
		}
		keys[i] = key
	}
	return keys, nil
}

// IDs returns the names of keys, separated by commas.
func IDs(keys []Key) string {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.ID()
	}
	return strings.Join(ids, ",")
}

// IsZero reports whether k holds no key.
func (k Key) IsZero() bool { return k.open == nil }

// ID returns the name of the key, which is no secret: the first 8 hexadecimal
// characters of its SHA-256. It is "" for a zero Key.
func (k Key) ID() string {
	if k.IsZero() {
		return ""
	}
	id := k.id()
	return hex.EncodeToString(id[:])
}

func (k Key) id() [keyIDSize]byte {
	sum := sha256.Sum256(k.open()[:])
	return [keyIDSize]byte(sum[:keyIDSize])
}

// reveal returns the form that key files hold.
func (k Key) reveal() string { return base64.StdEncoding.EncodeToString(k.open()[:]) }
