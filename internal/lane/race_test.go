//go:build race

package lane_test

import "flag"

// A lane starts no goroutine, so all that the race detector can find here is a
// variable that lanes share. That takes few checks; make test makes all of them
// without it, ten times as fast.
func init() { //nolint:gochecknoinits // before the flags are read, which may say otherwise
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
}
