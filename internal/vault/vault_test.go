package vault_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

const (
	tenant   hook.ID = 1 << 30
	endpoint hook.ID = 1<<30 + 1
	marker           = "whsec_MARKER-MARKER-MARKER-MARKER"
)

func newKey(t testing.TB) vault.Key {
	t.Helper()
	k, err := vault.NewKey(rand.Reader)
	if err != nil {
		t.Fatalf("NewKey: %v", err)
	}
	return k
}

func open(t testing.TB, keys ...vault.Key) *vault.Vault {
	t.Helper()
	v, err := vault.Open(keys)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return v
}

func seal(t testing.TB, v *vault.Vault) (keyID string, sealed []byte) {
	t.Helper()
	keyID, sealed, err := v.Seal(tenant, endpoint, vault.PurposeSecret, []byte(marker))
	if err != nil {
		t.Fatalf("Seal: %v", err)
	}
	return keyID, sealed
}

func TestSealedValuesOpen(t *testing.T) {
	t.Parallel()
	v := open(t, newKey(t))
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		tenant, endpoint := hook.ID(rapid.Int64().Draw(t, "tenant")), hook.ID(rapid.Int64().Draw(t, "endpoint"))
		_, sealed, err := v.Seal(tenant, endpoint, vault.PurposeHeaders, plain)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := v.Open(tenant, endpoint, vault.PurposeHeaders, sealed); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("Open = %x, %v, want %x", got, err, plain)
		}
	})
}

func TestCiphertextHidesPlaintext(t *testing.T) {
	t.Parallel()
	v := open(t, newKey(t))
	_, first := seal(t, v)
	_, second := seal(t, v)
	for _, part := range []string{marker, marker[6:], "MARKER"} {
		if bytes.Contains(first, []byte(part)) {
			t.Errorf("sealed value holds %q", part)
		}
	}
	if bytes.Equal(first, second) {
		t.Error("sealing twice gave the same bytes: the nonce is reused")
	}
}

// A row that is copied to another place in the database must not open there:
// otherwise a tenant could make us sign with, or show, the secret of another.
func TestMovedValuesDoNotOpen(t *testing.T) {
	t.Parallel()
	v := open(t, newKey(t))
	_, sealed := seal(t, v)
	for name, move := range map[string]func() ([]byte, error){
		"another endpoint": func() ([]byte, error) { return v.Open(tenant, endpoint+1, vault.PurposeSecret, sealed) },
		"another tenant":   func() ([]byte, error) { return v.Open(tenant+1, endpoint, vault.PurposeSecret, sealed) },
		"another purpose":  func() ([]byte, error) { return v.Open(tenant, endpoint, vault.PurposeHeaders, sealed) },
		"ids swapped":      func() ([]byte, error) { return v.Open(endpoint, tenant, vault.PurposeSecret, sealed) },
		"no purpose":       func() ([]byte, error) { return v.Open(tenant, endpoint, "", sealed) },
	} {
		if plain, err := move(); !errors.Is(err, vault.ErrNotAuthentic) || plain != nil {
			t.Errorf("%s: Open = %q, %v, want ErrNotAuthentic", name, plain, err)
		}
	}
}

func TestAlteredValuesDoNotOpen(t *testing.T) {
	t.Parallel()
	v := open(t, newKey(t))
	_, sealed := seal(t, v)
	for i := range sealed {
		altered := bytes.Clone(sealed)
		altered[i] ^= 1
		if plain, err := v.Open(tenant, endpoint, vault.PurposeSecret, altered); err == nil {
			t.Errorf("byte %d altered: opens as %q", i, plain)
		}
		if plain, err := v.Open(tenant, endpoint, vault.PurposeSecret, sealed[:i]); err == nil {
			t.Errorf("cut to %d bytes: opens as %q", i, plain)
		}
	}
	for name, garbage := range map[string][]byte{"nil": nil, "longer": append(bytes.Clone(sealed), 0), "text": []byte(marker)} {
		if _, err := v.Open(tenant, endpoint, vault.PurposeSecret, garbage); !errors.Is(err, vault.ErrNotAuthentic) {
			t.Errorf("%s: Open = %v, want ErrNotAuthentic", name, err)
		}
	}
}

func TestFirstKeySealsAllKeysOpen(t *testing.T) {
	t.Parallel()
	older, newer := newKey(t), newKey(t)
	before := open(t, older)
	after := open(t, newer, older)

	oldID, oldSealed := seal(t, before)
	newID, newSealed := seal(t, after)
	if oldID != older.ID() || newID != newer.ID() {
		t.Errorf("sealed with %s and %s, want %s and %s", oldID, newID, older.ID(), newer.ID())
	}
	for name, sealed := range map[string][]byte{"old": oldSealed, "new": newSealed} {
		if plain, err := after.Open(tenant, endpoint, vault.PurposeSecret, sealed); err != nil || string(plain) != marker {
			t.Errorf("%s value: Open = %q, %v", name, plain, err)
		}
	}
}

func TestUnknownKeyIsNamed(t *testing.T) {
	t.Parallel()
	keyID, sealed := seal(t, open(t, newKey(t)))
	_, err := open(t, newKey(t)).Open(tenant, endpoint, vault.PurposeSecret, sealed)
	if !errors.Is(err, vault.ErrUnknownKey) || !strings.Contains(err.Error(), keyID) {
		t.Errorf("Open with another key = %v, want ErrUnknownKey that names %s", err, keyID)
	}
}

// Two keys with the same id are not found by chance; a forged id stands in.
func TestWrongKeyDoesNotOpen(t *testing.T) {
	t.Parallel()
	_, sealed := seal(t, open(t, newKey(t)))
	wrong := newKey(t)
	id, err := hex.DecodeString(wrong.ID())
	if err != nil {
		t.Fatal(err)
	}
	copy(sealed[1:], id)
	if _, err := open(t, wrong).Open(tenant, endpoint, vault.PurposeSecret, sealed); !errors.Is(err, vault.ErrNotAuthentic) {
		t.Errorf("Open with a wrong key = %v, want ErrNotAuthentic", err)
	}
}

func TestKeyIDIsInTheSealedValue(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	keyID, sealed := seal(t, open(t, key))
	if got, err := vault.KeyID(sealed); err != nil || got != keyID || got != key.ID() {
		t.Errorf("KeyID = %q, %v, want %q", got, err, keyID)
	}
	for _, garbage := range [][]byte{nil, {1}, {1, 2, 3, 4}, []byte(marker)} {
		if id, err := vault.KeyID(garbage); !errors.Is(err, vault.ErrNotAuthentic) {
			t.Errorf("KeyID(%q) = %q, %v, want ErrNotAuthentic", garbage, id, err)
		}
	}
}

func TestOpenRefusesKeys(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	for name, keys := range map[string][]vault.Key{
		"none": nil, "zero": {{}}, "zero in second place": {key, {}}, "twice": {key, key},
	} {
		if _, err := vault.Open(keys); err == nil {
			t.Errorf("%s: Open succeeded", name)
		}
	}
	if _, _, err := open(t, key).Seal(tenant, endpoint, "", []byte(marker)); err == nil {
		t.Error("sealed without a purpose")
	}
}

// The sealed form is stored: a value sealed by an earlier version opens.
func TestSealedFormIsPinned(t *testing.T) {
	t.Parallel()
	key, err := vault.ParseKey("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	if err != nil {
		t.Fatal(err)
	}
	const sealed = "AWMNzSmpwIEej1EDdUMVc3IVyvHSwO33iY2p5wzxYLDXZowDfJfVXtEqivnFhF9IzxKImu7Z0N20S+N7V6A/+zoA"
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := open(t, key).Open(tenant, endpoint, vault.PurposeSecret, raw); err != nil || string(plain) != marker {
		t.Errorf("Open = %q, %v, want %q", plain, err, marker)
	}
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	raw := sha256.Sum256([]byte("a key"))
	text := base64.StdEncoding.EncodeToString(raw[:])
	sum := sha256.Sum256(raw[:])
	wantID := hex.EncodeToString(sum[:])[:8]
	for name, in := range map[string]string{"plain": text, "with newline": text + "\n", "with spaces": "  " + text + "\r\n"} {
		if k, err := vault.ParseKey(in); err != nil || k.ID() != wantID {
			t.Errorf("%s: ParseKey = %s, %v, want key %s", name, k.ID(), err, wantID)
		}
	}
	for name, in := range map[string]string{
		"empty":        "",
		"31 bytes":     base64.StdEncoding.EncodeToString(raw[:31]),
		"33 bytes":     base64.StdEncoding.EncodeToString(append(raw[:], 0)),
		"no padding":   strings.TrimRight(text, "="),
		"hexadecimal":  hex.EncodeToString(raw[:]),
		"url alphabet": strings.Repeat("-_", 21) + "A=",
		"two keys":     text + "\n" + text,
	} {
		k, err := vault.ParseKey(in)
		if !errors.Is(err, vault.ErrBadKey) || !k.IsZero() || k.ID() != "" {
			t.Errorf("%s: ParseKey = %v, want ErrBadKey", name, err)
		}
		if len(in) > 8 && strings.Contains(fmt.Sprint(err), in[:8]) {
			t.Errorf("%s: error %q holds the key", name, err)
		}
	}
}

func TestNewKeyFailsWithItsSource(t *testing.T) {
	t.Parallel()
	if _, err := vault.NewKey(bytes.NewReader(make([]byte, 31))); err == nil {
		t.Error("NewKey made a key of 31 bytes")
	}
}

func TestKeysNeverPrint(t *testing.T) {
	t.Parallel()
	// The first round keys of AES-256 are the key itself, as 32-bit words.
	raw := bytes.Repeat([]byte{0xa1, 0xb2, 0xc3, 0xd4}, 8)
	text := base64.StdEncoding.EncodeToString(raw)
	key, err := vault.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	forms := []string{text[:12], "161 178 195 212", "a1b2c3d4", "A1B2C3D4", "0xa1, 0xb2", "2712847316", "3569595041", "d4c3b2a1"}
	v := open(t, key)
	holder := struct {
		Key  vault.Key
		key  vault.Key
		keys []vault.Key
		v    *vault.Vault
	}{key, key, []vault.Key{key}, v}

	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%c", "%U", "%t"} {
		for _, value := range []any{key, &key, holder, &holder, v} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
	}
	encoded, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(encoded)
	slog.New(slog.NewTextHandler(&out, nil)).Info("text", "key", key, "holder", holder)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "key", key, "holder", holder)
	for line := range strings.Lines(out.String()) {
		for _, form := range forms {
			if strings.Contains(line, form) {
				t.Errorf("printed as %q: %s", form, line)
			}
		}
	}
}

func TestVaultIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	v := open(t, newKey(t), newKey(t))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for range 100 {
				plain := []byte(strings.Repeat("x", w))
				_, sealed, err := v.Seal(tenant, hook.ID(w), vault.PurposeSecret, plain)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := v.Open(tenant, hook.ID(w), vault.PurposeSecret, sealed); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("Open = %q, %v, want %q", got, err, plain)
				}
			}
		})
	}
	wg.Wait()
}

func TestResealedValuesOpenWithTheNewKeyAlone(t *testing.T) {
	t.Parallel()
	before, after := newKey(t), newKey(t)
	_, sealed := seal(t, open(t, before))
	both := open(t, after, before)
	keyID, anew, err := both.Reseal(tenant, endpoint, vault.PurposeSecret, sealed)
	if err != nil || keyID != after.ID() {
		t.Fatalf("Reseal = key %s, %v, want %s", keyID, err, after.ID())
	}
	if got, err := open(t, after).Open(tenant, endpoint, vault.PurposeSecret, anew); err != nil || string(got) != marker {
		t.Errorf("Open = %q, %v", got, err)
	}
	if _, again, err := both.Reseal(tenant, endpoint, vault.PurposeSecret, anew); err != nil || !bytes.Equal(again, anew) {
		t.Errorf("a value of the new key was sealed again: %v", err)
	}
	if _, _, err := both.Reseal(tenant, endpoint+1, vault.PurposeSecret, sealed); !errors.Is(err, vault.ErrNotAuthentic) {
		t.Errorf("a value that was moved: %v, want ErrNotAuthentic", err)
	}
	if _, _, err := open(t, after).Reseal(tenant, endpoint, vault.PurposeSecret, sealed); !errors.Is(err, vault.ErrUnknownKey) {
		t.Errorf("without the old key: %v, want ErrUnknownKey", err)
	}
}
