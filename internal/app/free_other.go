//go:build !unix

package app

import "errors"

// DiskFree cannot be told here. No server gets as far as to ask: the lock of its
// folder is refused before.
func DiskFree(string) (int64, error) { return 0, errors.ErrUnsupported }
