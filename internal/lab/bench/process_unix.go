//go:build unix

package bench

import (
	"fmt"
	"syscall"
	"time"
)

// inGroup starts a process in a group of processes; 0 means one of its own.
func inGroup(id int) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true, Pgid: id} }

// ownCPU is the CPU time that this process has used.
func ownCPU() (time.Duration, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("read own CPU time: %w", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}
