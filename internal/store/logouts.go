package store

import (
	"context"
	"time"
)

// Logouts remembers sessions of the dashboard that were ended before their time.
type Logouts interface {
	// EndSession ends a session, which would have ended at until at the latest. Those
	// whose time has come at now are forgotten.
	EndSession(ctx context.Context, id [16]byte, until, now time.Time) error
	// SessionEnded reports whether a session was ended.
	SessionEnded(ctx context.Context, id [16]byte) (bool, error)
}
