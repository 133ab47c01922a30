//go:build unix

package usage

import "github.com/prometheus/procfs"

// proportional is the memory of a process in which a page that several share is
// divided among them, where the kernel tells it.
func proportional(p procfs.Proc) (int64, bool) {
	shares, err := p.ProcSMapsRollup()
	if err != nil {
		return 0, false
	}
	return int64(shares.Pss), true
}
