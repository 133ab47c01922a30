package receiver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/receiver"
)

var errWork = errors.New("no such table: s3cret_orders")

func TestStatus(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err   error
		code  int
		after time.Duration
	}{
		"nil":                    {nil, 204, 0},
		"any":                    {errWork, 500, 0},
		"permanent":              {receiver.Permanent(errWork), 422, 0},
		"permanent, no cause":    {receiver.Permanent(nil), 422, 0},
		"later":                  {receiver.Later(errWork, 30*time.Second), 503, 30 * time.Second},
		"later, no cause":        {receiver.Later(nil, time.Second), 503, time.Second},
		"later, rounded up":      {receiver.Later(errWork, 1001*time.Millisecond), 503, 2 * time.Second},
		"later, at once":         {receiver.Later(errWork, 0), 503, 0},
		"later, in the past":     {receiver.Later(errWork, -time.Hour), 503, 0},
		"later, never":           {receiver.Later(errWork, math.MaxInt64), 503, 365 * 24 * time.Hour},
		"too many":               {receiver.TooMany(time.Minute), 429, time.Minute},
		"too many, no time":      {receiver.TooMany(0), 429, 0},
		"gone":                   {receiver.Gone(), 410, 0},
		"busy":                   {receiver.ErrBusy, 503, 5 * time.Second},
		"wrapped":                {fmt.Errorf("order 42: %w", receiver.Permanent(errWork)), 422, 0},
		"joined":                 {errors.Join(errWork, receiver.Later(errWork, time.Second)), 503, time.Second},
		"the outer one counts":   {receiver.Permanent(receiver.Later(errWork, time.Second)), 422, 0},
		"a verdict beats busy":   {receiver.Permanent(receiver.ErrBusy), 422, 0},
		"the end of the context": {context.DeadlineExceeded, 500, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, after := receiver.Status(tc.err); code != tc.code || after != tc.after {
				t.Errorf("Status(%v) = %d, %v; want %d, %v", tc.err, code, after, tc.code, tc.after)
			}
		})
	}
}

func TestVerdictsKeepTheirCause(t *testing.T) {
	t.Parallel()
	for _, err := range []error{receiver.Permanent(errWork), receiver.Later(errWork, time.Second)} {
		if !errors.Is(err, errWork) || !strings.Contains(err.Error(), errWork.Error()) {
			t.Errorf("%v does not lead to its cause", err)
		}
	}
	if got, want := receiver.Later(errWork, time.Minute).Error(), "later, again in 1m0s: "+errWork.Error(); got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

// TestSendersReadWhatWasMeant sends every answer over HTTP and reads it as the
// sender does: never earlier than asked for, less than a second later.
func TestSendersReadWhatWasMeant(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		after := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(400*24*time.Hour)).Draw(t, "after"))
		var err error
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			err = receiver.Later(errWork, after)
		case 1:
			err = receiver.TooMany(after)
		case 2:
			err, after = receiver.Permanent(errWork), 0
		case 3:
			err, after = receiver.Gone(), 0
		}
		if rapid.Bool().Draw(t, "wrapped") {
			err = fmt.Errorf("wrapped: %w", err)
		}
		answer := serve(receiver.HandlerOptions{OnError: ignore}, func(context.Context, receiver.Event) error { return err })
		code, told := receiver.Status(err)
		if answer.Code != code {
			t.Fatalf("answer %d, Status says %d", answer.Code, code)
		}
		read, usable := policy.ParseRetryAfter(answer.Header().Values("Retry-After"), "", sentAt)
		if usable != (after > 0) || usable && read != told {
			t.Fatalf("the sender reads %v (usable %v), Status says %v for %v", read, usable, told, after)
		}
		if bound := min(after, 365*24*time.Hour); usable && (read < bound || read >= bound+time.Second) {
			t.Fatalf("the sender waits %v, asked for were %v", read, after)
		}
	})
}

func ignore(receiver.Event, error) {}

// serve sends the signed request of the test vectors through a Handler.
func serve(o receiver.HandlerOptions, fn func(context.Context, receiver.Event) error) *httptest.ResponseRecorder {
	v, err := receiver.New(receiver.Config{Secrets: []string{keyA}, Now: func() time.Time { return sentAt }})
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	v.Handler(o, fn).ServeHTTP(w, signedRequest(context.Background()))
	return w
}

func signedRequest(ctx context.Context) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/hook", io.NopCloser(strings.NewReader(body)))
	r.Header = headers(v1A)
	return r
}
