package dispatch

// Resting returns how many goroutines wait for an attempt to make.
func (d *Dispatcher) Resting() int {
	d.crew.mu.Lock()
	defer d.crew.mu.Unlock()
	return len(d.crew.resting)
}
