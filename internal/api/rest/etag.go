package rest

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// IfMatch makes a change conditional.
type IfMatch struct {
	IfMatch string `header:"If-Match" doc:"The version the change is based on, in quotes; 412 when the object has moved on."`
}

// Output is an answer with a body.
type Output[T any] struct{ Body T }

// Versioned is an answer that shows an object with a version.
type Versioned[T any] struct {
	ETag string `header:"ETag" doc:"The version, in quotes."`
	Body T
}

// Created is the answer to a POST that made an object.
type Created[T any] struct {
	Location string `header:"Location"`
	Body     T
}

// DefaultStatus is 201.
func (*Created[T]) DefaultStatus() int { return http.StatusCreated }

// Accepted is the answer to a request that is carried out later.
type Accepted[T any] struct{ Body T }

// DefaultStatus is 202.
func (*Accepted[T]) DefaultStatus() int { return http.StatusAccepted }

// Nothing is an answer without a body.
type Nothing struct{}

// ETag writes a version as a header.
func ETag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }

// version returns the version asked for, 0 for any.
func (m IfMatch) version() (int64, error) {
	s := strings.TrimSpace(m.IfMatch)
	if s == "" || s == "*" {
		return 0, nil
	}
	if len(s) > 2 && s[0] == '"' && s[len(s)-1] == '"' {
		if v, err := strconv.ParseInt(s[1:len(s)-1], 10, 64); err == nil && v > 0 {
			return v, nil
		}
	}
	return 0, BadParameter("header.If-Match", `must be a version in quotes, such as "3"`)
}

// Check compares the version asked for with the one that is stored.
func (m IfMatch) Check(stored int64) error {
	want, err := m.version()
	if err != nil {
		return err
	}
	if want != 0 && want != stored {
		return hook.ErrVersionMismatch
	}
	return nil
}

// maxUpdateTries bounds how often a change without If-Match is applied anew to
// an object that changed meanwhile.
const maxUpdateTries = 5

// Update runs change until it does not collide with another writer. A client
// that gave a version is told of the collision instead.
func Update[T any](m IfMatch, change func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		out, err := change()
		if !errors.Is(err, hook.ErrVersionMismatch) || m.IfMatch != "" || try == maxUpdateTries {
			return out, err
		}
	}
}
