package window

import "time"

// Len returns how many deliveries are in memory.
func (w *Window) Len() int { return len(w.items) }

// DiskDue returns when the earliest delivery that is only on disk falls due, as
// far as is known; zero: there is none.
func (w *Window) DiskDue() time.Time { return w.diskDue }
