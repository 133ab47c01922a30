package dispatch

// Resting returns how many goroutines wait for an attempt to make.
func (d *Dispatcher) Resting() int {
	d.crew.mu.Lock()
	defer d.crew.mu.Unlock()
	return len(d.crew.resting)
}

// Miscounted returns how many lanes have a window that is wrong about how many
// deliveries wait in their queue.
func (d *Dispatcher) Miscounted() int {
	wrong := make(chan int, len(d.loops))
	for _, l := range d.loops {
		l.post(func() {
			n := 0
			for _, r := range l.runners {
				if r.win.Waiting() != r.lane.Queued() {
					n++
				}
			}
			wrong <- n
		})
	}
	sum := 0
	for range d.loops {
		sum += <-wrong
	}
	return sum
}

// More is the rule by which slots are shared between tenants.
func More(used, free, size int) int { return more(used, free, size, tenantShare) }
