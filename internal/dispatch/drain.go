package dispatch

import (
	"sync"
	"time"
)

// settleGrace is how long cancelled attempts may take to be settled, and
// checkpoints to be stored when nothing else is left.
const settleGrace = 5 * time.Second

// drain stops admitting and waits until nothing is unsettled, cancelling the
// attempts that take longer than the drain timeout.
func (d *Dispatcher) drain() {
	d.stopAdmitting()
	if !d.await(d.cfg.DrainTimeout, d.settled) {
		d.cancelAttempts()
		if !d.await(settleGrace, d.settled) {
			d.cfg.Log.Warn("attempts were left unsettled; their events will be sent again", "attempts", d.slots.used())
			return
		}
	}
	if !d.await(settleGrace, func() bool { return d.unsaved.Load() <= 0 }) {
		d.cfg.Log.Warn("lanes were left without their last checkpoint", "lanes", d.unsaved.Load())
	}
}

func (d *Dispatcher) settled() bool { return d.slots.used() == 0 }

// stopAdmitting returns when no loop starts another attempt: one in the middle
// of its turn may just be starting some.
func (d *Dispatcher) stopAdmitting() {
	var stopped sync.WaitGroup
	for _, l := range d.loops {
		stopped.Add(1)
		l.post(func() {
			l.draining = true
			stopped.Done()
		})
	}
	stopped.Wait()
}

// await waits until done, for at most so long. With the store lost it does not
// wait at all: nothing will be settled any more.
func (d *Dispatcher) await(most time.Duration, done func() bool) bool {
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return false
		case <-d.storeLost:
			return false
		}
	}
	return true
}

// StoreLost says that the store has failed for good and no result will ever be
// settled: no attempt starts from now on, and stopping waits for none.
func (d *Dispatcher) StoreLost() {
	d.loseStore.Do(func() {
		d.owner.Silence()
		close(d.storeLost)
	})
}
