package bench

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/bench/histogram"
)

// Machine is what the figures were measured on.
type Machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	Memory     int64  `json:"memory_bytes"`
	Kernel     string `json:"kernel"`
	Filesystem string `json:"filesystem"` // of the data
	Go         string `json:"go"`
	Postgres   string `json:"postgres,omitempty"`
	// Sync is what it takes to write 4 KiB and wait until they are on disk.
	SyncP50 float64 `json:"fsync_p50_ms"`
	SyncP99 float64 `json:"fsync_p99_ms"`
}

// describeMachine looks around. Only the probe of the disk can fail.
func describeMachine(dir string) (Machine, error) {
	m := Machine{
		CPU: cmp.Or(lineOf("/proc/cpuinfo", "model name"), runtime.GOARCH), Cores: runtime.NumCPU(),
		Kernel: readLine("/proc/sys/kernel/osrelease"), Filesystem: filesystemOf(dir), Go: runtime.Version(),
	}
	var kib int64
	if _, err := fmt.Sscanf(lineOf("/proc/meminfo", "MemTotal"), "%d", &kib); err == nil {
		m.Memory = kib * 1024
	}
	var err error
	m.SyncP50, m.SyncP99, err = probeSync(dir)
	return m, err
}

// lineOf returns the value of the first "name : value" in a file.
func lineOf(path, name string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func readLine(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(raw))
}

// filesystemOf returns the type of the file system that holds a folder: that
// of the longest mount point above it.
func filesystemOf(dir string) string {
	raw, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "unknown"
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "unknown"
	}
	best, kind := "", "unknown"
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		point := fields[1]
		inside := point == "/" || dir == point || strings.HasPrefix(dir, point+"/")
		if inside && len(point) >= len(best) {
			best, kind = point, fields[2]
		}
	}
	return kind
}

// inMemory tells file systems that have no disk.
func (m *Machine) inMemory() bool {
	return m.Filesystem == "tmpfs" || m.Filesystem == "ramfs"
}

// probeSync measures what every durable commit has to wait for.
func probeSync(dir string) (p50, p99 float64, err error) {
	const rounds = 100
	file, err := os.CreateTemp(dir, "fsync-")
	if err != nil {
		return 0, 0, fmt.Errorf("probe disk: %w", err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	var h histogram.Histogram
	block := make([]byte, 4096)
	for range rounds {
		start := time.Now()
		if _, err := file.Write(block); err != nil {
			return 0, 0, fmt.Errorf("probe disk: %w", err)
		}
		if err := file.Sync(); err != nil {
			return 0, 0, fmt.Errorf("probe disk: %w", err)
		}
		h.Record(time.Since(start))
	}
	l := latencyOf(&h)
	return l.P50, l.P99, nil
}
