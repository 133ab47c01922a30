// Package evaluate finds out what people must be told of: it reads what is stored
// of the fleet, lets package alert judge it, and stores what that decides. One node
// at a time does so, the owner of shard 0, and every write is fenced by the epoch
// in which it owns the shard: one that was paused and thinks that it still is the
// owner changes nothing.
//
// Everything is read from the store, whoever put it there: figures that are stored
// with the results that they count, checkpoints of lanes, what the owners of lanes
// and every node saved in their last round. Another node can therefore go on at any
// round.
//
// A round reads only subjects that may have something: those with an alert, an open
// lane, a storm or a warning, a disabled or paused endpoint, or trouble in their
// figures. It reads them one after the other on one connection at a time, at most
// maxSubjects of them and for at most a part of the time between two rounds. What it
// could not read it calls unread: no alert ends for want of a reading.
//
// It does not say what is wrong (package alert does) and sends nothing (package
// notify does). It changes nothing but alerts.
package evaluate
