// Package lane is the pure control law of one endpoint: when the next request
// may start, which delivery it carries, and what an outcome teaches.
//
// It is a state machine of plain values: no clock, no goroutine, no I/O, no
// global randomness. The dispatcher and the simulator drive the same code.
// What an outcome means for the delivery itself is decided in package policy.
package lane
