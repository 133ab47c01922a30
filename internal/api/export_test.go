package api

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

// ValidJSON is validJSON for tests.
var ValidJSON = validJSON

// Members returns the values of the members of an object by name; ok is false
// when obj is anything but one valid object.
func Members(obj []byte) (values map[string][]byte, ok bool) {
	list, ok := appendMembers(nil, obj)
	values = make(map[string][]byte, len(list))
	for _, m := range list {
		values[m.name] = m.value
	}
	return values, ok
}
