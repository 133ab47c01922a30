//go:build torture_unsafe

package sqlite

import "os"

// Only test builds have this file. The power cuts of test/torture must find
// losses in a store that does not wait for the disk; otherwise that they find
// none in the real one would mean nothing.
var synchronous, synchronousLevel = unsafeSynchronous(os.Getenv("TORTURE_SYNCHRONOUS"))

func unsafeSynchronous(name string) (mode, level string) {
	switch name {
	case "OFF":
		return "OFF", "0"
	case "NORMAL":
		return "NORMAL", "1"
	default:
		return "FULL", "2"
	}
}
