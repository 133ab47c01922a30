// Package window keeps account of one lane's deliveries: which of them are in
// memory, and when the earliest of those that are only on disk falls due.
//
// A delivery is in memory from the moment it is admitted until the result of its
// last attempt is stored. Reads of the store run beside settles, so a read may
// bring rows that are older than what the window knows. Three laws hold whatever
// the order of events is:
//
//   - No delivery is queued twice: what waits, is in flight, or has a result on its
//     way to the store is not admitted again.
//   - What was settled during a read is not admitted from that read: the read may
//     have seen the row as it was before.
//   - What is due on disk is never forgotten: every pending row that is not in
//     memory, and that the window was told of, is covered by diskDue.
//
// It is pure: no clock, no goroutine, no store. Time comes in as an argument, and
// what the lane lets through as a Gate.
package window
