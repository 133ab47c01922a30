package receiver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
)

type contextKey struct{}

// FromContext returns the event that Middleware verified.
func FromContext(ctx context.Context) (Event, bool) {
	e, ok := ctx.Value(contextKey{}).(Event)
	return e, ok
}

// Middleware verifies every request before next sees it: next gets the Event
// from the context and can read the body again. Requests that are not verified
// are answered here: 413 when the body is too large, 400 when it cannot be
// read, else 401, with the reason as text.
func (v *Verifier) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := v.readBody(w, r)
		if err != nil {
			refuse(w, err, http.StatusBadRequest)
			return
		}
		event, err := v.Verify(r.Header, body)
		if err != nil {
			refuse(w, err, http.StatusUnauthorized)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), contextKey{}, event))
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		next.ServeHTTP(w, r)
	})
}

var errRead = errors.New("webhook body cannot be read")

// readBody reads at most one byte more than allowed, whatever length the
// request claims to have.
func (v *Verifier) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > v.maxBody {
		return nil, v.tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, v.maxBody))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, v.tooLarge()
	case err != nil:
		return nil, errRead
	}
	return body, nil
}

func refuse(w http.ResponseWriter, err error, code int) {
	if errors.Is(err, ErrTooLarge) {
		code = http.StatusRequestEntityTooLarge
	}
	http.Error(w, err.Error(), code)
}

// eventType returns the first "type" of a JSON object when it is a string. It
// reads no further than that, and spells the name exactly, which decoding into
// a struct would not.
func eventType(body []byte) string {
	dec := json.NewDecoder(bytes.NewReader(body))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return ""
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return ""
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return ""
		}
		if name == "type" {
			var s string
			if json.Unmarshal(value, &s) != nil {
				return ""
			}
			return s
		}
	}
	return ""
}

// maxTypeLength is the length of the longest event type.
const maxTypeLength = 128

// typeHint reads the unsigned type; what no event can have as its type counts as none.
func typeHint(s string) string {
	if len(s) > maxTypeLength {
		return ""
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.':
		default:
			return ""
		}
	}
	return s
}

// attemptNumber reads the unsigned hint; nonsense counts as none.
func attemptNumber(s string) int {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}
