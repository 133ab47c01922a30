package sim

import "math"

// drained is told when a backlog is gone. The run goes on for a while, to see
// that it stays so; after the first of two outages everything else follows.
func (w *world) drained() {
	if w.s.Again.After == 0 || w.metrics.span == &w.metrics.second {
		w.stopAt = min(w.stopAt, w.now+settleTime)
		return
	}
	w.stopAt = math.Inf(1)
	w.after(settleTime, w.restart)
}

// restart ends what is measured of the first outage, and gives every lane a new
// owner.
func (w *world) restart() {
	w.metrics.endFirst()
	for _, p := range w.places {
		p.send.restart(w.s.Again.Gap.seconds())
	}
	if w.s.Again.Capacity > 0 {
		w.after(w.s.Again.After.seconds()/2, func() {
			for _, d := range w.dests {
				d.becomes(w.s.capacityAgain())
			}
		})
	}
	w.after(w.s.Again.After.seconds(), w.secondOutage)
}

func (w *world) secondOutage() {
	w.metrics.beginSecond()
	o := w.s.Outages[0]
	for _, d := range w.dests {
		d.startOutage(o)
	}
	w.after(w.s.againFor(), func() {
		for _, d := range w.dests {
			d.endOutage()
		}
		w.metrics.recovered()
		w.stopAt = w.now + w.s.patienceAgain()
	})
}
