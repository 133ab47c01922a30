// Package deferred decides when the row of a delivery is inserted.
//
// Most deliveries succeed at once. The store on Postgres defers their rows: the
// accept stores the event, whose row names its deliveries, and the row of a
// delivery is inserted with the result of its first attempt. Whoever wants to see
// deliveries has the deferred rows inserted first.
//
// The words:
//
//   - A deferred delivery is stored, but has no row yet. It is the node's own when
//     the node owns its lane, or handed off to the node that owns it, which is told
//     by an announcement.
//   - The floor of a node is at or below its oldest event with a deferred delivery.
//     Whoever takes shards over looks at the events from the least floor on.
//   - A fence is a shard with its epoch. A delivery is deferred only if the node
//     owns the shard in that epoch when it commits: that of the lane if it is its
//     own, else any. So somebody takes the shard over should the node die, and
//     finds the delivery.
//
// It is pure like package lane: values in, decisions out, no clock, no goroutine,
// no SQL. The mutex of a Node is there because reads ask beside commits.
package deferred
