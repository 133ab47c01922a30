package receiver_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/receiver"
)

// post sends a request through the middleware and returns the answer and what
// the handler behind it saw.
func post(t *testing.T, v *receiver.Verifier, h http.Header, body io.Reader) (answer *http.Response, seen *http.Request, read []byte) {
	t.Helper()
	handler := v.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		var err error
		if read, err = io.ReadAll(r.Body); err != nil {
			t.Errorf("read the body again: %v", err)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hook", body)
	r.Header = h
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Result(), seen, read
}

func TestMiddlewarePassesVerifiedRequests(t *testing.T) {
	t.Parallel()
	for name, reader := range map[string]io.Reader{
		"known length":   strings.NewReader(body),
		"unknown length": iotest.OneByteReader(strings.NewReader(body)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, seen, read := post(t, newVerifier(t, nil), headers(v1A), reader)
			if answer.StatusCode != http.StatusNoContent || string(read) != body || seen.ContentLength != int64(len(body)) {
				t.Fatalf("status %d, body %q of length %d; want 204 and the whole body", answer.StatusCode, read, seen.ContentLength)
			}
			event, ok := receiver.FromContext(seen.Context())
			want := receiver.Event{ID: id, Type: "order.paid", Timestamp: sentAt, Body: []byte(body)}
			if diff := cmp.Diff(want, event); !ok || diff != "" {
				t.Errorf("event differs, found %v (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestMiddlewareRefuses(t *testing.T) {
	t.Parallel()
	limit := func(n int64) func(*receiver.Config) { return func(c *receiver.Config) { c.MaxBody = n } }
	old := func(c *receiver.Config) { c.Now = func() time.Time { return sentAt.Add(time.Hour) } }
	for name, tc := range map[string]struct {
		config func(*receiver.Config)
		header http.Header
		body   io.Reader
		want   int
		reason string
	}{
		"unsigned":             {nil, http.Header{}, strings.NewReader(body), 401, "webhook-id is missing"},
		"forged":               {nil, headers(v1B), strings.NewReader(body), 401, "signature does not match"},
		"old":                  {old, headers(v1A), strings.NewReader(body), 401, "too old"},
		"too large, announced": {limit(94), headers(v1A), strings.NewReader(body), 413, "the limit is 94 bytes"},
		"too large, streamed":  {limit(94), headers(v1A), iotest.OneByteReader(strings.NewReader(body)), 413, "the limit is 94 bytes"},
		"endless":              {nil, headers(v1A), endless{}, 413, "too large"},
		"broken off":           {nil, headers(v1A), iotest.ErrReader(errors.New("s3cret detail")), 400, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, seen, _ := post(t, newVerifier(t, tc.config), tc.header, tc.body)
			text, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != tc.want || !bytes.Contains(text, []byte(tc.reason)) {
				t.Errorf("answer %d %q, want %d with %q", answer.StatusCode, text, tc.want, tc.reason)
			}
			if seen != nil {
				t.Error("the handler was called")
			}
			if bytes.Contains(text, []byte("s3cret")) {
				t.Errorf("answer %q holds inner details", text)
			}
		})
	}
}

// A length that is announced needs no reading to be refused.
func TestMiddlewareRefusesByAnnouncedLength(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hook", iotest.ErrReader(errors.New("was read")))
	r.Header, r.ContentLength = headers(v1A), receiver.DefaultMaxBody+1
	w := httptest.NewRecorder()
	newVerifier(t, nil).Middleware(http.NotFoundHandler()).ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("answer %d %q, want 413", w.Code, w.Body)
	}
}

// endless never runs out; reading all of it would not return.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestMiddlewareLeavesTheRequestOfItsCallerAlone(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hook", strings.NewReader(body))
	r.Header = headers(v1A)
	before := r.Body
	newVerifier(t, nil).Middleware(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	if _, ok := receiver.FromContext(r.Context()); ok || r.Body != before {
		t.Error("the original request was changed")
	}
}

func TestFromContextWithoutMiddleware(t *testing.T) {
	t.Parallel()
	if event, ok := receiver.FromContext(t.Context()); ok {
		t.Errorf("FromContext = %+v, want none", event)
	}
}
