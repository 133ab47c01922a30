package receiver_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// rawKey, hexHMAC and sign know the format without the package under test.
func rawKey(t testing.TB, secret string) []byte {
	t.Helper()
	_, text, _ := strings.Cut(secret, "_")
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func hexHMAC(t testing.TB, key []byte, text string) string {
	t.Helper()
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

func sign(t testing.TB, secret, id string, at int64, body []byte) string {
	t.Helper()
	mac := hmac.New(sha256.New, rawKey(t, secret))
	fmt.Fprintf(mac, "%s.%d.%s", id, at, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// FuzzVerify knows the right signatures: whatever else is accepted is forged.
func FuzzVerify(f *testing.F) {
	f.Add(v1A, "1767225600", []byte(body))
	f.Add(v1B+" "+v1A+" "+v1aE, "1767225600", []byte(body))
	f.Add("v1, v1a, ,,, v2", "1767225600", []byte{})
	f.Add("t=1767225600,"+stripeA, "1767225600", []byte(body))
	f.Fuzz(func(t *testing.T, signature, timestamp string, body []byte) {
		v := newVerifier(t, withSecrets(keyA, publicE))
		h := headers(signature)
		h.Set("webhook-timestamp", timestamp)
		if _, err := v.Verify(h, body); err != nil {
			return
		}
		at, err := strconv.ParseInt(timestamp, 10, 64)
		if err != nil || at < unixTime-300 || at > unixTime+300 {
			t.Fatalf("timestamp %q is accepted", timestamp)
		}
		right := sign(t, keyA, id, at, body)
		for s := range strings.SplitSeq(signature, " ") {
			if s == right || strings.HasPrefix(s, "v1a,") && verifiesEd25519(t, s[4:], timestamp, body) {
				return
			}
		}
		t.Fatalf("signature %q is accepted", signature)
	})
}

func verifiesEd25519(t testing.TB, text, timestamp string, body []byte) bool {
	t.Helper()
	sig, err := base64.StdEncoding.DecodeString(text)
	return err == nil && ed25519.Verify(rawKey(t, publicE), []byte(id+"."+timestamp+"."+string(body)), sig)
}

// A request with a thousand signatures costs no more than one with twenty.
func BenchmarkVerify(b *testing.B) {
	for name, tc := range map[string]struct {
		signature string
		secrets   []string
	}{
		"v1":                 {v1A, []string{keyA}},
		"v1a":                {v1aE, []string{publicE}},
		"1000 forged, v1":    {strings.Repeat(v1B+" ", 1000), []string{keyA}},
		"1000 forged, v1a":   {strings.Repeat(strings.Replace(v1aE, "ioUP", "joUP", 1)+" ", 1000), []string{publicE}},
		"one 64 KiB forgery": {"v1," + strings.Repeat("A", 64<<10), []string{keyA}},
	} {
		b.Run(name, func(b *testing.B) {
			v := newVerifier(b, withSecrets(tc.secrets...))
			h := headers(tc.signature)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = v.Verify(h, []byte(body))
			}
		})
	}
}
