package rest

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// NewShelf is newShelf for tests, Take its method.
var NewShelf = newShelf

// Take is take for tests.
func (s *shelf) Take(ctx context.Context, key hook.ID, size int64) (func(), error) {
	return s.take(ctx, key, size)
}

// FieldProblemOf is fieldProblem for tests.
var FieldProblemOf = fieldProblem

// ProblemOf is problemOf for tests.
var ProblemOf = problemOf
