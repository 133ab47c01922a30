//go:build !unix

package bench

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// inGroup starts a process like any other: there are no groups of processes here.
func inGroup(int) *syscall.SysProcAttr { return nil }

// ownCPU cannot be told here, and a figure without it would not be one.
func ownCPU() (time.Duration, error) {
	return 0, fmt.Errorf("measure CPU time: %w", errors.ErrUnsupported)
}
