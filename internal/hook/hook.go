// Package hook holds the nouns of Breakwater: tenants, endpoints, events,
// deliveries, attempts, their ids, states and closed lists of classes and
// reasons, and the errors every layer agrees on.
//
// It decides nothing and reaches nothing: no clock, no randomness, no I/O.
// What an outcome means is in package policy, when a request may start is in
// package lane.
package hook

import "errors"

// Errors that cross package borders. Adapters wrap them with %w; the API turns
// them into problem documents.
var (
	ErrNotFound         = errors.New("not found")
	ErrUIDTaken         = errors.New("uid is already taken")
	ErrVersionMismatch  = errors.New("version does not match")
	ErrStateConflict    = errors.New("state does not allow this")
	ErrTenantNotEmpty   = errors.New("tenant is not empty")
	ErrLastAdminKey     = errors.New("the last admin key cannot be revoked")
	ErrTooManySecrets   = errors.New("too many active secrets")
	ErrTooManyEndpoints = errors.New("too many endpoints")
	ErrTooManyChannels  = errors.New("too many alert channels")
	ErrTooManyPolicies  = errors.New("too many named policies")
	ErrPolicyUnknown    = errors.New("the named policy does not exist")

	// ErrStoreUnavailable means that the store could not confirm the write:
	// nothing was promised and the same request may be sent again.
	ErrStoreUnavailable = errors.New("store is unavailable")
	// ErrStoreFull means that the store refuses new data for lack of space.
	ErrStoreFull = errors.New("store is full")
)

// Shards is the fixed number of shards that lanes are grouped into. It is part
// of the stored data and can never change.
const Shards = 256

// ShardOf returns the shard of an endpoint. Ids are time-ordered, so they are
// mixed first (splitmix64) to spread neighbours over all shards.
func ShardOf(endpoint ID) int {
	x := uint64(endpoint) + 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return int((x ^ (x >> 31)) % Shards)
}
