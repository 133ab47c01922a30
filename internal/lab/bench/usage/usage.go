// Package usage tells what processes have used: CPU time, memory, bytes
// written. Its source is /proc, so it works on Linux only.
//
// It measures other processes from outside and changes nothing.
package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// tick is the unit of CPU times in /proc: USER_HZ is 100 on every
// architecture that Go runs on.
const tick = 10 * time.Millisecond

// Usage is what a group of processes has used since it began.
type Usage struct {
	CPU     time.Duration // user and system
	Written int64         // bytes sent to storage
	Peak    int64         // sum of the largest resident sizes so far, in bytes
	Now     int64         // memory now; what is shared is counted once
}

// Add returns the sum.
func (u Usage) Add(v Usage) Usage {
	return Usage{CPU: u.CPU + v.CPU, Written: u.Written + v.Written, Peak: u.Peak + v.Peak, Now: u.Now + v.Now}
}

// Of returns what one process has used.
func Of(pid int) (Usage, error) {
	u, _, err := of(pid)
	return u, err
}

// OfTree returns what a process, its children and the children that it has
// outlived have used. It does not look at grandchildren.
func OfTree(pid int) (Usage, error) {
	total, reaped, err := of(pid)
	if err != nil {
		return Usage{}, err
	}
	total.CPU += reaped
	all, err := procfs.AllProcs()
	if err != nil {
		return Usage{}, fmt.Errorf("list processes: %w", err)
	}
	for _, p := range all {
		if s, err := p.Stat(); err != nil || s.PPID != pid {
			continue // another's child, or it has ended meanwhile
		}
		u, _, err := of(p.PID)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return Usage{}, err
		}
		total = total.Add(u)
	}
	return total, nil
}

// of also returns the CPU time of the children that the process has waited for.
func of(pid int) (u Usage, reaped time.Duration, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return u, 0, fmt.Errorf("find process: %w", err)
	}
	stat, err := p.Stat()
	if err != nil {
		return u, 0, fmt.Errorf("read CPU time: %w", err)
	}
	status, err := p.NewStatus()
	if err != nil {
		return u, 0, fmt.Errorf("read memory: %w", err)
	}
	io, err := p.IO()
	if err != nil {
		return u, 0, fmt.Errorf("read bytes written: %w", err)
	}
	u = Usage{
		CPU:     time.Duration(stat.UTime+stat.STime) * tick,
		Written: int64(io.WriteBytes),
		Peak:    int64(status.VmHWM),
		Now:     int64(status.VmRSS), // the next best figure: shared pages count several times
	}
	if share, ok := proportional(p); ok {
		u.Now = share
	}
	return u, time.Duration(stat.CUTime+stat.CSTime) * tick, nil
}

// Busy returns how long the machine's processors were busy since it started,
// summed over all of them, with what a hypervisor took away.
func Busy() (time.Duration, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("read machine's CPU time: %w", err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0, fmt.Errorf("read machine's CPU time: %w", err)
	}
	c := stat.CPUTotal
	seconds := c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
	return time.Duration(seconds * float64(time.Second)), nil
}
