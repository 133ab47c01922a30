package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"
)

// crewRest is how long a member of the crew may be without work; after up to
// twice that it is sent home.
const crewRest = 5 * time.Second

// crew are the goroutines that make attempts. How many there are is bounded by
// the slots. Who made an attempt last makes the next one: its stack has grown
// already and is still in the caches of the processor.
type crew struct {
	fly func(*flight)

	mu      sync.Mutex
	resting []chan *flight // who rests longest comes first; nil sends home
	fewest  int            // that rested at any time since the last look
	closed  bool
}

// send makes the attempt on a goroutine that rests, or on a new one.
func (c *crew) send(f *flight, work *sync.WaitGroup) {
	if member := c.wake(); member != nil {
		member <- f
		return
	}
	work.Go(func() { c.serve(f) })
}

// serve makes one attempt after the other until it is sent home.
func (c *crew) serve(f *flight) {
	self := make(chan *flight, 1)
	for f != nil {
		c.fly(f)
		if !c.rest(self) {
			return
		}
		f = <-self
	}
}

func (c *crew) wake() chan<- *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.resting) - 1
	if last < 0 {
		return nil
	}
	member := c.resting[last]
	c.resting = c.resting[:last]
	c.fewest = min(c.fewest, last)
	return member
}

// rest reports whether there may be more to do.
func (c *crew) rest(member chan *flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.resting = append(c.resting, member)
	}
	return !c.closed
}

// thin sends those home who were not needed for a while, until ctx ends.
func (c *crew) thin(ctx context.Context) {
	tick := time.NewTicker(crewRest)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.mu.Lock()
			c.sendHome(c.fewest)
			c.mu.Unlock()
		}
	}
}

// close sends everybody home, those who are still at work as soon as they are
// done.
func (c *crew) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.sendHome(len(c.resting))
}

// sendHome ends the n who rest longest. It is called with mu held.
func (c *crew) sendHome(n int) {
	for _, member := range c.resting[:n] {
		member <- nil // it has room: who rests was sent nothing else
	}
	c.resting = slices.Delete(c.resting, 0, n)
	c.fewest = len(c.resting)
}
