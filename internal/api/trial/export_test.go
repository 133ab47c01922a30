package trial

import "github.com/breakwaterhq/breakwater/internal/sim"

// Limits are those of a run.
func (b *Bench) Limits() *sim.Limits { return &b.most }

// Occupy uses the bench until the function that it returns is called.
func (b *Bench) Occupy() (release func()) {
	b.free <- struct{}{}
	return func() { <-b.free }
}
