package store

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// SealedKind is a place where values are stored that only a key opens.
type SealedKind uint8

// The places. A new one must be added here, or a change of keys would leave its
// values behind.
const (
	SealedSecret  SealedKind = 1 + iota // a signing secret of an endpoint
	SealedHeaders                       // the custom headers of an endpoint
	SealedChannel                       // what an alert channel keeps to itself
	SealedAnswer                        // an answer that is kept for its idempotency key
)

// SealedKinds lists all places.
func SealedKinds() []SealedKind {
	return []SealedKind{SealedSecret, SealedHeaders, SealedChannel, SealedAnswer}
}

// SealedValue is one value and what it is bound to.
type SealedValue struct {
	Kind   SealedKind
	ID     hook.ID // of its row, and its place in the list of its kind
	Tenant hook.ID
	Owner  hook.ID // endpoint, channel or claim
	Sealed []byte
}

// Resealed is a value that was sealed anew.
type Resealed struct {
	SealedValue // as it was read

	KeyID string
	Anew  []byte
}

// Seals is how keys are changed.
type Seals interface {
	// SealedAfter returns up to limit values of a kind whose ids are greater than
	// after, in the order of ids. Those of deleted endpoints are among them.
	SealedAfter(ctx context.Context, kind SealedKind, after hook.ID, limit int) ([]SealedValue, error)
	// Reseal stores values of one kind anew, those that are still as they were read:
	// what somebody has changed meanwhile stays. It returns how many it stored.
	// The versions of objects do not move, because nothing that they show does.
	Reseal(ctx context.Context, kind SealedKind, values []Resealed) (int64, error)
	// Setting returns what is stored under a name, "" for nothing.
	Setting(ctx context.Context, name string) (string, error)
	// ReplaceSetting stores value under name if old is what is there, "" for
	// nothing, else it fails with hook.ErrVersionMismatch.
	ReplaceSetting(ctx context.Context, name, old, value string, a hook.Audit) error
	// NoteKeys remembers by which keys a node opens values, and forgets those of
	// nodes that the store no longer knows.
	NoteKeys(ctx context.Context, node hook.ID, keys string) error
	// KeysOf returns what NoteKeys has noted.
	KeysOf(ctx context.Context, node hook.ID) (string, error)
}
