package sign_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/sign"
	"github.com/breakwaterhq/breakwater/receiver"
)

// The published test vectors.
const (
	vectorID = "evt_01JQ8Z6V5T3M9K2X7C4B1N0RAW"
	body1    = `{"type":"order.paid","timestamp":"2026-01-01T00:00:00Z","data":{"order":"A-1001","total":4200}}`
	body3    = "{\"a\":\"h\u00e9\"}\n"

	v1A       = "v1,qbNG4se8NEnjXC81w1x8mZUFM7jiRjNaMKYshLZYlMM="
	v1B       = "v1,W5OaoWOOzy+qj/WabYsUt0Z6kkD6wCQ68fBnI7Eu5yU="
	v1aE      = "v1a,ioUPR7niZNikgrKmrPwhDwsj64eQGVAd1n46VQw9bT0TOCClfh49O6kwEZ19CfLYPnDB/yEB4xa9zuuMazVmAA=="
	stripeA   = "v1=40c8e7e0d444e04c349c802d243277c4ad5c3a64661fc8fbbc33affe2d78d943"
	stripeB   = "v1=9641a7546e27a077e15a81a2fb1fe186b91913a8a1bc8877547f97b91defd5f4"
	stripeKey = "X-Acme-Signature"
)

var (
	vectorTime = time.Unix(1767225600, 0)

	standard = hook.Signature{Scheme: hook.SchemeStandard}
	ed25519  = hook.Signature{Scheme: hook.SchemeStandardEd25519}
	stripe   = hook.Signature{Scheme: hook.SchemeStripe, Header: "x-acme-SIGNATURE"}
)

func newSigner(t testing.TB, signatures []hook.Signature, secrets ...sign.Secret) *sign.Signer {
	t.Helper()
	s, err := sign.NewSigner(signatures, secrets)
	if err != nil {
		t.Fatalf("NewSigner: %v", err)
	}
	return s
}

func standardFor(s sign.Secret) []hook.Signature { return []hook.Signature{{Scheme: s.Scheme()}} }

func TestVectors(t *testing.T) {
	t.Parallel()
	if len(body1) != 95 || len(body3) != 12 {
		t.Fatalf("bodies have %d and %d bytes, want 95 and 12", len(body1), len(body3))
	}
	for name, tc := range map[string]struct {
		signatures []hook.Signature
		secrets    []string // newest first
		at         time.Time
		body       string
		standard   string
		stripe     string
	}{
		"A, body 1": {
			signatures: []hook.Signature{standard}, secrets: []string{keyA}, body: body1, standard: v1A,
		},
		"A, body 1, retry": {
			signatures: []hook.Signature{standard}, secrets: []string{keyA}, at: vectorTime.Add(30 * time.Second), body: body1,
			standard: "v1,G6r/BJ1shRK+hnoFS5BP+6wI57PGDunchFStzaBKiGw=",
		},
		"fractions of a second are cut": {
			signatures: []hook.Signature{standard}, secrets: []string{keyA}, at: vectorTime.Add(999 * time.Millisecond), body: body1, standard: v1A,
		},
		"rotation A to B, body 1": {
			signatures: []hook.Signature{standard}, secrets: []string{keyB, keyA}, body: body1, standard: v1B + " " + v1A,
		},
		"A, empty body": {
			signatures: []hook.Signature{standard}, secrets: []string{keyA}, body: "",
			standard: "v1,twVsW7mQMnmqYoQD6tUmR7yI3+HpFTgwk+X/LT7Gb3Q=",
		},
		"A, body 3": {
			signatures: []hook.Signature{standard}, secrets: []string{keyA}, body: body3,
			standard: "v1,iBTHtiVHrUvX5duVqudiP+15gIK/DNWrnDaUray2h9c=",
		},
		"Stripe style, A, body 1": {
			signatures: []hook.Signature{standard, stripe}, secrets: []string{keyA}, body: body1,
			standard: v1A, stripe: "t=1767225600," + stripeA,
		},
		"Stripe style, A to B, body 1": {
			signatures: []hook.Signature{standard, stripe}, secrets: []string{keyB, keyA}, body: body1,
			standard: v1B + " " + v1A, stripe: "t=1767225600," + stripeB + "," + stripeA,
		},
		"Stripe style, A, body 3": {
			signatures: []hook.Signature{stripe, standard}, secrets: []string{keyA}, body: body3,
			standard: "v1,iBTHtiVHrUvX5duVqudiP+15gIK/DNWrnDaUray2h9c=",
			stripe:   "t=1767225600,v1=c96e832011dc520175064920a31eca22764c029123c7f9fa3d80104bd25df3ba",
		},
		"Stripe style alone comes on top of v1": {
			signatures: []hook.Signature{stripe}, secrets: []string{keyA}, body: body1,
			standard: v1A, stripe: "t=1767225600," + stripeA,
		},
		"v1a, body 1": {
			signatures: []hook.Signature{ed25519}, secrets: []string{pairE}, body: body1, standard: v1aE,
		},
		"v1a from a bare seed": {
			signatures: []hook.Signature{ed25519}, secrets: []string{seedE}, body: body1, standard: v1aE,
		},
		"all at once": {
			signatures: []hook.Signature{ed25519, standard, stripe}, secrets: []string{keyB, pairE, keyA}, body: body1,
			standard: v1B + " " + v1A + " " + v1aE, stripe: "t=1767225600," + stripeB + "," + stripeA,
		},
		"secrets of other kinds do not sign": {
			signatures: []hook.Signature{standard}, secrets: []string{pairE, keyA}, body: body1, standard: v1A,
		},
		"HMAC secrets do not sign for v1a": {
			signatures: []hook.Signature{ed25519}, secrets: []string{keyA, pairE}, body: body1, standard: v1aE,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var secrets []sign.Secret
			for _, s := range tc.secrets {
				secrets = append(secrets, parse(t, s))
			}
			at := tc.at
			if at.IsZero() {
				at = vectorTime
			}
			want := http.Header{
				sign.HeaderID:        {vectorID},
				sign.HeaderTimestamp: {strconv.FormatInt(at.Unix(), 10)},
				sign.HeaderSignature: {tc.standard},
			}
			if tc.stripe != "" {
				want[stripeKey] = []string{tc.stripe}
			}
			signer := newSigner(t, tc.signatures, secrets...)
			for range 3 { // the second and third reuse the state of the first
				h := http.Header{}
				signer.Sign(h.Set, vectorID, at, []byte(tc.body))
				if diff := cmp.Diff(want, h); diff != "" {
					t.Fatalf("headers differ (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestSignReplacesOldHeadersAndLeavesOthers(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	h.Set("webhook-id", "evt_old")
	h.Set("webhook-signature", "v1,old")
	h.Set(stripeKey, "old")
	h.Set("x-tenant", "acme")
	newSigner(t, []hook.Signature{standard, stripe}, parse(t, keyA)).Sign(h.Set, vectorID, vectorTime, []byte(body1))
	want := http.Header{
		"X-Tenant":           {"acme"},
		sign.HeaderID:        {vectorID},
		sign.HeaderTimestamp: {"1767225600"},
		sign.HeaderSignature: {v1A},
		stripeKey:            {"t=1767225600," + stripeA},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("headers differ (-want +got):\n%s", diff)
	}
}

// Values share one array; adding to one header must not write into the next.
func TestHeaderValuesDoNotOverlap(t *testing.T) {
	t.Parallel()
	second := hook.Signature{Scheme: hook.SchemeStripe, Header: "X-Second"}
	h := http.Header{}
	newSigner(t, []hook.Signature{stripe, second}, parse(t, keyA)).Sign(h.Set, vectorID, vectorTime, []byte(body1))
	want := h.Clone()
	for name := range want {
		h.Add(name, "added")
		want.Add(name, "added")
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("headers differ (-want +got):\n%s", diff)
	}
}

func TestNewSignerRefuses(t *testing.T) {
	t.Parallel()
	hmac, pair := parse(t, keyA), parse(t, pairE)
	named := func(header string) hook.Signature {
		return hook.Signature{Scheme: hook.SchemeStripe, Header: header}
	}
	for name, tc := range map[string]struct {
		signatures []hook.Signature
		secrets    []sign.Secret
		want       string
	}{
		"no signature":                 {nil, []sign.Secret{hmac}, "no signature is configured"},
		"no secret":                    {[]hook.Signature{standard}, nil, "no active secret for signature scheme standard"},
		"zero secret":                  {[]hook.Signature{standard}, []sign.Secret{{}}, "no active secret"},
		"standard, only ed25519":       {[]hook.Signature{standard}, []sign.Secret{pair}, "no active secret"},
		"stripe, only ed25519":         {[]hook.Signature{stripe, ed25519}, []sign.Secret{pair}, "no active secret"},
		"ed25519, only HMAC":           {[]hook.Signature{standard, ed25519}, []sign.Secret{hmac}, "no active secret for signature scheme standard_ed25519"},
		"unknown scheme":               {[]hook.Signature{{Scheme: 9}}, []sign.Secret{hmac}, "unknown scheme"},
		"stripe without header":        {[]hook.Signature{named("")}, []sign.Secret{hmac}, "malformed"},
		"stripe over the standard one": {[]hook.Signature{named("Webhook-Signature")}, []sign.Secret{hmac}, "header name is reserved"},
		"stripe header twice":          {[]hook.Signature{named("X-Sig"), named("x-sig")}, []sign.Secret{hmac}, "listed twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := sign.NewSigner(tc.signatures, tc.secrets); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("NewSigner = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestOnlyTheNewestSecretsSign(t *testing.T) {
	t.Parallel()
	var secrets []sign.Secret
	for i := range hook.MaxActiveSecrets + 2 {
		secrets = append(secrets, parse(t, b64("whsec_", bytes.Repeat([]byte{byte(i)}, 32))))
	}
	h := http.Header{}
	newSigner(t, []hook.Signature{standard}, secrets...).Sign(h.Set, vectorID, vectorTime, nil)
	got := strings.Fields(h.Get("webhook-signature"))
	if len(got) != hook.MaxActiveSecrets {
		t.Fatalf("%d signatures, want %d", len(got), hook.MaxActiveSecrets)
	}
	for i, signature := range got {
		h := http.Header{}
		newSigner(t, []hook.Signature{standard}, secrets[i]).Sign(h.Set, vectorID, vectorTime, nil)
		if want := h.Get("webhook-signature"); signature != want {
			t.Errorf("signature %d = %s, want that of secret %d, %s", i, signature, i, want)
		}
	}
}

// Whatever is signed verifies with every one of its secrets, and with no other.
func TestReceiverAcceptsWhatWeSign(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 24, 64), 1, 4).Draw(t, "keys")
		pair, err := sign.NewEd25519(bytes.NewReader(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed")))
		if err != nil {
			t.Fatal(err)
		}
		secrets, verifying := []sign.Secret{pair}, []string{pair.Public()}
		for _, k := range keys {
			s, err := sign.ParseSecret(b64("whsec_", k))
			if err != nil {
				t.Fatal(err)
			}
			secrets, verifying = append(secrets, s), append(verifying, s.Reveal())
		}
		signer, err := sign.NewSigner([]hook.Signature{standard, ed25519, stripe}, secrets)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "at"), 0)
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		h := http.Header{}
		signer.Sign(h.Set, vectorID, at, body)

		for _, secret := range verifying {
			event, err := verifier(t, secret, at).Verify(h, body)
			if err != nil || event.ID != vectorID || !event.Timestamp.Equal(at) {
				t.Fatalf("Verify = %+v, %v", event, err)
			}
			if _, err := verifier(t, secret, at).Verify(h, append(body, 'x')); err == nil {
				t.Fatal("another body is accepted")
			}
		}
		h.Del("webhook-signature") // leaves the Stripe style
		for _, secret := range verifying[1:] {
			if _, err := verifier(t, secret, at).Verify(h, body); err != nil {
				t.Fatalf("Verify by the Stripe style: %v", err)
			}
		}
	})
}

func verifier(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, secret string, now time.Time,
) *receiver.Verifier {
	t.Helper()
	cfg := receiver.Config{Secrets: []string{secret}, Now: func() time.Time { return now }}
	if strings.HasPrefix(secret, "whsec_") {
		cfg.StripeHeader = stripeKey
	}
	v, err := receiver.New(cfg)
	if err != nil {
		t.Fatalf("receiver.New: %v", err)
	}
	return v
}

// One signer serves all requests of an endpoint at once.
func TestSignerIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	signer := newSigner(t, []hook.Signature{standard, ed25519, stripe}, parse(t, keyB), parse(t, keyA), parse(t, pairE))
	accept := []*receiver.Verifier{
		verifier(t, keyA, vectorTime), verifier(t, keyB, vectorTime), verifier(t, publicE, vectorTime),
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := range 50 {
				body := bytes.Repeat([]byte{byte(w), byte(n)}, 1+n*100)
				h := http.Header{}
				signer.Sign(h.Set, fmt.Sprintf("evt_%d_%d", w, n), vectorTime, body)
				if _, err := accept[n%len(accept)].Verify(h, body); err != nil {
					t.Errorf("worker %d, request %d: %v", w, n, err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkSign(b *testing.B) {
	for name, bm := range map[string]struct {
		signatures []hook.Signature
		secrets    []string
		size       int
	}{
		"standard/1KiB":            {[]hook.Signature{standard}, []string{keyA}, 1 << 10},
		"standard/64KiB":           {[]hook.Signature{standard}, []string{keyA}, 64 << 10},
		"standard+rotation/1KiB":   {[]hook.Signature{standard}, []string{keyB, keyA}, 1 << 10},
		"standard+stripe/1KiB":     {[]hook.Signature{standard, stripe}, []string{keyA}, 1 << 10},
		"standard_ed25519/1KiB":    {[]hook.Signature{ed25519}, []string{pairE}, 1 << 10},
		"standard, parallel/1KiB":  {[]hook.Signature{standard}, []string{keyA}, 1 << 10},
		"standard_ed25519/128 KiB": {[]hook.Signature{ed25519}, []string{pairE}, 128 << 10},
	} {
		b.Run(name, func(b *testing.B) {
			var secrets []sign.Secret
			for _, s := range bm.secrets {
				secrets = append(secrets, parse(b, s))
			}
			signer := newSigner(b, bm.signatures, secrets...)
			body := counting(bm.size)
			ignore := func(_, _ string) {}
			b.ReportAllocs()
			b.SetBytes(int64(bm.size))
			if strings.Contains(name, "parallel") {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						signer.Sign(ignore, vectorID, vectorTime, body)
					}
				})
				return
			}
			for b.Loop() {
				signer.Sign(ignore, vectorID, vectorTime, body)
			}
		})
	}
}
