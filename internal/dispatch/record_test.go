package dispatch_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// TestStoredAnswersAreBounded: a destination that fails with as much as it may
// does not fill the disk.
func TestStoredAnswersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		header := http.Header{"Retry-After": {strings.Repeat("x", 10_000)}, "A-Small": {"one"}}
		for i := range 30 {
			header["X-"+strings.Repeat("a", i)] = []string{strings.Repeat("v", 2000)}
		}
		r := newRig(t, func(arrival) egress.Result {
			return egress.Result{Status: 500, Body: bytes.Repeat([]byte("x"), 16<<10), Header: header}
		})
		defer r.close()
		e := r.endpoint(`{"retry":{"max_attempts":20,"backoff":{"base":"1s","multiplier":1,"cap":"1s"}},"breaker":{"enabled":false}}`)
		id := r.publish(e, 1)[0]
		time.Sleep(10 * time.Minute)

		attempts, total := r.attempts(id), 0
		if len(attempts) < 10 {
			t.Fatalf("%d attempts", len(attempts))
		}
		for i, a := range attempts {
			want := 16 << 10
			if i >= 3 {
				want = 1 << 10
			}
			if len(a.Excerpt) != want || a.Detail.Truncated != (i >= 3) {
				t.Errorf("attempt %d keeps %d bytes, truncated %v; want %d", i+1, len(a.Excerpt), a.Detail.Truncated, want)
			}
			size := len(a.Detail.RetryAfter)
			for name, values := range a.Detail.ResponseHeaders {
				size += len(name) + len(strings.Join(values, ""))
			}
			if size > 6<<10 || a.Detail.ResponseHeaders["A-Small"] == nil {
				t.Errorf("attempt %d keeps %d bytes of headers: %v", i+1, size, a.Detail.ResponseHeaders)
			}
			total += len(a.Excerpt)
		}
		if most := 3*16<<10 + len(attempts)<<10; total > most {
			t.Errorf("%d bytes of bodies in all, want at most %d", total, most)
		}
	})
}

// TestEchoedHeadersAreMasked: a destination that repeats what it was sent, as
// many do when they fail, must not put a token into the log of attempts.
func TestEchoedHeadersAreMasked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const token = "open-sesame-7391"
		r := newRig(t, func(arrival) egress.Result {
			return egress.Result{
				Status: 500, Header: http.Header{"X-Debug": {"got " + token, "fine"}},
				Body: []byte("you sent " + token + ", twice: " + token + " and " + token[:9]), Truncated: true,
			}
		})
		defer r.close()
		e := r.endpointWith("", func(e *hook.Endpoint) {
			var err error
			_, e.HeadersSealed, err = r.vault.Seal(e.TenantID, e.ID, vault.PurposeHeaders, []byte(`{"x-token":"`+token+`","x-short":"you"}`))
			r.must(err)
		})
		id := r.publish(e, 1)[0]
		time.Sleep(time.Second)
		a := r.attempts(id)[0]
		if got, want := string(a.Excerpt), "you sent ***, twice: *** and ***"; got != want {
			t.Errorf("body = %q, want %q", got, want)
		}
		if got := a.Detail.ResponseHeaders["X-Debug"]; got[0] != "got ***" || got[1] != "fine" {
			t.Errorf("header = %q", got)
		}
	})
}
