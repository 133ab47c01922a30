package dispatch

import "time"

// crewRest is how long a goroutine waits for another attempt to make.
const crewRest = 5 * time.Second

// send makes the attempt on a goroutine that has just made another, if one is
// waiting: its stack has grown already. How many there are is bounded by the
// slots.
func (d *Dispatcher) send(f *flight) {
	select {
	case d.crew <- f:
	default:
		d.work.Go(func() { d.sendOn(f) })
	}
}

// sendOn makes one attempt after the other until there is none for a while.
func (d *Dispatcher) sendOn(f *flight) {
	rest := time.NewTimer(crewRest)
	defer rest.Stop()
	for {
		d.fly(f)
		rest.Reset(crewRest)
		select {
		case f = <-d.crew:
		case <-rest.C:
			return
		case <-d.attempts.Done():
			return
		}
	}
}
