//go:build !race

package sign_test

import (
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Signing is on the path of every attempt. It needs one string for all values;
// the race detector makes pools forget, so this is not tested under it.
func TestSignAllocatesNoMoreThanItReturns(t *testing.T) {
	for name, signatures := range map[string][]hook.Signature{
		"standard":            {standard},
		"standard and stripe": {standard, stripe},
	} {
		signer := newSigner(t, signatures, parse(t, keyB), parse(t, keyA))
		body, values := []byte(body1), 0
		count := func(_, _ string) { values++ }
		allocs := testing.AllocsPerRun(1000, func() { signer.Sign(count, vectorID, vectorTime, body) })
		if allocs > 1 || values == 0 {
			t.Errorf("%s: Sign allocates %v times, want at most 1", name, allocs)
		}
	}
}
