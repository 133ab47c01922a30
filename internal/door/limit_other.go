//go:build !unix

package door

// Descriptors returns how many descriptors this process may have, as far as we
// can tell.
func Descriptors() uint64 { return 16_384 }
