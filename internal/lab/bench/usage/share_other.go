//go:build !unix

package usage

import "github.com/prometheus/procfs"

// proportional is not known here.
func proportional(procfs.Proc) (int64, bool) { return 0, false }
