package postgres

import "github.com/breakwaterhq/breakwater/internal/hook"

// Advisory locks by their first number; the second one tells objects apart.
// Batches take them in this order, then rows, so that no two of them can wait
// for each other in a circle: tenants, shards, 7009, keys (rows), deliveries
// (rows, by id).
const (
	// 7001, written out in its statements, is the shard: shared by settles and
	// by accepts that defer rows, exclusive for a take-over.

	// lockPartitions: whoever creates partitions.
	lockPartitions = 7002
	// lockTenant: shared by accepts, exclusive for changes of a tenant's
	// configuration. An accept therefore either sees the change and is stale,
	// or has committed before it, so that a deletion finds all deliveries.
	lockTenant = 7003
	// lockPrune: the one node that prunes.
	lockPrune = 7004
	// lockNodes: nodes that join, so that two never get one slot.
	lockNodes = 7005
	// lockKeys: whoever revokes API keys, so that two cannot revoke the last
	// two admin keys at once.
	lockKeys = 7006
	// lockMigrate: the node that migrates.
	lockMigrate = 7007
	// lockReplays: the replay that starts, so that two never feed one endpoint.
	lockReplays = 7008

	// lockStats: whoever adds to figures, or makes coarser ones of them.
	lockStats = 7010
	// lockChannels: whoever decides notices for channels, or removes channels.
	lockChannels = 7011
	// lockPolicies: shared by whoever refers to a named policy, exclusive for changes
	// of named policies. It comes before the tenant's.
	lockPolicies = 7012
	// lockKept: shared by whoever creates deliveries of old events, exclusive for
	// the node that prunes when it begins with a day. It comes after the tenant's.
	lockKept = 7013

	// 7009, written out in its statements, is a node: shared by its batches and
	// take-overs, exclusive for another one that moves its floor. That one only
	// tries: it must not wait for a node that stands still, nor others for it.
)

// lockNumber maps an id to the second number of its lock. Two ids with the same
// number only wait for each other for no need.
func lockNumber(id hook.ID) int32 { return int32(uint64(id) ^ uint64(id)>>32) }
