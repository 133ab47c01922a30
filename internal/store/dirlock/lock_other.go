//go:build !unix

package dirlock

import (
	"errors"
	"os"
)

// lock refuses: without a lock that dies with its process, a second process
// could not be kept out.
func lock(*os.File) error { return errors.ErrUnsupported }
