//go:build !race

package sign_test

import (
	"net/http"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Signing is on the path of every attempt. It needs one string for all values
// and one slice to put them in; the race detector makes pools forget, so this
// is not tested under it.
func TestSignAllocatesNoMoreThanItReturns(t *testing.T) {
	for name, signatures := range map[string][]hook.Signature{
		"standard":            {standard},
		"standard and stripe": {standard, stripe},
	} {
		signer := newSigner(t, signatures, parse(t, keyB), parse(t, keyA))
		h, body := http.Header{}, []byte(body1)
		allocs := testing.AllocsPerRun(1000, func() { signer.Sign(h, vectorID, vectorTime, body) })
		if allocs > 2 {
			t.Errorf("%s: Sign allocates %v times, want at most 2", name, allocs)
		}
	}
}
