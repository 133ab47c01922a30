package sim

// Column is a stretch of a trace, as a chart shows it.
type Column struct {
	At        float64 // seconds from the beginning to its middle
	Arrivals  int     // the most of one second: a peak must not be averaged away
	Delivered float64 // per second on average
}

// Columns cuts the first seconds of a trace into at most so many columns, each of
// the same width in seconds.
func (t *Trace) Columns(most, length int) (list []Column, width int) {
	width = max(1, (length+most-1)/most)
	for from := 0; from < min(length, len(t.Arrivals)); from += width {
		c := Column{At: float64(from) + float64(width)/2}
		to := min(from+width, len(t.Arrivals))
		for i := from; i < to; i++ {
			c.Arrivals = max(c.Arrivals, t.Arrivals[i])
			c.Delivered += float64(t.Delivered[i]) / float64(to-from)
		}
		list = append(list, c)
	}
	return list, width
}
