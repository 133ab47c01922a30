package sign_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/sign"
)

// The keys of the published test vectors.
const (
	keyA    = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	keyB    = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3"
	seedE   = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	pairE   = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8DoQe/884Qvh1w3RjnS8CZZ+TWMJulDV8d3IZkElUxuA=="
	publicE = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
)

func parse(t testing.TB, s string) sign.Secret {
	t.Helper()
	secret, err := sign.ParseSecret(s)
	if err != nil {
		t.Fatalf("ParseSecret: %v", err)
	}
	return secret
}

// counting returns the bytes 00, 01, 02 and so on.
func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func b64(prefix string, b []byte) string { return prefix + base64.StdEncoding.EncodeToString(b) }

func TestNewSecretsAreDrawnFromTheirSource(t *testing.T) {
	t.Parallel()
	hmac, err := sign.NewSecret(bytes.NewReader(counting(32)))
	if err != nil || hmac.Reveal() != keyA || hmac.Scheme() != hook.SchemeStandard || hmac.Public() != "" {
		t.Errorf("NewSecret = %q, %v, %q, %v, want %q without a public key", hmac.Reveal(), hmac.Scheme(), hmac.Public(), err, keyA)
	}
	pair, err := sign.NewEd25519(bytes.NewReader(counting(32)))
	if err != nil || pair.Reveal() != pairE || pair.Scheme() != hook.SchemeStandardEd25519 || pair.Public() != publicE {
		t.Errorf("NewEd25519 = %q, %v, %q, %v, want %q and %q", pair.Reveal(), pair.Scheme(), pair.Public(), err, pairE, publicE)
	}
}

func TestNewSecretsAreNotRepeated(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(io.Reader) (sign.Secret, error){
		"hmac": sign.NewSecret, "ed25519": sign.NewEd25519,
	} {
		a, errA := draw(rand.Reader)
		b, errB := draw(rand.Reader)
		if errA != nil || errB != nil || a.Reveal() == b.Reveal() {
			t.Errorf("%s: two draws gave the same secret or failed: %v, %v", name, errA, errB)
		}
		if parsed := parse(t, a.Reveal()); parsed.Reveal() != a.Reveal() || parsed.Public() != a.Public() {
			t.Errorf("%s: a drawn secret reads back as another", name)
		}
	}
}

func TestNewSecretFailsWithItsSource(t *testing.T) {
	t.Parallel()
	broken := errors.New("no entropy")
	for name, draw := range map[string]func(io.Reader) (sign.Secret, error){
		"hmac": sign.NewSecret, "ed25519": sign.NewEd25519,
	} {
		if s, err := draw(iotest.ErrReader(broken)); !errors.Is(err, broken) || !s.IsZero() {
			t.Errorf("%s: drawn from a broken source: %v, want the error and no secret", name, err)
		}
		if _, err := draw(bytes.NewReader(counting(31))); err == nil {
			t.Errorf("%s: a short source made a secret", name)
		}
	}
}

func TestParseSecret(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in     string
		scheme hook.Scheme
		reveal string // "" means as given
		public string
		last4  string
	}{
		"hmac, 32 bytes":          {keyA, hook.SchemeStandard, "", "", "Hh8="},
		"hmac, fewest bytes":      {keyB, hook.SchemeStandard, "", "", "NTY3"},
		"hmac, most bytes":        {b64("whsec_", counting(64)), hook.SchemeStandard, "", "", "Pw=="},
		"ed25519, seed completed": {seedE, hook.SchemeStandardEd25519, pairE, publicE, "uA=="},
		"ed25519, key pair":       {pairE, hook.SchemeStandardEd25519, "", publicE, "uA=="},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := parse(t, tc.in)
			if tc.reveal == "" {
				tc.reveal = tc.in
			}
			if s.Scheme() != tc.scheme || s.Reveal() != tc.reveal || s.Public() != tc.public || s.Last4() != tc.last4 {
				t.Errorf("got %v %q %q %q, want %v %q %q %q",
					s.Scheme(), s.Reveal(), s.Public(), s.Last4(), tc.scheme, tc.reveal, tc.public, tc.last4)
			}
		})
	}
}

func TestParseSecretRefuses(t *testing.T) {
	t.Parallel()
	foreignPublic := counting(64)
	for name, tc := range map[string]struct{ in, rule string }{
		"empty":               {"", "start with"},
		"no prefix":           {strings.TrimPrefix(keyA, "whsec_"), "start with"},
		"another prefix":      {strings.Replace(keyA, "whsec_", "whsek_", 1), "start with"},
		"upper case prefix":   {strings.Replace(keyA, "whsec_", "WHSEC_", 1), "start with"},
		"public key":          {publicE, "start with"},
		"space in front":      {" " + keyA, "start with"},
		"prefix only":         {"whsec_", "0 bytes"},
		"23 bytes":            {b64("whsec_", counting(23)), "23 bytes, must have 24 to 64"},
		"65 bytes":            {b64("whsec_", counting(65)), "65 bytes, must have 24 to 64"},
		"no padding":          {strings.TrimRight(keyA, "="), "base64 with padding"},
		"url alphabet":        {"whsec_" + strings.Repeat("-_", 22), "base64 with padding"},
		"trailing newline":    {keyA + "\n", "base64 with padding"},
		"newline inside":      {keyA[:20] + "\r\n" + keyA[20:], "base64 with padding"},
		"trailing bits":       {keyA[:len(keyA)-2] + "9=", "base64 with padding"},
		"text after padding":  {keyA + "AAAA", "base64 with padding"},
		"ed25519, 31 bytes":   {b64("whsk_", counting(31)), "31 bytes, must have 64 (seed and public key) or 32 (seed)"},
		"ed25519, 63 bytes":   {b64("whsk_", counting(63)), "63 bytes"},
		"ed25519, wrong half": {b64("whsk_", foreignPublic), "does not belong"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := sign.ParseSecret(tc.in)
			if !errors.Is(err, sign.ErrBadSecret) || !s.IsZero() {
				t.Fatalf("ParseSecret = %v, want ErrBadSecret and no secret", err)
			}
			if !strings.Contains(err.Error(), tc.rule) {
				t.Errorf("error %q does not name the rule %q", err, tc.rule)
			}
			if _, text, _ := strings.Cut(tc.in, "_"); len(text) > 8 && strings.Contains(err.Error(), text[:8]) {
				t.Errorf("error %q holds the secret", err)
			}
		})
	}
}

// leaks reports whether out holds the secret in any form that printing a value
// could give it.
func leaks(out string, s sign.Secret) bool {
	text := s.Reveal()
	_, encoded, _ := strings.Cut(text, "_")
	key, _ := base64.StdEncoding.DecodeString(encoded)
	list := strings.Trim(fmt.Sprint(key[:8]), "[]")
	for _, form := range []string{
		encoded[:12], list, strings.ReplaceAll(list, " ", ","), fmt.Sprintf("%x", key[:8]), fmt.Sprintf("%X", key[:8]),
		fmt.Sprintf("%x", encoded[:8]), "0x0, 0x1, 0x2, 0x3", string(key[:8]),
	} {
		if strings.Contains(out, form) {
			return true
		}
	}
	return false
}

func TestSecretsNeverPrint(t *testing.T) {
	t.Parallel()
	type holder struct {
		Public sign.Secret
		hidden sign.Secret
		list   []sign.Secret
		byName map[string]sign.Secret
		any    any
	}
	for _, text := range []string{keyA, pairE} {
		s := parse(t, text)
		signer := newSigner(t, standardFor(s), s)
		signer.Sign(http.Header{}.Set, "evt_1", vectorTime, nil) // fills the pool
		h := holder{s, s, []sign.Secret{s}, map[string]sign.Secret{"a": s}, s}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%c", "%U", "%t", "%p"} {
			for _, v := range []any{s, &s, h, &h, signer, struct{ s *sign.Signer }{signer}, secretError{s}} {
				if out := fmt.Sprintf(verb, v); leaks(out, s) {
					t.Errorf("%s of %T prints the secret: %s", verb, v, out)
				}
			}
		}
		encoded, err := json.Marshal(map[string]any{"secret": s, "pointer": &s, "holder": h})
		if err != nil || leaks(string(encoded), s) {
			t.Errorf("JSON holds the secret (%v): %s", err, encoded)
		}
		var log bytes.Buffer
		for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
			slog.New(handler).Info("made", "secret", s, "pointer", &s, "holder", h, slog.Group("g", "s", s))
		}
		if leaks(log.String(), s) || !strings.Contains(log.String(), "[redacted]") {
			t.Errorf("the log holds the secret, or nothing at all: %s", log.String())
		}
	}
}

type secretError struct{ s sign.Secret }

func (e secretError) Error() string { return fmt.Sprint("bad secret ", e.s) }

func TestZeroSecretIsHarmless(t *testing.T) {
	t.Parallel()
	var s sign.Secret
	if !s.IsZero() || s.Reveal() != "" || s.Public() != "" || s.Last4() != "" || fmt.Sprint(s) != "[redacted]" {
		t.Errorf("zero Secret: %q %q %q %v", s.Reveal(), s.Public(), s.Last4(), s)
	}
}

func FuzzParseSecret(f *testing.F) {
	for _, s := range []string{keyA, keyB, seedE, pairE, publicE, "whsec_", "whsk_=", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := sign.ParseSecret(text)
		if err != nil {
			return
		}
		if s.Scheme() == hook.SchemeStandard && s.Reveal() != text {
			t.Fatalf("%q reads back as %q: the characters are a key", text, s.Reveal())
		}
		again, err := sign.ParseSecret(s.Reveal())
		if err != nil || again.Reveal() != s.Reveal() || again.Public() != s.Public() {
			t.Fatalf("%q is not stable: %v", text, err)
		}
	})
}
