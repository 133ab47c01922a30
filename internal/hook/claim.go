package hook

import (
	"errors"
	"time"
)

// Claim makes a request under an idempotency key count once. It is stored with the
// record of the change, in the change's own transaction: of two requests under one key
// one is carried out.
type Claim struct {
	TenantID  ID // 0: the operator's
	Route     string
	Key       string
	Hash      [32]byte // of what was asked for
	Token     ID       // of the one request
	ExpiresAt time.Time
}

// ErrRepeated means that a request under the same idempotency key was carried out
// before. Nothing was changed.
var ErrRepeated = errors.New("a request under this idempotency key was carried out before")
