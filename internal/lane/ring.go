package lane

// ring remembers which of the latest results were bad.
type ring struct {
	bad  []bool
	next int
	n    int // results in it
	sum  int // bad ones
}

func newRing(size int) ring { return ring{bad: make([]bool, max(size, 1))} }

func (r *ring) add(bad bool) {
	if r.n == len(r.bad) {
		if r.bad[r.next] {
			r.sum--
		}
	} else {
		r.n++
	}
	r.bad[r.next] = bad
	if bad {
		r.sum++
	}
	r.next = (r.next + 1) % len(r.bad)
}

func (r *ring) full() bool { return r.n == len(r.bad) }

func (r *ring) reset() { *r = ring{bad: r.bad} }
