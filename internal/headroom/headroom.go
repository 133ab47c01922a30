// Package headroom keeps the garbage collector from running all the time in a
// server whose live data is small and whose turnover is large.
//
// It sets no limit and reads no setting: GOGC and GOMEMLIMIT mean what they
// always mean.
package headroom

import "runtime"

// reserve is what counts as live besides the data: with 10 MiB of it the next
// cycle begins at about 50 MiB instead of 20.
const reserve = 32 << 20

// Take reserves address space until it is given back. The collector starts a
// cycle when the heap has grown by what survived the last one; the space
// survives and so lets the heap grow further, but it is never touched, so it
// takes no memory of its own. The more live data there is the less it matters.
func Take() (giveBack func()) {
	space := make([]byte, reserve)
	return func() { runtime.KeepAlive(space) }
}
