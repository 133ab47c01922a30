//go:build unix

package app

import (
	"fmt"
	"syscall"
)

// DiskFree is what an ordinary user may still write to the file system of a folder.
func DiskFree(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("statfs: %w", err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil //nolint:unconvert // smaller on some systems
}
