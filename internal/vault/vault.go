// Package vault seals what must not be readable in the database: the signing
// secrets and the custom headers of endpoints. It uses AES-256-GCM with keys
// that are kept outside of the database.
//
// A sealed value names its key and is bound to its tenant, endpoint and
// purpose: a row that is moved elsewhere does not open. The vault stores
// nothing, knows nothing of what it seals, and does not decide who may read it.
package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// What is sealed. The words are part of the stored data and never change.
const (
	PurposeSecret  = "secret"
	PurposeHeaders = "headers"
	PurposeChannel = "channel"
	PurposeAnswer  = "answer" // to a request; some hold secrets
)

// Reasons why a sealed value does not open.
var (
	// ErrUnknownKey means that the key it was sealed with is not loaded.
	ErrUnknownKey = errors.New("unknown encryption key")
	// ErrNotAuthentic means that the value was altered, or was sealed for
	// another tenant, endpoint or purpose.
	ErrNotAuthentic = errors.New("sealed value is not authentic")
)

// A sealed value is: format, key id, then nonce, ciphertext and tag as the
// cipher lays them out. The first two are readable without any key.
const (
	format     = 1
	prefixSize = 1 + keyIDSize
)

// Vault seals with its first key and opens with all of them. It is safe for
// concurrent use.
type Vault struct {
	sealing [keyIDSize]byte
	// cipherOf returns nil for unknown keys. A function prints as an address,
	// while the map behind it could be printed down to the keys.
	cipherOf func(keyID [keyIDSize]byte) cipher.AEAD
}

// Open returns a vault for keys. The first one seals; the others open what was
// sealed before a change of keys.
func Open(keys []Key) (*Vault, error) {
	if len(keys) == 0 {
		return nil, errors.New("vault: at least one key is required")
	}
	ciphers := make(map[[keyIDSize]byte]cipher.AEAD, len(keys))
	for i, k := range keys {
		if k.IsZero() {
			return nil, fmt.Errorf("vault: key %d of %d is empty", i+1, len(keys))
		}
		if ciphers[k.id()] != nil {
			return nil, fmt.Errorf("vault: key %s is listed twice", k.ID())
		}
		aead, err := newCipher(k)
		if err != nil {
			return nil, fmt.Errorf("vault: prepare key %s: %w", k.ID(), err)
		}
		ciphers[k.id()] = aead
	}
	return &Vault{
		sealing:  keys[0].id(),
		cipherOf: func(keyID [keyIDSize]byte) cipher.AEAD { return ciphers[keyID] },
	}, nil
}

// newCipher draws a nonce of 96 bits for every value. That is safe for 2^32
// values under one key, far more than there are secrets.
func newCipher(k Key) (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.open()[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Seal encrypts plain for one place. It returns the id of the key it used,
// which the sealed value also holds.
func (v *Vault) Seal(tenant, endpoint hook.ID, purpose string, plain []byte) (keyID string, sealed []byte, err error) {
	if purpose == "" {
		return "", nil, fmt.Errorf("seal for %s: a purpose is required", hook.EndpointPrefix.Format(endpoint))
	}
	prefix := append([]byte{format}, v.sealing[:]...)
	sealed = v.cipherOf(v.sealing).Seal(prefix, nil, plain, boundTo(prefix, tenant, endpoint, purpose))
	return hex.EncodeToString(v.sealing[:]), sealed, nil
}

// Reseal seals a value with the first key that was sealed with any of them, for the
// same place. A value that the first key has sealed stays as it is.
func (v *Vault) Reseal(tenant, owner hook.ID, purpose string, sealed []byte) (keyID string, anew []byte, err error) {
	plain, err := v.open(tenant, owner, purpose, sealed)
	if err != nil {
		return "", nil, err
	}
	if [keyIDSize]byte(sealed[1:prefixSize]) == v.sealing {
		return hex.EncodeToString(v.sealing[:]), sealed, nil
	}
	return v.Seal(tenant, owner, purpose, plain)
}

// Open decrypts what Seal made for the same place.
func (v *Vault) Open(tenant, endpoint hook.ID, purpose string, sealed []byte) ([]byte, error) {
	plain, err := v.open(tenant, endpoint, purpose, sealed)
	if err != nil {
		return nil, fmt.Errorf("open %s of %s: %w", purpose, hook.EndpointPrefix.Format(endpoint), err)
	}
	return plain, nil
}

func (v *Vault) open(tenant, endpoint hook.ID, purpose string, sealed []byte) ([]byte, error) {
	keyID, err := KeyID(sealed)
	if err != nil {
		return nil, err
	}
	prefix, rest := sealed[:prefixSize], sealed[prefixSize:]
	aead := v.cipherOf([keyIDSize]byte(prefix[1:]))
	if aead == nil {
		return nil, fmt.Errorf("%w %s", ErrUnknownKey, keyID)
	}
	plain, err := aead.Open(nil, nil, rest, boundTo(prefix, tenant, endpoint, purpose))
	if err != nil { // the cipher does not say why, and there is nothing to say
		return nil, fmt.Errorf("%w (key %s)", ErrNotAuthentic, keyID)
	}
	return plain, nil
}

// KeyID returns the id of the key that a value was sealed with.
func KeyID(sealed []byte) (string, error) {
	if len(sealed) < prefixSize || sealed[0] != format {
		return "", fmt.Errorf("%w: unknown format", ErrNotAuthentic)
	}
	return hex.EncodeToString(sealed[1:prefixSize]), nil
}

// boundTo is the additional data that binds a value. All but the last part have
// a fixed width, so no two places look alike.
func boundTo(prefix []byte, tenant, endpoint hook.ID, purpose string) []byte {
	aad := make([]byte, 0, prefixSize+16+len(purpose))
	aad = append(aad, prefix...)
	aad = binary.BigEndian.AppendUint64(aad, uint64(tenant))
	aad = binary.BigEndian.AppendUint64(aad, uint64(endpoint))
	return append(aad, purpose...)
}
