package store

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Answers keeps what was answered to requests under idempotency keys. Whoever writes
// an audit record with a Claim stores that too, and fails with hook.ErrRepeated when
// another request has claimed the key and has not expired at the record's time.
type Answers interface {
	// AnswerOf returns the claim of a key that has not expired at now, else
	// hook.ErrNotFound.
	AnswerOf(ctx context.Context, tenant hook.ID, route, key string, now time.Time) (KeptAnswer, error)
	// KeepAnswer adds the answer to the claim. Without the claim, because nothing
	// was changed, it does nothing.
	KeepAnswer(ctx context.Context, c hook.Claim, sealed []byte) error
}

// KeptAnswer is a request that was carried out.
type KeptAnswer struct {
	hook.Claim
	Subject string // shown id of what was changed
	Sealed  []byte // nil: not known, or not yet
}
