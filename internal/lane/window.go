package lane

import "time"

// window counts what happened within the last second.
type window struct {
	slot   int64
	counts [windowSlots + 1]int32
	sum    int32
}

const (
	windowSlots = 20
	windowSlot  = time.Second / windowSlots
)

func (w *window) add(now time.Time) {
	w.roll(now)
	w.counts[w.slot%int64(len(w.counts))]++
	w.sum++
}

func (w *window) roll(now time.Time) {
	slot := now.UnixNano() / int64(windowSlot)
	if slot-w.slot > windowSlots {
		*w = window{slot: slot}
		return
	}
	for w.slot < slot {
		w.slot++
		i := w.slot % int64(len(w.counts))
		w.sum -= w.counts[i]
		w.counts[i] = 0
	}
}

// perSecond is the count of the last second; of the oldest slot the part that
// lies within it.
func (w *window) perSecond(now time.Time) float64 {
	w.roll(now)
	past := float64(now.UnixNano()%int64(windowSlot)) / float64(windowSlot)
	oldest := w.counts[(w.slot+1)%int64(len(w.counts))]
	return float64(w.sum) - past*float64(oldest)
}

const (
	meanMost  = 10 // whole seconds that a mean is of
	meanLeast = 5  // fewer say nothing
)

// mean counts what happens per second over the last ten seconds, or over as many
// as there are since it began.
type mean struct {
	second int64 // the running one
	since  int64 // the first after a pause
	counts [meanMost + 1]int32
	sum    int32 // of all but the running second
}

func (m *mean) add(now time.Time) {
	m.roll(now)
	if m.sum == 0 && m.counts[m.second%int64(len(m.counts))] == 0 {
		m.since = m.second
	}
	m.counts[m.second%int64(len(m.counts))]++
}

func (m *mean) roll(now time.Time) {
	second := now.Unix()
	if second-m.second > meanMost {
		*m = mean{second: second, since: second}
		return
	}
	for m.second < second {
		m.sum += m.counts[m.second%int64(len(m.counts))]
		m.second++
		i := m.second % int64(len(m.counts))
		m.sum -= m.counts[i]
		m.counts[i] = 0
	}
}

// perSecond is the mean of the whole seconds before now.
func (m *mean) perSecond(now time.Time) float64 {
	m.roll(now)
	return m.latest()
}

// most is the highest of the whole seconds before now and after since.
func (m *mean) most(now, since time.Time) float64 {
	m.roll(now)
	var most int32
	for second := max(since.Unix()+1, m.second-meanMost); second < m.second; second++ {
		most = max(most, m.counts[second%int64(len(m.counts))])
	}
	return float64(most)
}

// latest is the mean of the whole seconds before the last one that was counted.
func (m *mean) latest() float64 {
	n := min(max(m.second-m.since, meanLeast), meanMost)
	return float64(m.sum) / float64(n)
}
