package lease

import (
	"math"
	"time"
)

// Owned returns how many shards are this node's.
func (o *Owner) Owned() (n int) {
	for i := range o.owned {
		if o.owned[i].Load() {
			n++
		}
	}
	return n
}

// Age returns how long ago the leases were renewed, and false on a database that
// is not shared, where they last for ever.
func (o *Owner) Age() (time.Duration, bool) {
	deadline := o.deadline.Load()
	since := time.Since(o.started)
	switch deadline {
	case math.MaxInt64:
		return 0, false
	case 0: // never yet
		return since, o.cfg.Store.Shared()
	default:
		return since - (time.Duration(deadline) - o.cfg.TTL), true
	}
}
