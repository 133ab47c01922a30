package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/jsonscan"
)

// readControlBody reads and checks the body of a route that huma decodes, and
// puts it back.
func readControlBody(rt *route, w http.ResponseWriter, r *http.Request) error {
	if rt.body == bodyNone {
		return nil
	}
	body, err := ReadBody(w, r, rt.maxBody, "")
	if err != nil {
		return err
	}
	if len(body) == 0 && rt.body == bodyOptional {
		r.Body = http.NoBody
		return nil
	}
	if err := CheckJSON(body); err != nil {
		return err
	}
	if err := checkNames(body); err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return nil
}

// ReadBody reads a body of at most limit bytes whose media type is JSON, or the other
// one that the route takes, which may be empty.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64, other string) ([]byte, error) {
	if err := checkMediaType(r.Header, other); err != nil {
		return nil, err
	}
	if r.ContentLength > limit {
		return nil, TooLarge(limit)
	}
	if r.ContentLength >= 0 { // net/http ends the body there
		body, err := readExactly(r.Body, int(r.ContentLength))
		if err != nil {
			return nil, errInvalidJSON("the body ended early")
		}
		return body, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, TooLarge(limit)
		}
		return nil, errInvalidJSON("the body ended early")
	}
	return body, nil
}

// firstRoom is what a body gets before a byte of it has come: a client that only
// announces a large one must not cost us its size.
const firstRoom = 64 << 10

// readExactly reads n bytes into a buffer that grows with what has arrived.
func readExactly(r io.Reader, n int) ([]byte, error) {
	body := make([]byte, min(n, firstRoom))
	for at := 0; ; {
		if _, err := io.ReadFull(r, body[at:]); err != nil {
			return nil, err
		}
		if at = len(body); at == n {
			return body, nil
		}
		grown := make([]byte, min(n, 4*at))
		copy(grown, body)
		body = grown
	}
}

// checkMediaType accepts JSON, nothing, and the form type that curl sends
// unless told otherwise. The last is safe because only bearer keys count: a
// browser cannot be made to send one.
func checkMediaType(h http.Header, other string) error {
	if enc := first(h["Content-Encoding"]); enc != "" && !strings.EqualFold(enc, "identity") {
		return errMediaType("compressed bodies are not taken")
	}
	ct := first(h["Content-Type"])
	if ct == "" || ct == "application/json" {
		return nil
	}
	mt, _, err := mime.ParseMediaType(ct)
	if err != nil {
		return errMediaType("the content type is malformed")
	}
	switch {
	case mt == "application/json", mt == "application/x-www-form-urlencoded", mt == "text/json":
		return nil
	case other == "":
		return errMediaType("the body must be application/json")
	case mt == other:
		return nil
	default:
		return errMediaType("the body must be application/json or " + other)
	}
}

// CheckJSON accepts one JSON value and nothing after it.
func CheckJSON(body []byte) error {
	if len(body) == 0 {
		return errInvalidJSON("a JSON body is required")
	}
	if jsonscan.Valid(body) {
		return nil
	}
	var raw json.RawMessage
	var syntax *json.SyntaxError
	if err := json.Unmarshal(body, &raw); errors.As(err, &syntax) {
		return errInvalidJSON(fmt.Sprintf("%s at byte %d", syntax, syntax.Offset))
	}
	return errInvalidJSON("the body is not JSON")
}
