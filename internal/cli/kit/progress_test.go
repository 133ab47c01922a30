package kit_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// TestProgressInALog: where nobody sees a bar move, long work has a line every ten
// seconds, and short work none.
func TestProgressInALog(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		session kit.Session
		total   int
		want    string
	}{
		"of so many":   {kit.Session{}, 100, "sending: 10 of 100\nsending: 20 of 100\n"},
		"nobody knows": {kit.Session{}, 0, "sending: 10\nsending: 20\n"},
		"one thing":    {kit.Session{}, 1, ""},
		"quiet":        {kit.Session{Quiet: true}, 100, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var stderr bytes.Buffer
				s := tc.session
				s.Stderr = &stderr
				p := s.NewProgress("sending", tc.total)
				for second := range 25 {
					p.Set(second)
					time.Sleep(time.Second)
				}
				p.End()
				if got := stderr.String(); got != tc.want {
					t.Errorf("told %q, want %q", got, tc.want)
				}
			})
		})
	}
}
