//go:build unix

package door

import "syscall"

// Descriptors returns how many descriptors this process may have.
func Descriptors() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fallbackDescriptors
	}
	return uint64(l.Cur) //nolint:unconvert // signed on some systems
}

// fallbackDescriptors is what systems commonly allow.
const fallbackDescriptors = 1024
