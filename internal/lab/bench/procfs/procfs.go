// Package procfs reads what processes have used: CPU time, memory, bytes
// written. Its source is /proc, so it works on Linux only.
//
// It measures other processes from outside and changes nothing.
package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
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
	s, err := readStat(pid)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{CPU: s.own}
	err = u.addMemoryAndIO(pid)
	return u, err
}

// OfTree returns what a process, its children and the children that it has
// outlived have used. It does not look at grandchildren.
func OfTree(pid int) (Usage, error) {
	root, err := readStat(pid)
	if err != nil {
		return Usage{}, err
	}
	total := Usage{CPU: root.own + root.reaped}
	if err := total.addMemoryAndIO(pid); err != nil {
		return Usage{}, err
	}
	children, err := childrenOf(pid)
	if err != nil {
		return Usage{}, err
	}
	for _, child := range children {
		u, err := Of(child)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return Usage{}, err
		}
		total = total.Add(u)
	}
	return total, nil
}

// stat is what /proc/<pid>/stat says.
type stat struct {
	parent      int
	own, reaped time.Duration // CPU of the process; of children it has waited for
}

func readStat(pid int) (stat, error) {
	raw, err := os.ReadFile(file(pid, "stat"))
	if err != nil {
		return stat{}, fmt.Errorf("read CPU time: %w", err)
	}
	return parseStat(raw)
}

// parseStat reads the fields after the name, which is in parentheses and may
// contain anything: state, parent, …; 14 to 17 are the CPU times.
func parseStat(raw []byte) (stat, error) {
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("unreadable process state %q", raw)
	}
	var n [5]int64
	for i, field := range []int{1, 11, 12, 13, 14} {
		v, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("unreadable process state %q: %w", raw, err)
		}
		n[i] = v
	}
	return stat{parent: int(n[0]), own: time.Duration(n[1]+n[2]) * tick, reaped: time.Duration(n[3]+n[4]) * tick}, nil
}

// addMemoryAndIO adds what the other files say.
func (u *Usage) addMemoryAndIO(pid int) error {
	status, err := readValues(file(pid, "status"))
	if err != nil {
		return fmt.Errorf("read memory: %w", err)
	}
	io, err := readValues(file(pid, "io"))
	if err != nil {
		return fmt.Errorf("read bytes written: %w", err)
	}
	u.Peak += status["VmHWM"]
	u.Written += io["write_bytes"]
	shares, err := readValues(file(pid, "smaps_rollup"))
	if err != nil {
		u.Now += status["VmRSS"] // an old kernel: shared pages count several times
		return nil               //nolint:nilerr // the next best figure
	}
	u.Now += shares["Pss"]
	return nil
}

// readValues reads lines such as "VmHWM:  1234 kB" as bytes.
func readValues(path string) (map[string]int64, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	values := make(map[string]int64)
	for line := range strings.Lines(string(raw)) {
		name, text, _ := strings.Cut(line, ":")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			continue // a text
		}
		if len(fields) > 1 && fields[1] == "kB" {
			n *= 1024
		}
		values[name] = n
	}
	return values, nil
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []int
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(child); err == nil && s.parent == pid {
			out = append(out, child)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Busy returns how long the machine's processors were busy since it started,
// summed over all of them, with what a hypervisor took away.
func Busy() (time.Duration, error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read machine's CPU time: %w", err)
	}
	return parseBusy(raw)
}

// parseBusy reads "cpu user nice system idle iowait irq softirq steal …".
func parseBusy(raw []byte) (time.Duration, error) {
	first, _, _ := strings.Cut(string(raw), "\n")
	fields := strings.Fields(first)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("unreadable machine state %q", first)
	}
	var sum int64
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("unreadable machine state %q: %w", first, err)
		}
		sum += n
	}
	return time.Duration(sum) * tick, nil
}

func file(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}
