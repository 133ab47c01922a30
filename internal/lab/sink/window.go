package sink

import "time"

// window knows how many there were in the last second, exactly.
type window struct {
	times []time.Time // those before head have left
	head  int
}

// keepTimes is how much memory a window keeps when nothing happens.
const keepTimes = 256

func (w *window) add(now time.Time) int {
	n := w.count(now)
	w.times = append(w.times, now)
	return n + 1
}

func (w *window) count(now time.Time) int {
	for w.head < len(w.times) && now.Sub(w.times[w.head]) >= time.Second {
		w.head++
	}
	w.times, w.head = compact(w.times, w.head)
	return len(w.times) - w.head
}

// compact gives the room before head back when it is worth a copy.
func compact(times []time.Time, head int) ([]time.Time, int) {
	switch {
	case head == len(times) && cap(times) > keepTimes:
		return nil, 0
	case head == len(times):
		return times[:0], 0
	case head > keepTimes && head > len(times)/2:
		return append(times[:0], times[head:]...), 0
	}
	return times, head
}

// bucket lets a rate through, and a burst at once.
type bucket struct {
	tokens float64
	at     time.Time // when tokens was right; zero: full
}

func (b *bucket) take(now time.Time, rate, burst float64) bool {
	if b.at.IsZero() {
		b.tokens = burst
	} else {
		b.tokens = min(burst, b.tokens+rate*now.Sub(b.at).Seconds())
	}
	b.at = now
	const rounding = 1e-9
	if b.tokens < 1-rounding {
		return false
	}
	b.tokens--
	return true
}

// line is a queue before workers that all take the same time. First come, first
// served: a request starts when the one so many places before it as there are
// workers is done. Who hangs up is served all the same, for nothing, as by most
// servers.
type line struct {
	done   []time.Time // of the last requests, one per worker: a ring
	oldest int         // in done
	starts []time.Time // of those that wait, from head on
	head   int
}

// enter returns how long a request that arrives now takes, or that there is no
// room for it.
func (l *line) enter(now time.Time, b *Behaviour) (took time.Duration, ok bool) {
	for l.head < len(l.starts) && !l.starts[l.head].After(now) {
		l.head++
	}
	l.starts, l.head = compact(l.starts, l.head)
	if l.done == nil {
		l.done = make([]time.Time, b.workers())
	}
	start := now
	if free := l.done[l.oldest]; free.After(now) {
		if len(l.starts)-l.head >= b.queue() {
			return 0, false
		}
		start = free
		l.starts = append(l.starts, start)
	}
	service := time.Duration(float64(b.workers()) / b.Capacity * float64(time.Second))
	l.done[l.oldest] = start.Add(service)
	l.oldest = (l.oldest + 1) % len(l.done)
	return start.Add(service).Sub(now), true
}
