package trial

// Occupy uses the bench until the function that it returns is called.
func (b *Bench) Occupy() (release func()) {
	b.free <- struct{}{}
	return func() { <-b.free }
}
