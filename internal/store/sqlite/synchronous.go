//go:build !torture_unsafe

package sqlite

// How commits reach the disk, as it is asked for and as SQLite then says it
// is. There is no setting for less.
const (
	synchronous      = "FULL"
	synchronousLevel = "2"
)
